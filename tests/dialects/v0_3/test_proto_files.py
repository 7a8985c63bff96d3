"""Reading and writing the bytes of a file; see the rules of proto_files."""

from base64 import b64encode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext, Origin
from a2a_bridge.dialects import GRPC, V0_3, unmapped
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.v0_3 import proto as pairs
from a2a_bridge.dialects.v0_3.forms import GRPC_FORM
from a2a_bridge.dialects.v0_3.proto import decode_bytes, decode_tree, encode_bytes, encode_tree
from a2a_bridge.dialects.v0_3.proto_files import ENCODINGS, decode_content, encode_content
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from a2a_bridge.testing.each import each
from tests.strategies import messages

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"


@each(
    ("raw_bytes", "media_type"),
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
def test_content_is_read_as_content(raw_bytes: bytes, media_type: str) -> None:
    assert decode_content(raw_bytes, media_type, Files.AUTO) == (raw_bytes, Files.RAW)


@each(
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
def test_base64_is_recognised_by_its_content(content: bytes, media_type: str) -> None:
    assert decode_content(b64encode(content), media_type, Files.AUTO) == (content, Files.BASE64)


@given(st.binary())
def test_a_peer_known_for_base64_gets_every_content_through(content: bytes) -> None:
    written = encode_content(content, Files.BASE64)
    assert written.isascii()
    assert decode_content(written, "", Files.BASE64)[0] == content


@given(st.binary() | st.binary().map(b64encode), st.sampled_from(ENCODINGS))
def test_the_encoding_of_a_file_is_restored(raw_bytes: bytes, files: Files) -> None:
    content, written = decode_content(raw_bytes, "", files)
    assert encode_content(content, written) == raw_bytes


def test_nothing_is_decoded_that_a_peer_known_for_content_wrote() -> None:
    for raw_bytes in (PNG, b64encode(PNG)):
        assert decode_content(raw_bytes, "image/png", Files.RAW) == (raw_bytes, Files.RAW)


def answered(agent: str, declared: str | None = None) -> bytes:
    """The bytes of a file that a caller gets from an agent."""
    row = GRPC_FORM.row(ops.GET_TASK)
    assert row is not None
    assert row.extras.variant is not None
    parameters = {"user-agent": agent} | ({} if declared is None else {"a2a-version": declared})
    row = row.extras.variant(b"", parameters)
    task = hub.Task(id="t", artifacts=[hub.Artifact(parts=[hub.Part(raw=PNG, media_type="image/png")])])
    wire = v0.Task.FromString(row.encode_response(task))
    return wire.artifacts[0].parts[0].file.file_with_bytes


@each(
    ("agent", "declared", "written"),
    [
        ("grpc-python-asyncio/1.76.0 grpc-c/51.0.0 (linux; chttp2)", None, b64encode(PNG)),
        ("own/2 grpc-python/1.76.0", "0.3", b64encode(PNG)),
        ("a2a-bridge grpc-python-asyncio/1.76.0 grpc-c/51.0.0 (linux; chttp2)", None, PNG),
        ("grpc-go/1.70.0", None, b64encode(PNG)),
        # 2.4.0 fails on content, and does not build with an older grpc-go; see below for 2.3.1 with this one
        ("grpc-go/1.82.1", "0.3", b64encode(PNG)),
        ("grpc-go/1.81.1", "0.3", PNG),
        ("grpc-java-netty/1.70.0", None, b64encode(PNG)),
        ("grpc-node-js/1.14.1", None, PNG),
        ("", None, PNG),
    ],
)
def test_callers_get_files_in_the_encoding_of_their_profile(
    agent: str, declared: str | None, written: bytes
) -> None:
    assert answered(agent, declared) == written


@pytest.mark.parametrize("raw_bytes", [PNG, b64encode(PNG)])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"user-agent": "grpc-go/1.82.1", "a2a-version": "0.3"}],
    ids=["unknown", "a2a-go 2.3.1 or 2.4.0"],
)
def test_a_caller_of_either_variant_gets_the_one_that_it_used(
    raw_bytes: bytes, parameters: dict[str, str]
) -> None:
    row = GRPC_FORM.row(ops.SEND_MESSAGE)
    assert row is not None
    assert row.extras.variant is not None
    part = v0.Part(file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="image/png"))
    wire = v0.SendMessageRequest(request=v0.Message(content=[part])).SerializeToString()
    row = row.extras.variant(wire, parameters)
    assert row.decode_request(wire).message.parts[0].raw == PNG
    answer = hub.SendMessageResponse(message=hub.Message(parts=[hub.Part(raw=PNG)]))
    sent = v0.SendMessageResponse.FromString(row.encode_response(answer))
    assert sent.msg.content[0].file.file_with_bytes == raw_bytes


