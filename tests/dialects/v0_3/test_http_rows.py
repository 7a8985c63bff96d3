"""The HTTP+JSON rows of 0.3: addresses, two forms distinguished per request, bodies of many forms, no loss."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.dialect import HTTP_JSON, HttpAddress, Row
from a2a_bridge.dialects.v0_3.forms import BY_FILES, HTTP_JSON_FORM
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.testing.each import each

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"

PROTO_BODY = {
    "message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]},
    "configuration": {"blocking": True},
}
OLD_BODY = {"request": PROTO_BODY["message"], "configuration": {"blocking": True}}
KIND_BODY = {
    "message": {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [{"kind": "text", "text": "hi"}],
    }
}
MESSAGE = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
TASK = hub.Task(
    id="t",
    context_id="c",
    status=hub.TaskStatus(state=hub.TASK_STATE_CANCELED, message=MESSAGE),
    history=[MESSAGE],
)
PROTO_MESSAGE = PROTO_BODY["message"]
PROTO_TASK = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_CANCELLED", "message": PROTO_MESSAGE},
    "history": [PROTO_MESSAGE],
}
KIND_TASK = {
    "kind": "task",
    "id": "t",
    "contextId": "c",
    "status": {"state": "canceled", "message": KIND_BODY["message"]},
    "history": [KIND_BODY["message"]],
}


def row(operation: Any) -> Row[HttpAddress, Any]:
    found = HTTP_JSON_FORM.row(operation)
    assert found is not None
    return found


def asked(operation: Any, tree: Any, user_agent: str = "") -> Row[HttpAddress, Any]:
    one = row(operation)
    return one if one.extras.variant is None else one.extras.variant(tree, {"user-agent": user_agent})


# --- addresses ---
def test_every_rule_of_the_proto_is_served_and_more() -> None:
    served = {f"{rule.method} {rule.template}" for one in HTTP_JSON_FORM.rows for rule in one.address.rules}
    assert served == {
        "POST /v1/message:send",
        "POST /v1/message:stream",
        "GET /v1/tasks/{id}",
        "GET /v1/tasks",
        "POST /v1/tasks/{id}:cancel",
        "GET /v1/tasks/{id}:subscribe",
        "POST /v1/tasks/{id}:subscribe",
        "POST /v1/tasks/{taskId}/pushNotificationConfigs",
        "POST /v1/task/{taskId}/pushNotificationConfigs",
        "GET /v1/tasks/{taskId}/pushNotificationConfigs",
        "GET /v1/tasks/{taskId}/pushNotificationConfigs/{id}",
        "DELETE /v1/tasks/{taskId}/pushNotificationConfigs/{id}",
        "GET /v1/card",
    }
    assert {one.operation for one in HTTP_JSON_FORM.rows} == set(ops.ALL)
    for forms in BY_FILES.values():
        assert [one.address for one in HTTP_JSON_FORM.rows] == [one.address for one in forms[HTTP_JSON].rows]


# --- two variants ---
@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
@pytest.mark.parametrize("body", [PROTO_BODY, OLD_BODY, KIND_BODY])
def test_a_message_is_read_in_every_variant(operation: Any, body: Any) -> None:
    message = asked(operation, body).decode_request(body)
    unmapped.strip(message)
    assert message.message == MESSAGE
    assert not message.configuration.return_immediately


@pytest.mark.parametrize(
    "message",
    [
        {"messageId": "m", "role": "user", "parts": []},
        {"messageId": "m", "kind": "message", "role": "user"},
        {"messageId": "m", "role": "agent"},
        {"messageId": "m", "parts": [{"kind": "text", "text": "hi"}]},
    ],
)
def test_requests_in_the_shape_of_json_rpc_are_answered_in_it(message: Any) -> None:
    answer = asked(ops.SEND_MESSAGE, {"message": message}).encode_response(hub.SendMessageResponse(task=TASK))
    assert answer == {"task": KIND_TASK}


@pytest.mark.parametrize(
    "body",
    [
        PROTO_BODY,
        OLD_BODY,
        {"message": {"messageId": "m"}},
        {"message": {"messageId": "m", "role": "ROLE_USER"}},
        {"message": {"messageId": "m", "content": [], "parts": []}},
        {},
        {"message": 7},
    ],
)
def test_requests_in_the_shape_of_the_proto_or_without_a_shape_are_answered_in_it(body: Any) -> None:
    answer = asked(ops.SEND_MESSAGE, body).encode_response(hub.SendMessageResponse(task=TASK))
    assert answer == {"task": PROTO_TASK}


PLACE: dict[str, Any] = {"task_id": "t", "context_id": "c"}
CANCELED = hub.TaskStatusUpdateEvent(**PLACE, status=hub.TaskStatus(state=hub.TASK_STATE_CANCELED))
PIECE = hub.TaskArtifactUpdateEvent(
    **PLACE, artifact=hub.Artifact(artifact_id="a", parts=[hub.Part(text="x")])
)
AT = {"taskId": "t", "contextId": "c"}
ENDED = {**AT, "final": True}
#: an event, in the shape of the proto, and in that of JSON-RPC
EVENTS: list[tuple[hub.StreamResponse, Any, Any]] = [
    (hub.StreamResponse(task=TASK), {"task": PROTO_TASK}, {"task": KIND_TASK}),
    (hub.StreamResponse(message=MESSAGE), {"message": PROTO_MESSAGE}, {"message": KIND_BODY["message"]}),
    (
        hub.StreamResponse(status_update=CANCELED),
        {"statusUpdate": {**ENDED, "status": {"state": "TASK_STATE_CANCELLED"}}},
        {"statusUpdate": {**ENDED, "kind": "status-update", "status": {"state": "canceled"}}},
    ),
    (
        hub.StreamResponse(artifact_update=PIECE),
        {"artifactUpdate": {**AT, "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}}},
        {
            "artifactUpdate": {
                **AT,
                "kind": "artifact-update",
                "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]},
            }
        },
    ),
]


@pytest.mark.parametrize(("event", "proto", "kind"), EVENTS)
def test_events_are_written_in_the_askers_variant_and_read_in_both(event: Any, proto: Any, kind: Any) -> None:
    assert asked(ops.SEND_STREAMING_MESSAGE, PROTO_BODY).encode_response(event) == proto
    assert asked(ops.SEND_STREAMING_MESSAGE, KIND_BODY).encode_response(event) == kind
    for tree in (proto, kind, next(iter(kind.values()))):
        assert row(ops.SUBSCRIBE_TO_TASK).decode_response(tree) == event


@pytest.mark.parametrize("tree", [{"task": PROTO_TASK}, {"task": KIND_TASK}, KIND_TASK])
def test_agents_may_answer_in_either(tree: Any) -> None:
    assert row(ops.SEND_MESSAGE).decode_response(tree) == hub.SendMessageResponse(task=TASK)


@pytest.mark.parametrize("tree", [PROTO_TASK, KIND_TASK])
def test_tasks_are_read_in_either(tree: Any) -> None:
    assert row(ops.GET_TASK).decode_response(tree) == TASK


def test_the_names_of_0_2_5_are_read_in_answers_too() -> None:
    tree = {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING", "update": PROTO_MESSAGE}}}
    assert row(ops.SEND_MESSAGE).decode_response(tree).task.status.message.message_id == "m"
    assert row(ops.SEND_MESSAGE).decode_response({"msg": PROTO_MESSAGE}).message.message_id == "m"


def test_clients_speak_protojson() -> None:
    request = hub.SendMessageRequest(message=MESSAGE)
    assert row(ops.SEND_MESSAGE).encode_request(request) == PROTO_BODY


def test_files_of_callers_that_write_base64_are_answered_in_base64() -> None:
    task = hub.Task(id="t", artifacts=[hub.Artifact(parts=[hub.Part(raw=PNG)])])
    for agent, raw_bytes in (("node", PNG), ("python-httpx/0.28.1", b64encode(PNG))):
        tree = asked(ops.GET_TASK, {"id": "t"}, agent).encode_response(task)
        assert tree["artifacts"][0]["parts"][0]["file"]["fileWithBytes"] == b64encode(raw_bytes).decode()


# --- other requests ---
def test_history_length_0_is_not_written() -> None:
    get = row(ops.GET_TASK)
    assert get.decode_request({"id": "t", "historyLength": 2}).history_length == 2
    assert not get.decode_request({"id": "t", "historyLength": 0}).HasField("history_length")


@each(
    ("operation", "tree", "field"),
    [
        (ops.GET_TASK, {"id": "t", "historyLength": -1}, "historyLength"),
        (ops.GET_TASK, {"id": "t", "historyLength": 2**31}, "historyLength"),
        (ops.GET_TASK, {}, "id"),
        (ops.CANCEL_TASK, {"id": "t", "name": "tasks/other"}, "name"),
        (ops.CANCEL_TASK, {"id": "t", "name": 7}, "name"),
        (ops.CANCEL_TASK, {"id": "t", "name": "tasks/t", "metadata": 7}, "metadata"),
        (ops.GET_PUSH_CONFIG, {"taskId": "t", "id": ""}, "id"),
        (ops.LIST_PUSH_CONFIGS, {"taskId": "t", "pageSize": "x"}, "pageSize"),
        (ops.CREATE_PUSH_CONFIG, {"taskId": "t", "config": {}}, "config.pushNotificationConfig.url"),
        (ops.CREATE_PUSH_CONFIG, {"taskId": "t", "parent": "tasks/o", "config": {}}, "parent"),
        (ops.CREATE_PUSH_CONFIG, {"taskId": "t", "config": 7}, "config"),
        (ops.CREATE_PUSH_CONFIG, {"taskId": "t", "pushNotificationConfig": 7}, "pushNotificationConfig"),
        (ops.SEND_MESSAGE, {"message": {"content": 7}}, "message.content"),
        (ops.SEND_MESSAGE, {"message": {"role": "ROLE_X", "content": []}}, "message.role"),
        (ops.SEND_MESSAGE, {"message": {"kind": "message", "parts": 7}}, "message.parts"),
        (ops.LIST_TASKS, {"status": "nonsense"}, "status"),
    ],
)
def test_violations_are_named(operation: Any, tree: Any, field: str) -> None:
    with pytest.raises(A2AError) as caught:
        asked(operation, tree).decode_request(tree)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert field in {violation.field for violation in caught.value.violations}


@each("one", HTTP_JSON_FORM.rows)
@each(
    "tree",
    [[], 7, "x", True, {"message": []}, {"kind": []}, {"kind": {}}, {"configs": 7}, {"task": {}}, None],
)
def test_nonsense_is_rejected_or_understood_but_never_a_crash(one: Row[HttpAddress, Any], tree: Any) -> None:
    for found in (one, asked(one.operation, tree)):
        for read, reason in (
            (found.decode_request, Reason.INVALID_PARAMS),
            (found.decode_response, Reason.INVALID_AGENT_RESPONSE),
        ):
            try:
                read(tree)
            except A2AError as error:
                rejected = error
            else:
                continue
            assert rejected.reason is reason


_MEMBERS = """
message request msg task kind parts content role status state update file data metadata configuration
config configs name parent configId taskId id url pushNotificationConfig authentication schemes
fileWithBytes statusUpdate artifactUpdate artifact artifacts history securitySchemes security skills
capabilities extensions flows type supportedInterfaces
"""
MEMBERS = st.sampled_from([*_MEMBERS.split(), unmapped.KEY])
WORDS = st.sampled_from(
    [
        "",
        "message",
        "task",
        "user",
        "ROLE_USER",
        "working",
        "tasks/t",
        "oauth2",
        '{"v":1,"proto":[["",null,1]]}',
    ]
)
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400)
@given(tree=st.dictionaries(MEMBERS, TREES, max_size=4), data=st.data())
def test_any_json_is_rejected_or_understood(tree: Any, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(HTTP_JSON_FORM.rows))
    found = asked(one.operation, tree, data.draw(st.sampled_from(["", "python-httpx/0"])))
    tree = exact(tree)
    for read, beside in (
        (found.decode_request, found.extras.request),
        (found.decode_response, found.extras.response),
    ):
        try:
            read(tree)
            if beside is not None:
                beside.extract(tree)
        except A2AError as error:
            rejected = error
        else:
            continue
        assert rejected.reason in (Reason.INVALID_PARAMS, Reason.INVALID_AGENT_RESPONSE)


def test_a_cancel_request_has_every_member_that_peers_read() -> None:
    request = hub.CancelTaskRequest(id="a/b")
    request.metadata["k"] = 1
    tree = row(ops.CANCEL_TASK).encode_request(request)
    assert tree == {"id": "a/b", "name": "tasks/a%2Fb", "metadata": {"k": 1}}
    assert row(ops.CANCEL_TASK).decode_request(tree) == request


def test_tasks_are_listed_for_callers_and_not_asked_of_agents() -> None:
    listing = row(ops.LIST_TASKS)
    request = listing.decode_request({"contextId": "c", "status": "TASK_STATE_CANCELLED"})
    assert (request.context_id, request.status, request.include_artifacts) == (
        "c",
        hub.TASK_STATE_CANCELED,
        True,
    )
    assert listing.encode_response(hub.ListTasksResponse(tasks=[TASK])) == [PROTO_TASK]
    assert listing.decode_response([PROTO_TASK, KIND_TASK]).tasks[:] == [TASK, TASK]
    with pytest.raises(A2AError) as caught:
        listing.encode_request(request)
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


def test_removing_answers_with_an_empty_object() -> None:
    one = row(ops.DELETE_PUSH_CONFIG)
    assert one.encode_response(Empty()) == {}
    assert one.decode_response(None) == one.decode_response({}) == Empty()


# --- configurations ---

WEBHOOK = {"id": "c", "url": "https://x"}
NAME = "tasks/t/pushNotificationConfigs/c"
CONFIG = hub.TaskPushNotificationConfig(task_id="t", id="c", url="https://x")
PROTO_CONFIG = {"name": NAME, "pushNotificationConfig": WEBHOOK}
KIND_CONFIG = {"taskId": "t", "pushNotificationConfig": WEBHOOK}


@each(
    ("body", "answer"),
    [
        (PROTO_CONFIG, PROTO_CONFIG),
        ({"config": PROTO_CONFIG}, PROTO_CONFIG),
        ({"config": {"pushNotificationConfig": WEBHOOK}}, PROTO_CONFIG),
        ({"parent": "tasks/t", "configId": "c", "config": PROTO_CONFIG}, PROTO_CONFIG),
        (
            {"parent": "tasks/t", "config_id": "c", "config": {"push_notification_config": WEBHOOK}},
            PROTO_CONFIG,
        ),
        ({"configId": "c", "pushNotificationConfig": {"url": "https://x"}}, PROTO_CONFIG),
        (WEBHOOK, PROTO_CONFIG),
        ({"pushNotificationConfig": WEBHOOK}, KIND_CONFIG),
        (KIND_CONFIG, KIND_CONFIG),
    ],
)
def test_a_configuration_comes_in_many_bodies(body: dict[str, Any], answer: Any) -> None:
    tree = {**body, "taskId": "t"}  # the path has it
    one = asked(ops.CREATE_PUSH_CONFIG, tree)
    assert (one.decode_request(tree), one.encode_response(CONFIG)) == (CONFIG, answer)


def test_a_configuration_is_sent_as_both_sdks_read_it() -> None:
    tree = row(ops.CREATE_PUSH_CONFIG).encode_request(CONFIG)
    assert tree == {"taskId": "t", "parent": "tasks/t", "configId": "c", "config": PROTO_CONFIG}


@pytest.mark.parametrize("tree", [PROTO_CONFIG, KIND_CONFIG])
def test_configurations_are_read_in_either_variant(tree: Any) -> None:
    assert row(ops.GET_PUSH_CONFIG).decode_response(tree) == CONFIG
    listed = hub.ListTaskPushNotificationConfigsResponse(configs=[CONFIG])
    assert row(ops.LIST_PUSH_CONFIGS).decode_response([tree]) == listed
    assert row(ops.LIST_PUSH_CONFIGS).decode_response({"configs": [tree]}) == listed


@pytest.mark.parametrize("of_rpc", [True, False])
def test_all_schemes_of_a_configuration_are_answered(of_rpc: bool) -> None:
    webhook = {**WEBHOOK, "authentication": {"schemes": ["Digest", "Bearer"], "credentials": "c"}}
    tree = {"taskId": "t", "pushNotificationConfig": webhook} | ({} if of_rpc else {"name": NAME})
    one = asked(ops.CREATE_PUSH_CONFIG, tree)
    assert one.extras.request is not None
    assert one.extras.response is not None
    message = one.decode_request(tree)
    assert message.authentication.scheme == "Bearer"
    told = one.extras.request.extract(tree)
    assert (
        one.extras.response.restore(one.encode_response(message), told)["pushNotificationConfig"] == webhook
    )
    assert set(told) == {SIDE_CHANNEL}


# --- nothing is lost ---
def exact(tree: Any) -> Any:
    return loads_exact(dumps(tree))


@st.composite
def respelled(draw: st.DrawFn, tree: Any) -> Any:
    """A tree with the oddities of real peers: explicit defaults, null, unknown members, odd numbers."""
    if type(tree) is list:
        return [draw(respelled(item)) for item in tree]
    if type(tree) is not dict:
        return tree
    out = {}
    for name, value in tree.items():
        free = name in ("metadata", "data")
        out[name] = value if free else draw(respelled(value))
    strangers = {
        "stranger": {"a": [1, None]},
        "x/y~z": 2**70,
        "half": 1.5,
        "taskless": None,
        "extensions": [],
    }
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(strangers)))
        out.setdefault(name, strangers[name])
    return out


@pytest.mark.parametrize("depth", [200, 490])
def test_a_deep_unknown_member_comes_back_unchanged(depth: int) -> None:
    tree: Any = {"message": PROTO_MESSAGE, "stranger": loads("[" * depth + "]" * depth)}
    one = row(ops.SEND_MESSAGE)
    again = loads(dumps(one.encode_request(one.decode_request(tree))))
    for name in ("message", "stranger"):
        assert dumps(again[name]) == dumps(tree[name])


def test_an_answer_that_holds_nothing_is_the_agents_fault() -> None:
    with pytest.raises(A2AError) as caught:
        row(ops.SEND_MESSAGE).decode_response({})
    assert caught.value.blame is Blame.PEER
