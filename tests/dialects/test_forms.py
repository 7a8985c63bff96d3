"""The rows of 1.0: every operation in every form, its addresses, and the members in paths and queries."""

import math
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.codec.plan import plan_of
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0, Form
from a2a_bridge.dialects.v1_0.forms import _query_kind
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.testing.each import each
from tests.rejections import rejected

FORMS: dict[str, Form[Any, Any]] = {kind.name: V1_0.forms[kind] for kind in (JSONRPC, HTTP_JSON, GRPC)}
METHODS = list(hub.DESCRIPTOR.services_by_name["A2AService"].methods)
TENANT = {"tenant": "string"}
CONFIG = "/tasks/{taskId}/pushNotificationConfigs"
FILTERS = {
    "contextId": "string",
    "status": "enum",
    "pageSize": "int",
    "pageToken": "string",
    "historyLength": "int",
    "statusTimestampAfter": "timestamp",
    "includeArtifacts": "bool",
}
PAGES = {"pageSize": "int", "pageToken": "string"}

#: (operation, method, path, body?, query members besides the tenant)
RULES: list[tuple[str, str, str, bool, dict[str, str]]] = [
    ("SendMessage", "POST", "/message:send", True, {}),
    ("SendStreamingMessage", "POST", "/message:stream", True, {}),
    ("GetTask", "GET", "/tasks/{id}", False, {"historyLength": "int", "currentGeneration": "int"}),
    ("ListTasks", "GET", "/tasks", False, FILTERS),
    ("CancelTask", "POST", "/tasks/{id}:cancel", True, {}),
    ("SubscribeToTask", "GET", "/tasks/{id}:subscribe", False, {}),
    ("SubscribeToTask", "POST", "/tasks/{id}:subscribe", True, {}),
    ("CreateTaskPushNotificationConfig", "POST", CONFIG, True, {}),
    ("GetTaskPushNotificationConfig", "GET", f"{CONFIG}/{{id}}", False, {}),
    ("ListTaskPushNotificationConfigs", "GET", CONFIG, False, PAGES),
    ("DeleteTaskPushNotificationConfig", "DELETE", f"{CONFIG}/{{id}}", False, {}),
    ("GetExtendedAgentCard", "GET", "/extendedAgentCard", False, {}),
]


def operation_of(name: str) -> ops.Operation[Any, Any]:
    return next(one for one in ops.ALL if one.name == name)


def own(kind: str) -> list[Any]:
    """The rows of 1.0, without the one for the name of a method in a draft."""
    return [row for row in FORMS[kind].rows if row.address != "ListTaskPushNotificationConfig"]


@each("kind", list(FORMS))
@each("method", METHODS)
def test_every_operation_of_the_descriptor_has_one_row(kind: str, method: Any) -> None:
    rows = [row for row in own(kind) if row.operation.name == method.name]
    assert len(rows) == 1
    (row,) = rows
    assert row.operation.request.DESCRIPTOR.full_name == method.input_type.full_name
    assert row.operation.response.DESCRIPTOR.full_name == method.output_type.full_name
    assert row.streaming is method.server_streaming
    assert FORMS[kind].row(row.operation) is row


@pytest.mark.parametrize("kind", list(FORMS))
def test_a_form_has_no_further_rows(kind: str) -> None:
    assert len(own(kind)) == len(METHODS) == 11
    assert FORMS[kind].row(replace(ops.GET_TASK)) is None


def test_method_names() -> None:
    assert [row.address for row in own("JSONRPC")] == [one.name for one in ops.ALL]
    assert [row.address for row in FORMS["GRPC"].rows] == [
        f"/lf.a2a.v1.A2AService/{one.name}" for one in ops.ALL
    ]


def test_http_rules_with_and_without_a_tenant() -> None:
    found = [
        (row.operation.name, rule.method, rule.template, rule.body, dict(rule.query))
        for row in FORMS["HTTP+JSON"].rows
        for rule in row.address.rules
    ]
    plain = [
        (name, method, path, body, query if body else query | TENANT)
        for name, method, path, body, query in RULES
    ]
    tenant = [(name, method, "/{tenant}" + path, body, query) for name, method, path, body, query in RULES]
    assert sorted(found, key=str) == sorted(plain + tenant, key=str)


def test_clients_subscribe_with_post() -> None:
    """Clients take the first matching rule: agents of Go, Java and .NET know no other."""
    row = FORMS["HTTP+JSON"].row(ops.SUBSCRIBE_TO_TASK)
    assert row is not None
    assert [rule.method for rule in row.address.rules] == ["POST", "POST", "GET", "GET"]


def test_a_query_holds_no_messages_and_no_maps() -> None:
    for row in FORMS["HTTP+JSON"].rows:
        for rule in row.address.rules:
            for member, kind in rule.query.items():
                assert kind.removeprefix("[]") in {"string", "int", "bool", "enum", "timestamp"}, member
                assert f"{{{member}}}" not in rule.template