@pytest.mark.parametrize(
    ("parameters", "written"),
    [({}, PNG), ({"user-agent": "grpc-go/1.82.1", "a2a-version": "0.3"}, b64encode(PNG))],
)
def test_a_caller_of_either_variant_that_sends_no_file(parameters: dict[str, str], written: bytes) -> None:
    row = GRPC_FORM.row(ops.SEND_MESSAGE)
    assert row is not None
    assert row.extras.variant is not None
    wire = v0.SendMessageRequest(request=v0.Message(content=[v0.Part(text="hi")])).SerializeToString()
    answer = hub.SendMessageResponse(message=hub.Message(parts=[hub.Part(raw=PNG)]))
    sent = v0.SendMessageResponse.FromString(row.extras.variant(wire, parameters).encode_response(answer))
    assert sent.msg.content[0].file.file_with_bytes == written


FROM_JSON = CallContext(origin=Origin("JSONRPC", "0.3"))


def from_a2a_v1(agent: str) -> CallContext:
    return CallContext(parameters={"user-agent": agent}, origin=Origin("HTTP+JSON", "0.3"))


@pytest.mark.parametrize(
    ("files", "context", "written"),
    [
        (Files.AUTO, FROM_JSON, b64encode(PNG)),
        (Files.AUTO, CallContext(), b64encode(PNG)),
        (Files.AUTO, from_a2a_v1("node"), b64encode(PNG)),
        (Files.AUTO, from_a2a_v1("python-httpx/0.28"), b64encode(PNG)),
        (Files.AUTO, from_a2a_v1("something"), PNG),
        (Files.RAW, FROM_JSON, PNG),
        (Files.BASE64, from_a2a_v1("node"), b64encode(PNG)),
    ],
)
def test_agents_get_files_in_the_encoding_of_their_profile_or_of_an_unknown_caller(
    files: Files, context: CallContext, written: bytes
) -> None:
    form = V0_3.form(GRPC, files=files)
    row = form.row(ops.SEND_MESSAGE) if form is not None else None
    assert row is not None
    if row.extras.for_agent is not None:
        row = row.extras.for_agent(context)
    request = hub.SendMessageRequest(message=hub.Message(parts=[hub.Part(raw=PNG)]))
    wire = v0.SendMessageRequest.FromString(row.encode_request(request))
    assert wire.request.content[0].file.file_with_bytes == written
    # An answer is not decoded if it is not base64.
    for raw_bytes in (PNG, b"not base64!"):
        part = v0.Part(file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="image/png"))
        answer = v0.SendMessageResponse(msg=v0.Message(content=[part])).SerializeToString()
        assert row.decode_response(answer).message.parts[0].raw == raw_bytes


# --- Identity of meaning between a2a.v1 and the hub; other tests check the meaning of values ---

ALL = [
    pairs.PART,
    pairs.MESSAGE,
    pairs.ARTIFACT,
    pairs.TASK,
    pairs.STATUS_UPDATE,
    pairs.ARTIFACT_UPDATE,
    pairs.SEND,
    pairs.SENT,
    pairs.EVENT,
]
#: possible contents of a file: anything, base64 text, and text that only looks like it
CONTENTS = [
    b"\x89PNG\r\n\x1a\n\x00",
    b"hello",
    b64encode(b"hello world"),
    b64encode(b"\x89PNG\r\n\x1a\n\x00"),
    b"test",
    b"abcdefgh",
]
#: valid encodings of fields no message has: a varint, a text, 4 and 8 bytes, a group
UNKNOWN = [
    b"\x98\x06\x01",
    b"\x9a\x06\x02hi",
    b"\x9d\x06abcd",
    b"\x99\x06abcdefgh",
    b"\x9b\x06\x08\x01\x9c\x06",
]
#: a member of ProtoJSON that no field has
STRANGER = {"x-stranger": {"a": [9007199254740993, [], {}, None, "é"], "b/~": 1.5}}


