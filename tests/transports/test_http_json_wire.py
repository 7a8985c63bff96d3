"""HTTP+JSON addresses: templates against paths, queries and bodies against members, both ways."""

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import HTTP_JSON, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_transports.http_json import wire
from tests.rejections import rejected

FORM = V1_0.forms[HTTP_JSON]
ROUTES = wire.Routes(FORM.rows)


def found(method: str, path: str) -> tuple[str, dict[str, str]]:
    match = ROUTES.match(method, path)
    assert isinstance(match, wire.Match), match
    return match.route.row.operation.name, dict(zip(match.route.members, match.values, strict=True))


@each(
    ("method", "path", "operation", "members"),
    [
        ("POST", "/message:send", "SendMessage", {}),
        ("POST", "/message%3Asend", "SendMessage", {}),
        ("POST", "/message%3astream", "SendStreamingMessage", {}),
        ("POST", "/message:send/", "SendMessage", {}),
        ("POST", "/acme/message:send", "SendMessage", {"tenant": "acme"}),
        ("GET", "/tasks", "ListTasks", {}),
        ("GET", "/acme/tasks", "ListTasks", {"tenant": "acme"}),
        ("GET", "/tasks/7", "GetTask", {"id": "7"}),
        ("GET", "/tasks/a%2Fb", "GetTask", {"id": "a/b"}),
        ("GET", "/tasks/urn:x:1", "GetTask", {"id": "urn:x:1"}),
        ("GET", "/tasks/a:cancel", "GetTask", {"id": "a:cancel"}),
        ("GET", "/tasks/tasks", "GetTask", {"id": "tasks"}),
        ("GET", "/tasks/tasks/7", "GetTask", {"tenant": "tasks", "id": "7"}),
        ("GET", "/acme/tasks/7", "GetTask", {"tenant": "acme", "id": "7"}),
        ("GET", "/%74asks/7", "GetTask", {"id": "7"}),
        ("POST", "/tasks/7:cancel", "CancelTask", {"id": "7"}),
        ("POST", "/tasks/7%3Acancel", "CancelTask", {"id": "7"}),
        ("POST", "/tasks/a:b:cancel/", "CancelTask", {"id": "a:b"}),
        ("POST", "/tasks/x:cancel:cancel", "CancelTask", {"id": "x:cancel"}),
        ("POST", "/acme/tasks/7:cancel", "CancelTask", {"tenant": "acme", "id": "7"}),
        ("GET", "/tasks/7:subscribe", "SubscribeToTask", {"id": "7"}),
        ("POST", "/tasks/7:subscribe", "SubscribeToTask", {"id": "7"}),
        ("GET", "/extendedAgentCard", "GetExtendedAgentCard", {}),
        ("GET", "/acme/extendedAgentCard", "GetExtendedAgentCard", {"tenant": "acme"}),
        ("POST", "/tasks/7/pushNotificationConfigs", "CreateTaskPushNotificationConfig", {"taskId": "7"}),
        ("GET", "/tasks/7/pushNotificationConfigs", "ListTaskPushNotificationConfigs", {"taskId": "7"}),
        (
            "DELETE",
            "/tasks/7/pushNotificationConfigs/8",
            "DeleteTaskPushNotificationConfig",
            {"taskId": "7", "id": "8"},
        ),
        (
            "GET",
            "/acme/tasks/7/pushNotificationConfigs/a:cancel",
            "GetTaskPushNotificationConfig",
            {"tenant": "acme", "taskId": "7", "id": "a:cancel"},
        ),
    ],
)
def test_paths(method: str, path: str, operation: str, members: dict[str, str]) -> None:
    assert found(method, path) == (operation, members)


@each(
    "path",
    [
        "",
        "/",
        "//",
        "/x",
        "/a/b/c/d",
        "/tasks//x",
        "/tasks/7:explode/x",
        "/message",
        "/:send",
        "/tasks/x/y/z",
        "/" * 50,
    ],
)
def test_paths_of_nothing(path: str) -> None:
    assert ROUTES.match("GET", path) == []


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/message:send", ["POST"]),
        ("PUT", "/tasks/7", ["GET"]),
        ("DELETE", "/tasks/7:subscribe", ["GET", "POST"]),
        ("PATCH", "/tasks/7/pushNotificationConfigs", ["GET", "POST"]),
        ("POST", "/tasks/7/pushNotificationConfigs/8", ["DELETE", "GET"]),
    ],
)
def test_a_known_path_tells_its_methods(method: str, path: str, allowed: list[str]) -> None:
    assert ROUTES.match(method, path) == allowed