@each(
    ("message", "member", "kind"),
    [
        (hub.SendMessageRequest, "message", ""),
        (hub.SendMessageRequest, "metadata", ""),
        (hub.AgentCard, "securitySchemes", ""),
        (hub.Part, "raw", ""),
        (hub.SendMessageConfiguration, "acceptedOutputModes", "[]string"),
        (hub.SendMessageConfiguration, "returnImmediately", "bool"),
        (hub.TaskStatus, "state", "enum"),
        (hub.TaskStatus, "timestamp", "timestamp"),
    ],
)
def test_query_members_of_every_type(message: type[Any], member: str, kind: str) -> None:
    (field,) = [one for one in plan_of(message).fields if one.json_name == member]
    assert _query_kind(field) == kind


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("wire", [None, {}])
def test_a_deleted_config_may_be_answered_by_null_or_an_object(kind: str, wire: Any) -> None:
    row = FORMS[kind].row(ops.DELETE_PUSH_CONFIG)
    assert row is not None
    assert row.decode_response(wire) == Empty()


def test_a_deleted_config_is_answered_by_null_in_jsonrpc_only() -> None:
    answers = {}
    for kind, form in FORMS.items():
        row = form.row(ops.DELETE_PUSH_CONFIG)
        assert row is not None
        answers[kind] = row.encode_response(Empty())
    assert answers == {"JSONRPC": None, "HTTP+JSON": {}, "GRPC": b""}


#: operation -> whether it needs params at all: whether any member is required
NEEDS = {
    "SendMessage": True,
    "SendStreamingMessage": True,
    "GetTask": True,
    "ListTasks": False,
    "CancelTask": True,
    "SubscribeToTask": True,
    "CreateTaskPushNotificationConfig": True,
    "GetTaskPushNotificationConfig": True,
    "ListTaskPushNotificationConfigs": True,
    "GetExtendedAgentCard": False,
    "DeleteTaskPushNotificationConfig": True,
}


@each("kind", ["JSONRPC", "HTTP+JSON"])
@each(("name", "needed"), list(NEEDS.items()))
def test_absent_params(kind: str, name: str, needed: bool) -> None:
    row = FORMS[kind].row(operation_of(name))
    assert row is not None
    if not needed:
        assert row.decode_request(None) == row.operation.request()
        return
    with rejected(Reason.INVALID_PARAMS, ""):
        row.decode_request(None)


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
def test_bad_params_name_every_member_at_fault(kind: str) -> None:
    row = FORMS[kind].row(ops.SEND_MESSAGE)
    assert row is not None
    with pytest.raises(A2AError) as caught:
        row.decode_request({"message": {"messageId": 5, "parts": [{"text": False}]}})
    error = caught.value
    assert (error.reason, error.blame) == (Reason.INVALID_PARAMS, Blame.CALLER)
    assert [one.field for one in error.violations] == ["message.messageId", "message.parts[0].text"]


@each("kind", ["JSONRPC", "HTTP+JSON"])
@each("wire", [{"task": 5}, [], "text", None, 3])
def test_a_bad_answer_is_the_agents_fault(kind: str, wire: Any) -> None:
    row = FORMS[kind].row(ops.SEND_MESSAGE)
    assert row is not None
    with pytest.raises(A2AError) as caught:
        row.decode_response(wire)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


def test_bytes_that_are_no_message() -> None:
    row = FORMS["GRPC"].row(ops.SEND_MESSAGE)
    assert row is not None
    with rejected(Reason.PARSE_ERROR):
        row.decode_request(b"\xff\xff")
    with pytest.raises(A2AError) as answered:
        row.decode_response(b"\xff\xff")
    assert (answered.value.reason, answered.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
def test_values_that_json_cannot_express_are_rejected_when_written(kind: str) -> None:
    request = hub.SendMessageRequest()
    request.message.parts.add().data.number_value = math.inf
    response = hub.SendMessageResponse(message=request.message)
    row = FORMS[kind].row(ops.SEND_MESSAGE)
    assert row is not None
    with rejected(Reason.INVALID_PARAMS, "message.parts[0].data"):
        row.encode_request(request)
    with pytest.raises(A2AError) as answered:
        row.encode_response(response)
    assert (answered.value.reason, answered.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


@pytest.mark.parametrize("kind", list(FORMS))
def test_requests_and_responses_round_trip(kind: str) -> None:
    request = hub.GetTaskRequest(id="t", tenant="acme", history_length=0)
    response = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    row = FORMS[kind].row(ops.GET_TASK)
    assert row is not None
    assert row.decode_request(row.encode_request(request)) == request
    assert row.decode_response(row.encode_response(response)) == response


def test_cards_are_strict_json_of_the_hub() -> None:
    card = hub.AgentCard(name="a", supported_interfaces=[hub.AgentInterface(url="x", protocol_version="1.0")])
    assert V1_0.card.encode(card)["capabilities"] == {}  # required
    card.capabilities.SetInParent()
    assert V1_0.card.paths == ("/.well-known/agent-card.json",)
    tree = V1_0.card.encode(card)
    assert V1_0.card.decode(tree | {"preferredTransport": "JSONRPC"}) == card
    with pytest.raises(A2AError) as caught:
        V1_0.card.decode({"name": 5})
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
    assert "name" in caught.value.message
