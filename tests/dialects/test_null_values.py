"""Values that peers write in their own way: null without a kind (Java), whole numbers with a fraction
(Python).
"""

from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_3, V1_0
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct, Value
from a2a_bridge.testing.each import each


def kindless() -> Struct:
    struct = Struct()
    struct.fields["a"].SetInParent()
    struct.fields["b"].list_value.values.add()
    struct.fields["b"].list_value.values.add().struct_value.fields["c"].SetInParent()
    struct.fields["d"].number_value = 1
    return struct


FILLED = {"a": None, "b": [None, {"c": None}], "d": 1}


def filled() -> Struct:
    struct = Struct()
    struct.update(FILLED)
    return struct


def _row(version: Any, kind: Any, operation: Any) -> Any:
    return version.form(kind).row(operation)


def test_null_without_a_kind_is_null_in_1_0() -> None:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, metadata=kindless())
    message.parts.add().data.SetInParent()
    message.parts.add().data.struct_value.CopyFrom(kindless())
    request = _row(V1_0, GRPC, ops.SEND_MESSAGE).decode_request(
        hub.SendMessageRequest(message=message, metadata=kindless()).SerializeToString()
    )
    answer = _row(V1_0, GRPC, ops.SEND_MESSAGE).decode_response(
        hub.SendMessageResponse(message=message).SerializeToString()
    )
    assert request.metadata == filled()
    for read in (request.message, answer.message):
        assert read.metadata == read.parts[1].data.struct_value == filled()
        assert read.parts[0].data == Value(null_value=0)


@pytest.mark.parametrize("odd", [False, True])
def test_null_without_a_kind_is_null_in_0_3(odd: bool) -> None:
    task = v0.Task(id="t", context_id="c", metadata=kindless())
    task.status.state = v0.TASK_STATE_WORKING
    part = task.artifacts.add(artifact_id="a").parts.add()
    part.data.data.CopyFrom(kindless())
    wire = task.SerializeToString() + (b"\xa0\x06\x01" if odd else b"")
    read = _row(V0_3, GRPC, ops.GET_TASK).decode_response(wire)
    assert read.metadata.fields["a"] == Value(null_value=0)
    assert read.metadata.fields["b"] == filled().fields["b"]
    assert read.artifacts[0].parts[0].data.struct_value == filled()


@each("kind", [JSONRPC, HTTP_JSON])
@each(
    ("encoded", "written"),
    [
        ("1.0", "1"),
        ("1E2", "100"),
        ("9007199254740992.0", "9007199254740992"),
        ("1.8446744073709550e19", "18446744073709549568"),
    ],
)
def test_whole_numbers_leave_nothing_beside_the_answer_and_are_written_as_such(
    kind: Any, encoded: str, written: str
) -> None:
    state = '"TASK_STATE_COMPLETED"' if kind is HTTP_JSON else '"completed"'
    tag = "" if kind is HTTP_JSON else '"kind":"task",'
    text = f'{{{tag}"id":"t","contextId":"c","status":{{"state":{state}}},"metadata":{{"n":{encoded}}}}}'
    task = _row(V0_3, kind, ops.GET_TASK).decode_response(loads(text.encode()))
    assert list(task.metadata.fields) == ["n"]
    for version in (V1_0, V0_3):
        assert f'"metadata":{{"n":{written}}}'.encode() in dumps(
            _row(version, kind, ops.GET_TASK).encode_response(task)
        )


# --- A response that holds none of the members it must hold one of is rejected, on every binding ---


@each("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK])
@each(
    ("kind", "wire"),
    [
        (JSONRPC, {}),
        (JSONRPC, {"unknown": {"id": "t"}}),
        (HTTP_JSON, {}),
        (HTTP_JSON, {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (GRPC, b""),
        (GRPC, b"\xa2\x06\x01x"),
    ],
)
def test_an_empty_response_blames_the_peer(operation: Any, kind: Any, wire: Any) -> None:
    form: Any = V1_0.form(kind)
    with pytest.raises(A2AError) as caught:
        form.row(operation).decode_response(wire)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


@pytest.mark.parametrize("kind", [JSONRPC, HTTP_JSON, GRPC])
def test_a_response_with_a_member_passes(kind: Any) -> None:
    form: Any = V1_0.form(kind)
    row = form.row(ops.SEND_MESSAGE)
    response = hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    assert row.decode_response(row.encode_response(response)) == response


@pytest.mark.parametrize("kind", [JSONRPC, HTTP_JSON, GRPC])
def test_an_empty_page_of_tasks_is_a_response(kind: Any) -> None:
    form: Any = V1_0.form(kind)
    row = form.row(ops.LIST_TASKS)
    assert row.decode_response(row.encode_response(hub.ListTasksResponse())) == hub.ListTasksResponse()
