"""Nothing is lost between a2a.v1 and the hub, in either direction; what the values mean is tested elsewhere."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads_exact
from a2a_bridge.dialects import marks, residue
from a2a_bridge.dialects.v0_3 import proto_residue as pairs
from a2a_bridge.dialects.v0_3.proto_residue import Pair, decode_bytes, encode_bytes
from a2a_bridge.dialects.v0_3.proto_trees import units
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct
from a2a_bridge.peers import Files
from a2a_bridge.testing.strategies import messages

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
#: what a file may hold: anything, base64 text, and text that only looks like it
CONTENTS = [
    b"\x89PNG\r\n\x1a\n\x00",
    b"hello",
    b64encode(b"hello world"),
    b64encode(b"\x89PNG\r\n\x1a\n\x00"),
    b"test",
    b"abcdefgh",
]
#: valid encodings of fields no message has: a varint, a text, 4 and 8 octets, a group
UNKNOWN = [
    b"\x98\x06\x01",
    b"\x9a\x06\x02hi",
    b"\x9d\x06abcd",
    b"\x99\x06abcdefgh",
    b"\x9b\x06\x08\x01\x9c\x06",
]
KEYS = [residue.KEY, marks.FINAL, marks.SYNTHESISED]
#: in the hub, what looks like a residue of another wire is left behind; see the rules of proto_residue
PLAIN_FORGERIES: list[Any] = ["", "x", True, 7, {"a": [1.5]}]
FORGERIES: list[Any] = [
    *PLAIN_FORGERIES,
    '{"v":1,"proto":[]}',
    '{"v":1,"hub":[["/text",null,"forged"]]}',
]


def below(message: Any) -> list[Any]:
    """A message and all that is set below it, save what belongs to metadata."""
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
def wild(draw: st.DrawFn, cls: type[Any], forgeries: list[Any]) -> Any:
    """Any message of a class, with unknown fields, files of all kinds, and metadata that looks like ours."""
    message = draw(messages(cls))
    for one in below(message):
        name = one.DESCRIPTOR.name
        if name == "FilePart" and one.WhichOneof("file") == "file_with_bytes":
            one.file_with_bytes = draw(st.sampled_from(CONTENTS))
            one.mime_type = draw(st.sampled_from(["", "image/png", "text/plain", "application/x-thing"]))
        if (
            name == "Part"
            and "content" in one.DESCRIPTOR.oneofs_by_name
            and one.WhichOneof("content") == "raw"
        ):
            one.raw = draw(st.sampled_from(CONTENTS))
            one.media_type = draw(st.sampled_from(["", "image/png", "text/plain"]))
        if draw(st.integers(0, 5)) == 0:
            one.MergeFromString(draw(st.sampled_from(UNKNOWN)))
        if "metadata" in one.DESCRIPTOR.fields_by_name and draw(st.integers(0, 5)) == 0:
            one.metadata.CopyFrom(
                decoder(Struct)(
                    draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(forgeries), max_size=2))
                )
            )
    return without_empty_part_metadata(message)


def without_empty_part_metadata(message: Any) -> Any:
    """The message, changed in place: empty metadata of a part means none, and is not written in a2a.v1."""
    for one in below(message):
        if one.DESCRIPTOR.name == "Part" and one.HasField("metadata") and not one.metadata.fields:
            one.ClearField("metadata")
    return message


def octets(message: Any) -> bytes:
    made: bytes = message.SerializeToString(deterministic=True)
    return made


def over_json(message: Any) -> Any:
    """The message after a 1.0 peer passed it on as JSON, which has no unknown fields."""
    return decoder(type(message))(loads_exact(dumps(encoder(type(message))(message))))


@pytest.mark.parametrize("files", list(Files))
@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=25)
@given(data=st.data())
def test_what_came_as_a2a_v1_goes_back_as_it_came(pair: Pair, files: Files, data: st.DataObject) -> None:
    given_message = data.draw(wild(pair.wire, FORGERIES))
    wire = octets(given_message)
    there = decode_bytes(pair, wire, files)
    again = pair.hub.FromString(there.SerializeToString())
    back = pair.wire.FromString(encode_bytes(pair, again, files))
    if units(there):
        assert octets(back) == wire
    else:  # an answer without a payload has nothing that could carry anything
        given_message.DiscardUnknownFields()
        assert octets(back) == octets(given_message)


@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=25)
@given(data=st.data())
def test_a_detour_over_json_of_1_0_changes_nothing(pair: Pair, data: st.DataObject) -> None:
    wire = octets(without_empty_part_metadata(data.draw(messages(pair.wire))))
    there = decode_bytes(pair, wire, Files.AUTO)
    assert octets(pair.wire.FromString(encode_bytes(pair, over_json(there), Files.AUTO))) == wire


@pytest.mark.parametrize("files", list(Files))
@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=25)
@given(data=st.data())
def test_what_went_as_a2a_v1_comes_back_as_it_went(pair: Pair, files: Files, data: st.DataObject) -> None:
    message = data.draw(wild(pair.hub, PLAIN_FORGERIES))
    if isinstance(message, hub.SendMessageRequest):
        message.ClearField("tenant")  # a2a.v1 has none
        if not message.configuration.ByteSize():
            message.ClearField("configuration")  # none and an empty one are the same
    back = decode_bytes(pair, encode_bytes(pair, message, files), files)
    if units(message):
        assert encoder(pair.hub)(back) == encoder(pair.hub)(message)
        assert octets(back) == octets(message)


def test_a_text_does_not_depend_on_the_order_in_which_metadata_is_kept() -> None:
    # Maps of protobuf have an order that changes from process to process; names that collide show it in each.
    for number in range(200):
        names = [f"one{number}", f"other{number}"]
        texts = set()
        for order in (names, names[::-1]):
            message = hub.Message(message_id="m")
            for name in order:
                message.metadata.fields[residue.KEY].struct_value.fields[name].string_value = "x"
            wire = encode_bytes(pairs.MESSAGE, message, Files.AUTO)
            texts.add(v0.Message.FromString(wire).metadata.fields[residue.KEY].string_value)
            assert decode_bytes(pairs.MESSAGE, wire, Files.AUTO) == message
        assert len(texts) == 1


@settings(max_examples=25)
@given(data=st.data())
def test_usual_messages_need_no_residue(data: st.DataObject) -> None:
    task = data.draw(messages(v0.Task))
    for one in below(task):
        if one.DESCRIPTOR.name == "Part" and one.WhichOneof("part") != "text":
            one.text = "text"
    assert not residue.present(decode_bytes(pairs.TASK, octets(task), Files.AUTO))