def below(message: Any) -> list[Any]:
    """A message and all set messages below it, except those in metadata."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name.startswith("google."):
            continue
        if field.message_type.GetOptions().map_entry:
            continue
        for one in value if not hasattr(value, "ListFields") else [value]:
            found += below(one)
    return found


@st.composite
def wild(draw: st.DrawFn, cls: type[Any], *, unknown: bool = False) -> Any:
    """Any message of a class with files of all kinds. unknown: with unknown fields."""
    message = draw(messages(cls))
    for one in below(message):
        name = one.DESCRIPTOR.name
        if name == "FilePart":
            one.file_with_bytes = draw(st.sampled_from(CONTENTS))
            one.mime_type = draw(st.sampled_from(["", "image/png", "text/plain", "application/x-thing"]))
        elif (
            name == "Part"
            and cls.DESCRIPTOR.full_name.startswith("lf.")
            and one.WhichOneof("content") == "raw"
        ):
            one.raw = draw(st.sampled_from(CONTENTS))
            one.media_type = draw(st.sampled_from(["", "image/png", "text/plain"]))
        if unknown and draw(st.integers(0, 3)) == 0:
            one.MergeFromString(draw(st.sampled_from(UNKNOWN)))
    return without_default(message)


def without_empty_part_metadata(message: Any) -> Any:
    """The message, changed in place: empty metadata of a part means none, and is not written in a2a.v1."""
    for one in below(message):
        if one.DESCRIPTOR.name == "Part" and one.HasField("metadata") and not one.metadata.fields:
            one.ClearField("metadata")
    return message


def without_default(message: Any) -> Any:
    """The message, in place, without content that means none (docs/explanation/versions.md)."""
    for one in below(without_empty_part_metadata(message)):
        name = one.DESCRIPTOR.full_name
        if name == "a2a.v1.SendMessageRequest":
            if not one.HasField("configuration"):
                one.configuration.blocking = True
        elif name == "a2a.v1.PushNotificationConfig":
            if not any(one.authentication.schemes):
                one.ClearField("authentication")
        elif name == "a2a.v1.Part":
            if one.WhichOneof("part") is None:
                one.text = "x"
            if one.WhichOneof("part") == "data":
                one.data.data.SetInParent()
        elif name == "lf.a2a.v1.SendMessageRequest":
            one.ClearField("tenant")
            if not one.configuration.ByteSize():
                one.ClearField("configuration")
        elif name == "lf.a2a.v1.TaskPushNotificationConfig":
            if not one.authentication.scheme:
                one.ClearField("authentication")
        elif name == "lf.a2a.v1.Part":
            if one.WhichOneof("content") is None:
                one.text = "x"
            if one.WhichOneof("content") == "data" and one.data.WhichOneof("kind") is None:
                one.data.null_value = 0
    return message


def raw_bytes(message: Any) -> bytes:
    made: bytes = message.SerializeToString(deterministic=True)
    return made


def over_json(message: Any) -> Any:
    """The message after a 1.0 peer passed it on as JSON, which has no unknown fields."""
    return decoder(type(message))(loads(dumps(encoder(type(message))(message))))


def has_payload(message: Any) -> bool:
    return "payload" not in message.DESCRIPTOR.oneofs_by_name or bool(message.WhichOneof("payload"))


def drop_empty_metadata(message: Any) -> None:
    """Removes empty metadata of a status event: a note about `final` takes its place, so it is normalised."""
    if "status_update" in message.DESCRIPTOR.fields_by_name and message.HasField("status_update"):
        message = message.status_update
    if "final" in message.DESCRIPTOR.fields_by_name and not message.metadata.fields:
        message.ClearField("metadata")


@pytest.mark.parametrize("files", ENCODINGS)
@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=20)
@given(data=st.data())
def test_bytes_of_a2a_v1_come_back(pair: Pair, files: Files, data: st.DataObject) -> None:
    given_message = data.draw(wild(pair.wire, unknown=True).filter(has_payload))
    drop_empty_metadata(given_message)
    there = over_json(decode_bytes(pair, raw_bytes(given_message), files))
    back = pair.wire.FromString(encode_bytes(pair, there, files))
    assert raw_bytes(back) == raw_bytes(given_message)


@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=20)
@given(data=st.data())
def test_protojson_of_a2a_v1_comes_back_with_unknown_members(pair: Pair, data: st.DataObject) -> None:
    given_message = data.draw(wild(pair.wire).filter(has_payload))
    drop_empty_metadata(given_message)
    tree = encoder(pair.wire)(given_message)
    place: Any = tree
    for _ in range(data.draw(st.integers(0, 3))):
        inner = [
            one
            for name, value in place.items()
            if name not in ("metadata", "data")
            for one in (value if isinstance(value, list) else [value])
            if isinstance(one, dict)
        ]
        place = data.draw(st.sampled_from(inner)) if inner else place
    place.update(STRANGER)
    there = over_json(decode_tree(pair, loads(dumps(tree)), Files.AUTO))
    assert encode_tree(pair, there, Files.AUTO) == tree


@pytest.mark.parametrize("files", ENCODINGS)
@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=20)
@given(data=st.data())
def test_messages_of_the_hub_come_back_from_a2a_v1(pair: Pair, files: Files, data: st.DataObject) -> None:
    message = data.draw(wild(pair.hub).filter(has_payload))
    tree = loads(dumps(encode_tree(pair, message, files)))
    for back in (
        decode_bytes(pair, encode_bytes(pair, message, files), files),
        decode_tree(pair, tree, files),  # type: ignore[arg-type]
    ):
        assert encoder(pair.hub)(back) == encoder(pair.hub)(message)


@settings(max_examples=20)
@given(data=st.data())
def test_usual_messages_carry_nothing(data: st.DataObject) -> None:
    task = data.draw(messages(v0.Task))
    for one in below(task):
        if one.DESCRIPTOR.name == "Part" and one.WhichOneof("part") != "text":
            one.text = "text"
    assert not unmapped.present(decode_bytes(pairs.TASK, raw_bytes(task), Files.AUTO))


def test_an_agent_may_change_content_with_carried_data() -> None:
    bytes_ = v0.Task(id="t", context_id="c").SerializeToString() + UNKNOWN[0]
    task = decode_bytes(pairs.TASK, bytes_, Files.AUTO)
    task.context_id = "other"
    wire = encode_bytes(pairs.TASK, task, Files.AUTO)
    assert v0.Task.FromString(wire).context_id == "other"
    assert wire.endswith(UNKNOWN[0])


def test_carried_bytes_that_are_no_unknown_fields_are_not_merged() -> None:
    part = hub.Part(text="text")
    unmapped.carry(part, unmapped.PROTO, [["/urn:a2a-bridge:unknown-fields", "CgNiYWQ="]])
    assert v0.Part.FromString(encode_bytes(pairs.PART, part)).text == "text"


@pytest.mark.parametrize("schemes", [["", "0"], ["0", ""], ["Other", "", "basic"]])
@pytest.mark.parametrize("more", [{}, STRANGER], ids=["known", "unknown"])
def test_several_schemes_come_back_although_one_is_empty(schemes: list[str], more: dict[str, Any]) -> None:
    message = v0.SendMessageRequest()
    message.request.content.add(text="x")
    message.configuration.push_notification.url = "http://u"
    message.configuration.push_notification.authentication.schemes.extend(schemes)
    tree = {**encoder(v0.SendMessageRequest)(message), **more}
    request = decode_tree(pairs.SEND, deepcopy(tree))
    assert request.configuration.task_push_notification_config.authentication.scheme in schemes[-2:]
    assert request.configuration.task_push_notification_config.authentication.scheme
    assert encode_tree(pairs.SEND, request)["configuration"]["pushNotification"]["authentication"] == {
        "schemes": schemes
    }
