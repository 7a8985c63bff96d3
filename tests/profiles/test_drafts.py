"""Push configurations of a draft of 1.0, as previews of A2A .NET have them, both ways, over sockets."""

import json
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import KNOWN, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.transports.http_peer import http, peering
from tests.transports.http_scene import MESSAGE, Scripted, ask, dialling, frame, hosting, request

AUTH = {"scheme": "Bearer", "credentials": "secret"}
NESTED = {"taskId": "t", "configId": "p", "config": {"url": "https://e.example/", "authentication": AUTH}}
FLAT = {"taskId": "t", "id": "p", "url": "https://e.example/", "authentication": AUTH}
CONFIG = hub.TaskPushNotificationConfig(
    task_id="t",
    id="p",
    url="https://e.example/",
    authentication=hub.AuthenticationInfo(scheme="Bearer", credentials="secret"),
)


def agent() -> Scripted:
    async def unary(call: Call[Any, Any]) -> Any:
        if call.operation.response is hub.TaskPushNotificationConfig:
            return CONFIG
        if call.operation is ops.LIST_PUSH_CONFIGS:
            return hub.ListTaskPushNotificationConfigsResponse(configs=[CONFIG])
        return hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))

    return Scripted(on_unary=unary)


@pytest.mark.parametrize("asked", [NESTED, FLAT])
async def test_a_configuration_is_read_by_its_shape_and_answered_in_it(asked: dict[str, Any]) -> None:
    service = agent()
    headers = {"User_Agent": "curl/8"}
    async with hosting(service, dialects=KNOWN) as host:
        raw = request("POST", "/", frame("CreateTaskPushNotificationConfig", asked), **headers)
        rpc = (await ask(host, raw)).json()["result"]
        path = "/tasks/t/pushNotificationConfigs"
        rest = (await ask(host, request("POST", path, json.dumps(asked), **headers))).json()
    assert [call.request for call in service.calls] == [CONFIG, CONFIG]
    for answer in (rpc, rest):
        assert answer.items() >= FLAT.items()
        assert ("pushNotificationConfig" in answer) == (asked is NESTED)
        if asked is NESTED:
            assert answer["pushNotificationConfig"]["url"] == "https://e.example/"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_other_shape_is_no_unknown_member(binding: str) -> None:
    """A gateway rewrites the address of a webhook: the agent must not find another one in the draft's member."""
    form = V1_0.form(next(kind for kind in V1_0.forms if kind.name == binding))
    assert form is not None
    row = form.row(ops.CREATE_PUSH_CONFIG)
    assert row is not None
    tree = {**FLAT, "pushNotificationConfig": {"url": "https://other.example/"}, "later": 1}
    assert row.encode_request(row.decode_request(dict(tree))) == {**FLAT, "later": 1}
    assert row.encode_response(row.decode_response(dict(tree))) == {**FLAT, "later": 1}
    send = form.row(ops.SEND_MESSAGE)
    assert send is not None
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    configuration = {"taskPushNotificationConfig": FLAT, "pushNotificationConfig": {"url": "https://x/"}}
    request = send.decode_request({"message": message, "configuration": configuration})
    assert send.encode_request(request)["configuration"] == {"taskPushNotificationConfig": FLAT}


async def test_lists_have_a_method_of_their_own_and_others_go_by_the_profile() -> None:
    async with hosting(agent(), dialects=KNOWN) as host:

        async def asked(method: str, **headers: str) -> dict[str, Any]:
            params = {"taskId": "t"} | ({"id": "p"} if method.startswith("Get") else {})
            answer = (await ask(host, request("POST", "/", frame(method, params), **headers))).json()[
                "result"
            ]
            return answer["configs"][0] if "configs" in answer else answer

        both = {
            "pushNotificationConfig" in await asked("ListTaskPushNotificationConfig", User_Agent="curl/8"),
            "pushNotificationConfig" in await asked("ListTaskPushNotificationConfigs"),
            "pushNotificationConfig" in await asked("GetTaskPushNotificationConfig"),
        }
        assert both == {True}
        for method in ("ListTaskPushNotificationConfigs", "GetTaskPushNotificationConfig"):
            assert await asked(method, User_Agent="curl/8") == FLAT


