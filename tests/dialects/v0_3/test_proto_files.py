"""How the bytes of a file are read and written; see the rules of proto_files."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.v0_3.forms import GRPC_FORM, GRPC_FORM_BASE64
from a2a_bridge.dialects.v0_3.proto_files import Files, decode_octets, encode_octets
from a2a_bridge.dialects.v0_3.proto_rows import writes_base64
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"


@pytest.mark.parametrize(
    ("octets", "media_type"),
    [
        (PNG, "image/png"),
        (b"test", "text/plain"),
        (b"data", ""),
        (b"deadbeefdeadbeef", "text/plain"),
        (b"true", "application/json"),
        (b"1234", "application/json"),
        (b"aGk", "text/plain"),
        (b"aGl=", "text/plain"),
        (b"aGVsbG8gd29ybGQ=\n", "text/plain"),
        (b"-_8=", "application/octet-stream"),
        (b"abcd", "application/octet-stream"),
        (b"", "text/plain"),
        (b64encode(PNG), "text/plain"),
        (b"0123456789abcdef0123456789abcdef", ""),
        (b"AREALLYLONGCONSTANT1", ""),
    ],
)
def test_content_is_read_as_content(octets: bytes, media_type: str) -> None:
    assert decode_octets(octets, media_type, Files.RAW) == (octets, Files.RAW)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (PNG, "IMAGE/PNG; q=1"),
        (PNG, "application/octet-stream"),
        (b"no picture at all", "image/png"),
        (b"\x00", "application/octet-stream"),
        (PNG, ""),
        (bytes(range(0x80, 0xB0)), ""),
        (b"%PDF-1.7 ...", "application/pdf"),
        (b"hello world", "text/plain"),
        (b"hello world", ""),
        ("grüße, 世界".encode(), "text/markdown; charset=utf-8"),
        (b'{"a": 1}', "application/json"),
        (b"<a/>", "image/svg+xml"),
    ],
)
def test_base64_is_recognised_by_what_it_decodes_to(content: bytes, media_type: str) -> None:
    assert decode_octets(b64encode(content), media_type, Files.RAW) == (content, Files.BASE64)


@given(st.binary())
def test_a_peer_known_for_base64_gets_every_content_through(content: bytes) -> None:
    written = encode_octets(content, Files.BASE64)
    assert written.isascii()
    assert decode_octets(written, "", Files.BASE64)[0] == content


@given(st.binary() | st.binary().map(b64encode), st.sampled_from(list(Files)))
def test_how_it_was_written_tells_what_was_written(octets: bytes, files: Files) -> None:
    content, written = decode_octets(octets, "", files)
    assert encode_octets(content, written) == octets


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("grpc-python-asyncio/1.76.0 grpc-c/51.0.0 (linux; chttp2)", True),
        ("python-httpx/0.28.1", True),
        ("a2a-bridge/1.0 grpc-python-asyncio/1.76.0 grpc-c/51.0.0 (linux; chttp2)", False),
        ("grpc-node-js/1.14.1", False),
        ("grpc-go/1.70.0", False),
        ("node", False),
        ("", False),
    ],
)
def test_callers_that_write_base64_are_known_by_their_user_agent(agent: str, expected: bool) -> None:
    assert writes_base64({"user-agent": agent}) is expected


def answered(user_agent: str) -> bytes:
    """What a caller gets in the bytes of a file that an agent answered with."""
    row = GRPC_FORM.row(ops.GET_TASK)
    assert row is not None
    assert row.spelled is not None
    row = row.spelled(b"", {"user-agent": user_agent})
    task = hub.Task(id="t", artifacts=[hub.Artifact(parts=[hub.Part(raw=PNG, media_type="image/png")])])
    wire = v0.Task.FromString(row.encode_response(task))
    return wire.artifacts[0].parts[0].file.file_with_bytes


def test_callers_get_files_as_they_write_them() -> None:
    assert answered("grpc-node-js/1.14.1") == PNG
    assert answered("grpc-python-asyncio/1.76.0") == b64encode(PNG)


def test_agents_get_base64_from_the_form_for_it() -> None:
    request = hub.SendMessageRequest(message=hub.Message(parts=[hub.Part(raw=PNG)]))
    for form, expected in ((GRPC_FORM, PNG), (GRPC_FORM_BASE64, b64encode(PNG))):
        row = form.row(ops.SEND_MESSAGE)
        assert row is not None
        wire = v0.SendMessageRequest.FromString(row.encode_request(request))
        assert wire.request.content[0].file.file_with_bytes == expected
