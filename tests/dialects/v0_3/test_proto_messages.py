"""Messages of a2a.v1 in the hub and back; `…_payload_N` is content that others are known to lose."""

from base64 import b64encode
from typing import Any

import pytest

from a2a_bridge.codec import decoder, encoder
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import annotation, unmapped
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.pair import Context, Pair
from a2a_bridge.dialects.v0_3 import proto as pairs
from a2a_bridge.dialects.v0_3.forms import GRPC_FORM
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from a2a_bridge.testing.each import each
from tests.rejections import rejected


def row(operation: Any) -> Row[str, bytes]:
    found = GRPC_FORM.row(operation)
    assert found is not None
    return found


def read(pair: Pair, **members: Any) -> Any:
    return pairs.decode_bytes(pair, pair.wire(**members).SerializeToString(), Files.AUTO)


def written(pair: Pair, message: Any) -> Any:
    return pair.wire.FromString(pairs.encode_bytes(pair, message, Files.AUTO))


def test_payload_21_the_timestamp_of_a_status_goes_both_ways() -> None:
    status = decoder(v0.TaskStatus)(
        {"state": "TASK_STATE_WORKING", "timestamp": "2025-01-31T12:00:00.123456789Z"}
    )
    task = read(pairs.TASK, id="t", status=status)
    assert encoder(hub.Task)(task)["status"]["timestamp"] == "2025-01-31T12:00:00.123456789Z"
    assert written(pairs.TASK, task).status.timestamp == status.timestamp


def test_payload_22_a_status_without_a_message_stays_without_one() -> None:
    task = read(pairs.TASK, id="t", status=v0.TaskStatus(state=v0.TASK_STATE_WORKING))
    assert not task.status.HasField("message")
    assert not written(pairs.TASK, task).status.HasField("update")


def test_payload_22_an_empty_message_of_a_status_stays() -> None:
    task = read(pairs.TASK, id="t", status=v0.TaskStatus(update=v0.Message()))
    assert task.status.HasField("message")
    assert written(pairs.TASK, task).status.HasField("update")


def test_payload_23_bytes_are_the_content() -> None:
    part = hub.Part(raw=b"\x00\xff", media_type="image/x", filename="a.x")
    file = written(pairs.PART, part).file
    assert (file.file_with_bytes, file.mime_type, file.name) == (b"\x00\xff", "image/x", "a.x")


def test_payload_23_base64_text_is_decoded_and_returned_unchanged() -> None:
    raw_bytes = b64encode(b"hello world")
    part = read(pairs.PART, file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="text/plain"))
    assert part.raw == b"hello world"
    assert written(pairs.PART, part).file.file_with_bytes == raw_bytes


def test_payload_23_large_base64_carries_a_word_only() -> None:
    raw_bytes = b64encode(b"hello world " * 100_000)
    part = read(pairs.PART, file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="text/plain"))
    assert len(part.metadata.fields[unmapped.KEY].string_value) < 200


def test_payload_24_references_to_other_tasks_come_back() -> None:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, reference_task_ids=["a", "b"])
    wire = written(pairs.MESSAGE, message)
    assert pairs.decode_bytes(pairs.MESSAGE, wire.SerializeToString(), Files.AUTO) == message


def test_payload_24_later_members_are_written_and_read() -> None:
    part = hub.Part(url="https://x", filename="name")
    part.metadata["k"] = 1
    wire = written(pairs.PART, part)
    assert (wire.file.name, wire.metadata["k"]) == ("name", 1)
    assert pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO) == part


def test_payload_25_absent_members_have_the_default_of_1_0() -> None:
    sent = read(pairs.SEND, request=v0.Message(message_id="m"), configuration=v0.SendMessageConfiguration())
    assert not sent.configuration.HasField("history_length")
    assert sent.configuration.return_immediately
    assert not read(pairs.SEND, request=v0.Message()).configuration.return_immediately


def test_payload_25_waiting_is_written_out() -> None:
    wire = written(pairs.SEND, hub.SendMessageRequest(message=hub.Message(message_id="m")))
    assert wire.configuration.blocking
    assert not wire.HasField("metadata")
    hurried = hub.SendMessageRequest(configuration=hub.SendMessageConfiguration(return_immediately=True))
    assert not written(pairs.SEND, hurried).configuration.blocking


def test_no_history_at_all_comes_back_although_a2a_v1_cannot_say_it() -> None:
    request = hub.SendMessageRequest(configuration=hub.SendMessageConfiguration(history_length=0))
    wire = written(pairs.SEND, request)
    assert wire.configuration.history_length == 0
    assert pairs.decode_bytes(pairs.SEND, wire.SerializeToString(), Files.AUTO) == request


@each("state", hub.TaskState.values())
@each("final", [True, False])
def test_final_is_derived_or_noted(state: Any, final: bool) -> None:
    event = read(pairs.STATUS_UPDATE, task_id="t", status=v0.TaskStatus(state=state), final=final)
    derived = state in annotation.FINAL_STATES
    assert annotation.read_final(event) == (None if final == derived else final)
    wire = written(pairs.STATUS_UPDATE, event)
    assert wire.final is final
    assert not wire.HasField("metadata")


def test_data_that_is_no_object_is_wrapped_and_comes_back() -> None:
    part = decoder(hub.Part)({"data": [1, None, "x"]})
    wire = written(pairs.PART, part)
    assert list(wire.data.data.fields) == ["value"]
    assert pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO) == part


def test_an_object_that_looks_wrapped_is_left_alone() -> None:
    wire = decoder(v0.Part)({"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": True}})
    part = pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO)
    assert encoder(hub.Part)(part)["data"] == {"value": [1]}


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK])
def test_an_answer_that_holds_nothing_is_the_agents_fault(operation: Any) -> None:
    with pytest.raises(A2AError, match="holds none") as caught:
        row(operation).decode_response(b"")
    assert caught.value.blame is Blame.PEER


@each("one", GRPC_FORM.rows)
def test_invalid_protobuf_is_rejected_with_a_plain_text(one: Row[str, bytes]) -> None:
    with pytest.raises(A2AError, match=r"a2a\.v1|google\.protobuf") as caught:
        one.decode_request(b"\xff\xff\xff")
    assert caught.value.reason is Reason.PARSE_ERROR
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        one.decode_response(b"\xff\xff\xff")


@pytest.mark.parametrize("value", ["half \ud83d", 5], ids=["half of a surrogate pair", "another type"])
def test_carried_content_that_no_field_can_hold_is_left_out(value: Any) -> None:
    part = v0.Part(text="x")
    preserved = {"mediaType": value, "filename": "a.txt"}
    part.metadata.fields[unmapped.KEY].string_value = unmapped.write(unmapped.HUB, preserved)
    message = v0.Message(message_id="m", role=v0.ROLE_USER, content=[part])
    preserved = {"referenceTaskIds": value}
    message.metadata.fields[unmapped.KEY].string_value = unmapped.write(unmapped.HUB, preserved)
    there: Any = hub.Message()
    pairs.MESSAGE.decode(message, there, Context())
    assert [(one.text, one.filename, one.media_type) for one in there.parts] == [("x", "a.txt", "")]
    assert not there.reference_task_ids


def test_half_of_a_surrogate_pair_in_an_unknown_member_takes_nothing_else_away() -> None:
    text = unmapped.write(unmapped.KIND, [["/mood", "half \ud83d"], ["/lang", "en"]])
    assert unmapped.read(text, unmapped.KIND) == [["/mood", "half \ud83d"], ["/lang", "en"]]
