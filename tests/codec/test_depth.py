"""The depth of free JSON has the same limit in JSON and in protobuf, for any content in any place."""

from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufDecodeError

from a2a_bridge.codec import DecodeError, decoder, structs
from a2a_bridge.codec.free_json import may_be_deep, path_of_depth, too_deep
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

_struct, _value, _ = structs.writers(structs.exactly)


def nested(levels: int, innermost: Any, kinds: str) -> Any:
    for level in range(levels):
        innermost = [innermost] if kinds[level % len(kinds)] == "[" else {"a": innermost}
    return innermost


def as_protobuf(tree: dict[str, Any]) -> hub.Message:
    """The message of a JSON tree, however deep."""
    message = hub.Message()
    if "metadata" in tree:
        message.metadata.ParseFromString(_struct(tree["metadata"], 1000).encode("latin-1"))
    for part in tree.get("parts", ()):
        message.parts.add().data.ParseFromString(_value(part["data"], 1000).encode("latin-1"))
    return message


def _rejected_at(tree: dict[str, Any]) -> str | None:
    try:
        decoder(hub.Message)(tree)
    except DecodeError as error:
        return error.path
    return None


@each("kinds", ["{", "[", "{[", "{{["])
@each("innermost", [1, "x", {}, []])
def test_json_and_protobuf_draw_the_line_at_the_same_place(kinds: str, innermost: Any) -> None:
    told = set()
    for levels in range(25, 47):
        content = nested(levels, innermost, kinds)
        for path, tree in {
            "metadata.x": {"metadata": {"x": content}},
            "parts[1].data": {"parts": [{"data": 1}, {"data": content}]},
        }.items():
            rejected = _rejected_at(tree)
            assert rejected is None or rejected.startswith(path)
            told.add(rejected is not None)
            try:
                message = as_protobuf(tree)
            except ProtobufDecodeError:
                assert rejected is not None  # beyond the depth that protobuf reads
                continue
            assert too_deep(message) == ([] if rejected is None else [path.removesuffix(".x")])
            assert may_be_deep(message.SerializeToString()) or rejected is None
    assert told == {True, False}


def test_ordinary_messages_are_not_looked_into() -> None:
    text = hub.Message(
        parts=[hub.Part(text="some lines\n" * 20)], metadata={"trace": "00-1", "n": {"m": [1]}}
    )
    assert not may_be_deep(text.SerializeToString())
    assert not too_deep(text)
    many = hub.Message(metadata={"x": [[n] for n in range(500)]})
    assert may_be_deep(many.SerializeToString())
    assert not too_deep(many)


@pytest.mark.parametrize("levels", [60, 5000])
def test_unreadable_protobuf_is_rejected_with_its_member(levels: int) -> None:
    content = b""
    for _ in range(levels):
        content = b"\n" + _length(content) + content
        content = b"2" + _length(content) + content  # a Value that is a list
    metadata = b"\n\x01x\x12" + _length(content) + content
    metadata = b"\n" + _length(metadata) + metadata
    message = b"2" + _length(metadata) + metadata
    wire = b"\x12" + _length(message) + message
    assert path_of_depth(hub.SendMessageRequest, wire) == "message.metadata"
    assert path_of_depth(hub.SendMessageRequest, b"\xff" * 100) is None
    assert path_of_depth(hub.SendMessageRequest, hub.SendMessageRequest().SerializeToString()) is None


def _length(raw_bytes: bytes) -> bytes:
    size, out = len(raw_bytes), b""
    while size > 0x7F:
        out += bytes((size & 0x7F | 0x80,))
        size >>= 7
    return out + bytes((size,))