def test_a_path_has_to_be_utf8() -> None:
    with rejected(Reason.INVALID_REQUEST):
        ROUTES.match("GET", "/tasks/%ff")


def test_every_rule_is_reachable() -> None:
    for row in FORM.rows:
        for rule in row.address.rules:
            path = rule.template.replace("{", "").replace("}", "")
            match = ROUTES.match(rule.method, path)
            assert isinstance(match, wire.Match)
            assert (match.route.row, match.route.rule) == (row, rule)


def exploded(method: str, path: str, query: str = "", body: Any = None) -> Any:
    match = ROUTES.match(method, path)
    assert isinstance(match, wire.Match)
    return wire.explode(match, query, body)


def test_queries() -> None:
    query = (
        "contextId=c%20d&status=TASK_STATE_WORKING&pageSize=5&includeArtifacts=true&historyLength=0"
        "&statusTimestampAfter=2026-01-01T00:00:00+02:00&A2A-Version=1.0&pageToken="
    )
    assert exploded("GET", "/tasks", query) == {
        "contextId": "c d",
        "status": "TASK_STATE_WORKING",
        "pageSize": 5,
        "includeArtifacts": True,
        "historyLength": 0,
        "statusTimestampAfter": "2026-01-01T00:00:00+02:00",
        "pageToken": "",
    }


def test_queries_in_other_variants() -> None:
    assert exploded("GET", "/tasks", "page_size=5&status=2") == {"pageSize": 5, "status": 2}
    # As a2a-go 2.3.1 calls it.
    since = "2026-01-01T00:00:00Z"
    assert exploded("GET", "/tasks", f"lastUpdatedAfter={since}") == {"statusTimestampAfter": since}


@pytest.mark.parametrize("path", ["/tasks/", "/acme/tasks/", "/tasks/t/pushNotificationConfigs/"])
def test_an_id_that_is_missing_is_no_list(path: str) -> None:
    assert "GET" not in ROUTES.match("GET", path)
    assert isinstance(ROUTES.match("GET", path.removesuffix("/")), wire.Match)


@each(
    ("query", "field"),
    [
        ("pageSize=x", "pageSize"),
        ("pageSize=", "pageSize"),
        ("pageSize=1.5", "pageSize"),
        ("pageSize=%EF%BC%95", "pageSize"),
        ("includeArtifacts=1", "includeArtifacts"),
        ("includeArtifacts=True", "includeArtifacts"),
        ("status=NOPE", "status"),
        ("pageSize=1&pageSize=2", "pageSize"),
        ("lastUpdatedAfter=x&statusTimestampAfter=y", "statusTimestampAfter"),
        ("contextId=%ff", ""),
        ("&".join(["x=1"] * 2000), ""),
    ],
)
def test_bad_queries_name_the_field(query: str, field: str) -> None:
    match = ROUTES.match("GET", "/tasks")
    assert isinstance(match, wire.Match)
    with rejected(Reason.INVALID_PARAMS, field):
        match.route.row.decode_request(wire.explode(match, query, None))


def test_unknown_members_of_a_query_are_ignored() -> None:
    assert exploded("GET", "/tasks", "contextid=c&page_siz=1&pageSize=2") == {"pageSize": 2}


def test_repetition_and_commas() -> None:
    """No operation of 1.0 has a list in its query; the rule is the binding's all the same."""
    row = FORM.row(ops.LIST_TASKS)
    assert row is not None
    rule = wire.HttpRule("GET", "/things", body=False, query={"names": "[]string", "sizes": "[]int"})
    match = wire.Match(wire.Route(row, rule, ()), ())
    assert wire.explode(match, "names=a,b&names=c&sizes=1,2", None) == {
        "names": ["a", "b", "c"],
        "sizes": [1, 2],
    }
    address = wire.HttpAddress((rule,))
    [target] = wire.implode(address, {"names": ["a", "b,c"], "sizes": [3]})
    assert parse_qs(target.query) == {"names": ["a", "b,c"], "sizes": ["3"]}