async def test_the_configuration_of_a_message_is_not_dropped() -> None:
    service = agent()
    params = {"message": MESSAGE, "configuration": {"pushNotificationConfig": {"url": "https://e.example/"}}}
    async with hosting(service, dialects=KNOWN) as host:
        await ask(host, request("POST", "/", frame("SendMessage", params)))
        await ask(host, request("POST", "/message:send", json.dumps(params)))
    urls = [call.request.configuration.task_push_notification_config.url for call in service.calls]
    assert urls == ["https://e.example/"] * 2


def dotnet(_: str, __: dict[str, str], body: bytes) -> bytes:
    """Answers as a preview of A2A .NET does, which knows the draft's shapes and names alone."""
    frame = json.loads(body)
    params, method = frame["params"], frame["method"]
    config = {"id": "p", "taskId": "t", "pushNotificationConfig": NESTED["config"]}
    if method == "CreateTaskPushNotificationConfig" and "config" not in params:
        answer: Any = {"error": {"code": -32602, "message": "Invalid params"}}
    elif method == "ListTaskPushNotificationConfigs":
        answer = {"error": {"code": -32601, "message": "Method not found"}}
    elif method == "ListTaskPushNotificationConfig":
        answer = {"result": {"configs": [config]}}
    else:
        answer = {"result": config}
    return http(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **answer}).encode())


async def test_an_agent_gets_the_shape_of_the_draft_after_it_rejected_the_other() -> None:
    listing = hub.ListTaskPushNotificationConfigsRequest(task_id="t")
    wanted = hub.GetTaskPushNotificationConfigRequest(task_id="t", id="p")
    async with peering(dotnet) as peer, dialling(peer.url, "JSONRPC") as near:
        for _ in range(2):
            assert await near.unary(Call(ops.CREATE_PUSH_CONFIG, CONFIG, CallContext())) == CONFIG
            listed = await near.unary(Call(ops.LIST_PUSH_CONFIGS, listing, CallContext()))
            assert list(listed.configs) == [CONFIG]
            assert await near.unary(Call(ops.GET_PUSH_CONFIG, wanted, CallContext())) == CONFIG
    sent = [json.loads(body) for _, _, body in peer.requests]
    # Once rejected, it is not tried again.
    assert [one["method"].removesuffix("TaskPushNotificationConfig") for one in sent] == [
        *("Create", "Create", "ListTaskPushNotificationConfigs", "List", "Get"),
        *("Create", "List", "Get"),
    ]
    assert sent[1]["params"] == NESTED


async def test_an_agent_that_reads_neither_shape_is_heard_with_its_first_error() -> None:
    errors = [b"first", b"second"]

    def rejecting(_: str, __: dict[str, str], body: bytes) -> bytes:
        error = {"code": -32602, "message": errors[min(len(peer.requests), 2) - 1].decode()}
        return http(json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": error}).encode())

    async with peering(rejecting) as peer, dialling(peer.url, "JSONRPC") as near:
        with pytest.raises(A2AError, match="first") as caught:
            await near.unary(Call(ops.CREATE_PUSH_CONFIG, CONFIG, CallContext()))
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert len(peer.requests) == 2


async def test_a_rest_agent_gets_states_as_numbers_after_it_rejected_names() -> None:
    def rejecting(first: str, *_: Any) -> bytes:
        if "status=2" in first:
            return http(b'{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}')
        body = b'{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"no such state"}}'
        return http(body).replace(b"200 OK", b"400 Bad Request")

    request = hub.ListTasksRequest(status=hub.TASK_STATE_WORKING)
    async with peering(rejecting) as peer, dialling(peer.url, "HTTP+JSON") as near:
        assert not (await near.unary(Call(ops.LIST_TASKS, request, CallContext()))).tasks
    assert [first.split("?")[1].split()[0] for first, _, _ in peer.requests] == [
        "status=TASK_STATE_WORKING",
        "status=2",
    ]
