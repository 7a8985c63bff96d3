"""The mismatches of 0.x and 1.0, one by one and both ways, over JSON-RPC: L12 to L27."""

# ruff: noqa: N802  the mismatches have these names

from typing import Any

import pytest

from a2a_bridge import codec
from a2a_bridge.codec import ExactFloat
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects import V0_2_5, V0_3, V1_0, annotation, unmapped
from a2a_bridge.dialects import reader as irregular
from a2a_bridge.dialects.dialect import JSONRPC, ErrorReply
from a2a_bridge.dialects.v0_3 import proto_rows, shapes
from a2a_bridge.dialects.v0_3.forms import LOSSES
from a2a_bridge.dialects.v0_3.requests import SEND
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.dialects.v0_3.kind_hops import MESSAGE, ROW, TASK, check, reading
from tests.identity import says
from tests.rejections import rejected

TIME = "2025-04-17T17:47:09Z"


def part(**members: Any) -> dict[str, Any]:
    return {"kind": "data", "data": members}


def status_update(state: str, **members: Any) -> dict[str, Any]:
    return {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": state}, **members}


def side_channel_trip(method: str, params: Any) -> tuple[Any, Any]:
    """A request in the hub, and its params after the way through, with the content beside it."""
    row = ROW[method]
    told = row.extras.request.extract(params)
    message = row.decode_request(params)
    return message, row.extras.request.restore(row.encode_request(message), told)


# L12, L13 configuration

CONFIGURATIONS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"configuration": {}}, False),
    ({"configuration": {"blocking": True}}, False),
    ({"configuration": {"blocking": False}}, True),
    ({"configuration": {"blocking": None}}, False),
    ({"configuration": {"acceptedOutputModes": []}}, False),
]


@pytest.mark.parametrize(("configuration", "immediately"), CONFIGURATIONS)
def test_L12_blocking_is_the_reverse_of_returning_immediately(configuration: Any, immediately: bool) -> None:
    request = SEND.decode({"message": MESSAGE, **configuration})
    assert request.configuration.return_immediately is immediately
    assert request.HasField("configuration") == ("configuration" in configuration)
    check(SEND.decode, SEND.encode, {"message": MESSAGE, **configuration})


@pytest.mark.parametrize(
    "configuration",
    [{"blocking": True}, {"acceptedOutputModes": ["text"], "blocking": True}, {"blocking": False}],
)
def test_L12_requests_of_official_clients_take_no_slow_path(
    configuration: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irregular, "read", None)
    tree = {"message": MESSAGE, "configuration": configuration}
    request = SEND.decode(tree)
    assert not request.HasField("metadata")
    assert SEND.encode(request) == tree


@each(
    ("length", "found"),
    [
        (0, 0),
        (3, 3),
        (2**31 - 1, 2**31 - 1),
        (2**31, 2**31 - 1),
        (3_000_000_000, 2**31 - 1),
        (2**63, 2**31 - 1),
        (-1, -1),
        (-(2**40), -(2**31)),
        (ExactFloat("3.0"), 3),
        (ExactFloat("1e400"), 2**31 - 1),
    ],
)
def test_L13_lengths_of_any_size_come_back(length: Any, found: int) -> None:
    params = {"message": MESSAGE, "configuration": {"historyLength": length}}
    assert SEND.decode(params).configuration.history_length == found
    check(SEND.decode, SEND.encode, params)
    if not length:
        return  # in tasks/get it counts as absent: see tests/profiles
    request, again = side_channel_trip("tasks/get", {"id": "t", "historyLength": length})
    assert request.history_length == found
    assert says(again, {"id": "t", "historyLength": length})


def test_L13_no_length_is_not_zero() -> None:
    assert not SEND.decode({"message": MESSAGE, "configuration": {}}).configuration.HasField("history_length")
    assert not ROW["tasks/get"].decode_request({"id": "t"}).HasField("history_length")


@pytest.mark.parametrize("length", ["3", True, ExactFloat("1.5"), [1]])
def test_L13_non_integers_are_rejected_by_name(length: Any) -> None:
    with rejected(Reason.INVALID_PARAMS, "configuration.historyLength"):
        ROW["message/send"].decode_request({"message": MESSAGE, "configuration": {"historyLength": length}})


