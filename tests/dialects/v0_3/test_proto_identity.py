"""Identity of meaning between a2a.v1 and the hub, in both directions; other tests check the meaning of
values.
"""

from __future__ import annotations

from base64 import b64encode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.pair import Pair
from a2a_bridge.dialects.v0_3 import proto as pairs
from a2a_bridge.dialects.v0_3.proto import decode_bytes, decode_tree, encode_bytes, encode_tree
from a2a_bridge.dialects.v0_3.proto_files import ENCODINGS
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from tests.strategies import messages

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
    """The message, changed in place, without content that means the same as none: the table of
    docs/versions.md.
    """
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
