"""Fields of the 1.1 draft over 0.3: numbers are those fields, and everything else is an unknown member."""

from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import V0_3
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC
from a2a_bridge.dialects.unmapped import KEY, same
from a2a_bridge.pb import a2a_v1
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.dialects.v0_3.kind_hops import ROW, check

NUMBER = 9007199254740993
TASK = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
PLACE: Any = {"task_id": "t", "context_id": "c", "generation": NUMBER}
EVENTS = (
    hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=TASK.status, generation=NUMBER)),
    hub.StreamResponse(status_update=hub.TaskStatusUpdateEvent(status=TASK.status, **PLACE)),
    hub.StreamResponse(
        artifact_update=hub.TaskArtifactUpdateEvent(artifact=hub.Artifact(artifact_id="a"), **PLACE)
    ),
)
KINDS = (JSONRPC, HTTP_JSON, GRPC)


def row(kind: Any, operation: Any) -> Any:
    form = V0_3.form(kind)
    assert form is not None
    found = form.row(operation)
    assert found is not None
    return found


@each("kind", KINDS)
@each("event", EVENTS)
def test_generations_come_back(kind: Any, event: hub.StreamResponse) -> None:
    found = row(kind, ops.SEND_STREAMING_MESSAGE)
    assert found.decode_response(found.encode_response(event)) == event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("generation", [0, NUMBER])
def test_preconditions_come_back(kind: Any, generation: int) -> None:
    found = row(kind, ops.SEND_MESSAGE)
    request = hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER))
    request.message.parts.add(text="x")
    request.configuration.return_immediately = True
    request.configuration.if_generation_match = generation
    assert found.decode_request(found.encode_request(request)) == request


def test_json_rpc_has_them_as_members() -> None:
    request = hub.GetTaskRequest(id="t", current_generation=0)
    tree = row(JSONRPC, ops.GET_TASK).encode_request(request)
    assert tree == {"id": "t", "currentGeneration": 0}
    assert row(JSONRPC, ops.GET_TASK).decode_request(tree) == request
    assert row(JSONRPC, ops.GET_TASK).encode_response(EVENTS[0].task)["generation"] == NUMBER


@pytest.mark.parametrize("kind", [HTTP_JSON, GRPC], ids=lambda kind: str(kind.name))
def test_other_bindings_leave_the_long_poll_out(kind: Any) -> None:
    found = row(kind, ops.GET_TASK)
    wire = found.encode_request(hub.GetTaskRequest(id="t", current_generation=5))
    assert found.decode_request(wire) == hub.GetTaskRequest(id="t")
    assert kind is GRPC or wire == {"id": "t"}


@each("value", [0, 1, -1, 1.5, 2**63, 2**64, "5", "", True, None, [], {}])
def test_other_values_of_a_peer_come_back(value: Any) -> None:
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "generation": value}
    rows = ROW["tasks/cancel"]
    check(rows.decode_response, rows.encode_response, task)
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    configuration = {"blocking": True, "acceptedOutputModes": [], "ifGenerationMatch": value}
    rows = ROW["message/send"]
    check(rows.decode_request, rows.encode_request, {"message": message, "configuration": configuration})


# 0.3 has two shapes, and a task may arrive in one and be kept by an agent that speaks the other.


AUTHENTICATION = {"schemes": ["Basic", "Bearer", "Digest"], "credentials": "c"}
WEBHOOK = {"id": "c", "url": "https://example.com/", "authentication": AUTHENTICATION}

#: content that neither protobuf nor 1.0 can keep
ODD = {
    "message": {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [
            {
                "kind": "data",
                "data": {"one": 1.0, "big": 9007199254740993, "none": None},
                "stranger": {"a": []},
            }
        ],
        "extensions": [],
        "stranger": "x",
    },
    "configuration": {"blocking": True, "acceptedOutputModes": []},
}
#: the numbers in the notation of some writers of ProtoJSON
FLOATS = {
    "message": {"messageId": "m", "role": "ROLE_USER", "content": [{"data": {"data": {"one": 1.0}}}]},
    "configuration": {"blocking": True},
}


def row_of(kind: Any, operation: Any) -> Any:
    form = V0_3.form(kind)
    assert form is not None
    return form.row(operation)


def reread(tree: Any) -> Any:
    return loads_exact(dumps(tree))


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
def test_content_of_jsonrpc_survives_an_agent_of_http_json(operation: Any) -> None:
    rest, rpc = row_of(HTTP_JSON, operation), row_of(JSONRPC, operation)
    given = reread(ODD)
    request = rpc.decode_request(given)
    between = reread(rest.encode_request(request))
    assert "content" in between["message"]
    again = rest.decode_request(between)
    assert again == request
    assert same(reread(rpc.encode_request(again)), given)


def test_how_protojson_writes_numbers_is_not_shown_to_agents_of_jsonrpc() -> None:
    rest, rpc = row_of(HTTP_JSON, ops.SEND_MESSAGE), row_of(JSONRPC, ops.SEND_MESSAGE)
    shown = rpc.encode_request(rest.decode_request(reread(FLOATS)))
    assert shown["message"]["parts"] == [{"kind": "data", "data": {"one": 1}}]
    assert KEY.encode() not in dumps(shown)


@pytest.mark.parametrize("kind", [HTTP_JSON, GRPC])
def test_all_schemes_of_a_push_config_reach_agents_of_the_other_shape(kind: Any) -> None:
    theirs, ours = row_of(JSONRPC, ops.CREATE_PUSH_CONFIG), row_of(kind, ops.CREATE_PUSH_CONFIG)
    given = {"taskId": "t", "pushNotificationConfig": WEBHOOK}
    request = theirs.decode_request(given)
    wire = ours.extras.request.restore(ours.encode_request(request), theirs.extras.request.extract(given))
    if kind is GRPC:
        config = a2a_v1.CreateTaskPushNotificationConfigRequest.FromString(wire).config
        assert list(config.push_notification_config.authentication.schemes) == AUTHENTICATION["schemes"]
    else:
        assert wire["config"]["pushNotificationConfig"]["authentication"] == AUTHENTICATION
    # And back, from an agent of the other shape to the caller.
    again = theirs.extras.request.restore(
        theirs.encode_request(ours.decode_request(wire)), ours.extras.request.extract(wire)
    )
    assert again == given