# --- L14 push authentication ---
@pytest.mark.parametrize(
    ("schemes", "scheme"),
    [
        (["Bearer"], "Bearer"), (["Basic", "Bearer"], "Bearer"), (["ApiKey", "basic"], "basic"), (["a", "b"], "a"),
        ([""], ""), (["Bearer", "Bearer"], "Bearer"),
    ],
)  # fmt: skip
def test_L14_the_first_usable_scheme_is_the_hubs_and_all_come_back(schemes: list[str], scheme: str) -> None:
    config = {"url": "u", "authentication": {"schemes": schemes, "credentials": "s"}}
    request, again = side_channel_trip(
        "tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": config}
    )
    assert (request.authentication.scheme, request.authentication.credentials) == (scheme, "s")
    assert again == {"taskId": "t", "pushNotificationConfig": config}
    check(SEND.decode, SEND.encode, {"message": MESSAGE, "configuration": {"pushNotificationConfig": config}})


@pytest.mark.parametrize(
    "authentication", [{"schemes": []}, {"schemes": [], "credentials": "s"}, {"credentials": "s"}, {}]
)
def test_L14_no_scheme_is_no_authentication_for_1_0_and_comes_back(authentication: Any) -> None:
    config = {"url": "u", "authentication": authentication}
    request, again = side_channel_trip(
        "tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": config}
    )
    assert not request.HasField("authentication")
    assert again == {"taskId": "t", "pushNotificationConfig": config}


def test_L14_ids_that_a_server_assigns_and_credentials_it_hides_are_its_answer() -> None:
    row = ROW["tasks/pushNotificationConfig/set"]
    asked = {
        "taskId": "t",
        "pushNotificationConfig": {"url": "u", "authentication": {"schemes": ["a", "Bearer"]}},
    }
    answer = hub.TaskPushNotificationConfig(task_id="t", id="new", url="u")
    answer.authentication.scheme = "Bearer"
    tree = row.extras.response.restore(row.encode_response(answer), row.extras.request.extract(asked))
    assert tree == {
        "taskId": "t",
        "pushNotificationConfig": {"url": "u", "id": "new", "authentication": {"schemes": ["a", "Bearer"]}},
    }


# --- L15 metadata without a place ---
@pytest.mark.parametrize(
    "method",
    [
        "tasks/get",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
    ],
)
def test_L15_metadata_of_requests_without_the_member_uses_the_side_channel(method: str) -> None:
    params = {"id": "t", "metadata": {"k": ["é", ExactFloat("1.0")]}, "x": 1}
    told = ROW[method].extras.request.extract(params)
    assert list(told) == [SIDE_CHANNEL]
    assert told[SIDE_CHANNEL].isascii()
    assert says(side_channel_trip(method, params)[1], params)
    assert ROW[method].extras.request.extract({"id": "t"}) == {}


def test_L15_metadata_of_a_cancellation_has_a_place() -> None:
    row = ROW["tasks/cancel"]
    assert row.extras.request is None
    assert row.decode_request({"id": "t", "metadata": {"k": "v"}}).metadata["k"] == "v"


def test_L15_more_than_a_header_holds_is_rejected() -> None:
    with rejected(Reason.INVALID_PARAMS):
        ROW["tasks/get"].extras.request.extract({"id": "t", "metadata": {"k": "v" * 5000}})


def test_L15_the_side_channel_of_another_request_has_no_effect() -> None:
    row = ROW["tasks/get"]
    for told in (unmapped.write(unmapped.KIND, [["/id", "other"]]), "junk", ""):
        assert row.extras.request.restore({"id": "t"}, {SIDE_CHANNEL: told}) == {"id": "t"}
    assert row.extras.request.restore({"id": "t"}, {}) == {"id": "t"}


# --- L16 tenants ---
def test_L16_tenants_of_requests_are_declared_losses() -> None:
    request = hub.GetTaskRequest(id="t", tenant="x")
    assert ROW["tasks/get"].encode_request(request) == {"id": "t"}
    lost = {loss.path for loss in LOSSES}
    assert {"GetTaskRequest.tenant", "SendMessageRequest.tenant", "CancelTaskRequest.tenant"} <= lost
    assert all(loss.reason for loss in LOSSES)
    assert V0_3.losses == LOSSES


# L17 to L20: cards


CARD: dict[str, Any] = {
    "name": "n", "description": "d", "url": "https://a/", "version": "1", "protocolVersion": "0.3.0",
    "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
}  # fmt: skip


def test_L17_interfaces_of_a_card_come_back() -> None:
    further = [{"url": "https://a/", "transport": "JSONRPC"}, {"url": "g", "transport": "GRPC"}]
    tree = CARD | {"additionalInterfaces": further}
    for preferred in ({}, {"preferredTransport": "JSONRPC"}):
        check(V0_3.card.decode, V0_3.card.encode, tree | preferred, "direct", "ProtoJSON")