@pytest.mark.parametrize("body", [None, {"id": "7"}, {"id": ""}, {"id": None}])
def test_path_and_body_may_agree(body: Any) -> None:
    assert exploded("POST", "/tasks/7:cancel", body=body) == {"id": "7"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/acme/tasks?tenant=other", None, "tenant"),
        ("/tasks/7:cancel", {"id": "8"}, "id"),
        ("/tasks/7:cancel", {"id": 7}, "id"),
        ("/acme/tasks/7:cancel", {"tenant": "other"}, "tenant"),
        ("/tasks/7/pushNotificationConfigs", {"task_id": "8"}, "taskId"),
        ("/tasks/7:cancel", [], ""),
        ("/tasks/7:cancel", "x", ""),
    ],
)
def test_path_and_the_rest_may_not_differ(path: str, body: Any, field: str) -> None:
    path, _, query = path.partition("?")
    with rejected(Reason.INVALID_PARAMS, field):
        exploded("GET" if query else "POST", path, query, body)


def test_a_tenant_without_a_path_of_its_own_stays_where_it_was() -> None:
    assert exploded("GET", "/tasks", "tenant=acme") == {"tenant": "acme"}
    assert exploded("POST", "/message:send", body={"tenant": "acme"}) == {"tenant": "acme"}


def imploded(operation: ops.Operation[Any, Any], request: Any) -> list[wire.HttpCall]:
    row = FORM.row(operation)
    assert row is not None
    return wire.implode(row.address, row.encode_request(request))


@pytest.mark.parametrize(
    ("operation", "request_", "target"),
    [
        (
            ops.GET_TASK,
            hub.GetTaskRequest(id="a/b", history_length=0),
            ("GET", "/tasks/a%2Fb", "historyLength=0"),
        ),
        (ops.GET_TASK, hub.GetTaskRequest(id="..", tenant="é"), ("GET", "/%C3%A9/tasks/%2E%2E", "")),
        (
            ops.LIST_TASKS,
            hub.ListTasksRequest(include_artifacts=True),
            ("GET", "/tasks", "includeArtifacts=true"),
        ),
        (
            ops.LIST_TASKS,
            hub.ListTasksRequest(status=hub.TASK_STATE_FAILED, context_id="a b"),
            ("GET", "/tasks", "contextId=a%20b&status=TASK_STATE_FAILED"),
        ),
        (
            ops.DELETE_PUSH_CONFIG,
            hub.DeleteTaskPushNotificationConfigRequest(task_id="a:b", id="?#"),
            ("DELETE", "/tasks/a%3Ab/pushNotificationConfigs/%3F%23", ""),
        ),
        (ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), ("GET", "/extendedAgentCard", "")),
    ],
)
def test_where_requests_go(operation: Any, request_: Any, target: tuple[str, str, str]) -> None:
    [first, *_] = imploded(operation, request_)
    assert first == (*target, None)


def test_a_body_omits_the_members_of_the_path() -> None:
    [target] = imploded(ops.CANCEL_TASK, hub.CancelTaskRequest(id="7", tenant="acme"))
    assert target == ("POST", "/acme/tasks/7:cancel", "", {})


def test_subscribe_can_go_two_ways() -> None:
    targets = imploded(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="7"))
    assert [target.method for target in targets] == ["POST", "GET"]


def test_a_path_needs_its_members() -> None:
    with pytest.raises(A2AError) as caught:
        imploded(ops.GET_TASK, hub.GetTaskRequest())
    assert [violation.field for violation in caught.value.violations] == ["id"]


IDS = st.text(min_size=1).filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))


@given(IDS, IDS)
@example("a:cancel", "tasks")
@example("%2F", ":")
@example("..", ".")
@example("/", "a/b")
def test_any_id_and_tenant_come_through(id_: str, tenant: str) -> None:
    requests: list[tuple[Any, Any]] = [
        (ops.GET_TASK, hub.GetTaskRequest(id=id_, tenant=tenant)),
        (ops.CANCEL_TASK, hub.CancelTaskRequest(id=id_, tenant=tenant)),
        (ops.GET_PUSH_CONFIG, hub.GetTaskPushNotificationConfigRequest(task_id=tenant, id=id_, tenant=id_)),
    ]
    for operation, request in requests:
        row = FORM.row(operation)
        assert row is not None
        [target] = imploded(operation, request)
        assert target.path.isascii()
        match = ROUTES.match(target.method, target.path)
        assert isinstance(match, wire.Match)
        if match.route.row is row:  # an id that ends like a verb of the same method is that verb
            assert row.decode_request(wire.explode(match, target.query, target.body)) == request
        else:
            assert id_.endswith((":subscribe", ":cancel"))


@given(st.text(st.characters(codec="utf-8")), st.sampled_from(["GET", "POST", "DELETE"]))
def test_no_path_breaks_the_router(path: str, method: str) -> None:
    with suppress(A2AError):
        assert isinstance(ROUTES.match(method, "/" + path), (wire.Match, list))