def test_L18_the_history_of_state_transitions_comes_back() -> None:
    tree = {
        "name": "n", "description": "d", "url": "u", "version": "1", "protocolVersion": "0.3.0",
        "capabilities": {"stateTransitionHistory": True}, "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    }  # fmt: skip
    check(V0_3.card.decode, V0_3.card.encode, tree)


def test_L19_all_flows_of_a_scheme_come_back() -> None:
    flow = {"tokenUrl": "t", "scopes": {"s": ""}}
    code = {**flow, "authorizationUrl": "a"}
    scheme = {
        "type": "oauth2",
        "flows": {"clientCredentials": flow, "password": flow, "authorizationCode": code},
    }
    tree = CARD | {"security": [{"o": ["s"]}], "securitySchemes": {"o": scheme}}
    check(V0_3.card.decode, V0_3.card.encode, tree)


def test_L20_signatures_of_a_card_come_back() -> None:
    tree = CARD | {"signatures": [{"protected": "p", "signature": "s", "header": {"n": 2**60 + 1}}]}
    check(V0_3.card.decode, V0_3.card.encode, tree)


# --- L21 resource names ---
@pytest.mark.parametrize("task", ["t", "a/b", "100%", "é", "a%2Fb"])
def test_L21_ids_in_resource_names_are_not_cut(task: str) -> None:
    assert proto_rows.decode_task(proto_rows.encode_task(task)) == task
    assert proto_rows.decode_config(proto_rows.encode_config(task, task)) == (task, task)


# --- L22 streams ---
def test_L22_any_event_may_come_first_and_marks_of_the_bridge_pass() -> None:
    for tree in (status_update("working", final=False), MESSAGE, TASK):
        check(shapes.EVENT.decode, shapes.EVENT.encode, tree)
    task = shapes.TASK.decode(TASK)
    annotation.synthesise(task, annotation.SNAPSHOT)
    again = shapes.TASK.decode(codec.loads(codec.dumps(shapes.TASK.encode(task))))
    assert annotation.synthetic_kind(again) == annotation.SNAPSHOT


# --- L23 data of errors ---
@pytest.mark.parametrize("data", [None, 5, "x", [1, {"a": None}], {"k": "v"}, True])
def test_L23_data_of_an_error_of_any_type_comes_back(data: Any) -> None:
    form = V0_3.forms[JSONRPC]
    body = {"code": -32001, "message": "Task not found", "data": data}
    assert form.encode_error(form.decode_error(ErrorReply(200, body))).body == body


# --- L24 ids of requests ---
@pytest.mark.parametrize(
    "token", ["1", '"a"', "9007199254740993", "123456789012345678901234567890", "null", "-0"]
)
def test_L24_ids_of_requests_are_never_doubles(token: str) -> None:
    from a2a_bridge_transports.jsonrpc import wire

    frame = wire.parse(f'{{"jsonrpc":"2.0","id":{token},"method":"tasks/get"}}'.encode())
    answer = codec.loads_exact(wire.result(frame.id, None))
    assert isinstance(answer, dict)
    assert answer["id"] == codec.loads_exact(token)


# --- L25 members of 0.3 that 0.2.5 lacks ---
def test_L25_modes_that_0_2_5_requires_are_given() -> None:
    form = V0_2_5.forms[JSONRPC]
    row = next(row for row in form.rows if row.address == "message/send")
    request = hub.SendMessageRequest(message=shapes.MESSAGE.decode(MESSAGE))
    request.configuration.return_immediately = True
    tree = row.encode_request(request)
    assert tree["configuration"] == {"acceptedOutputModes": [], "blocking": False}
    assert reading(row.decode_request, codec.dumps(tree)).configuration.return_immediately


# --- L26 names of headers ---
def test_L26_both_names_of_the_extensions_header_are_known() -> None:
    assert set(V0_3.extensions) == {"x-a2a-extensions", "a2a-extensions"}
    assert V1_0.extensions == ("a2a-extensions",)


# --- L27 push notifications ---
def test_L27_a_push_notification_is_encoded_as_its_version_does() -> None:
    assert V0_3.push is not None
    assert V1_0.push is not None
    event = hub.StreamResponse(task=shapes.TASK.decode(TASK))
    assert V0_3.push.encode(event) == TASK
    assert V0_3.push.whole_tasks
    assert "task" in V1_0.push.encode(event)
    assert V0_3.push.decode(TASK) == V1_0.push.decode(V1_0.push.encode(event)) == event
