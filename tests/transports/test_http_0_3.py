"""0.3 over HTTP as callers and agents of it write: both variants of HTTP+JSON, one URL for all versions."""

import json
from typing import Any

import pytest

from a2a_bridge.codec import dumps
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import KNOWN, V0_3
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import yielding
from tests.rejections import rejected
from tests.transports.http_peer import REQUEST, http, peering
from tests.transports.http_scene import Answer, Scripted, ask, dialling, frame, hosting, request

KIND = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
PROTO = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "hello"}]}


def task() -> hub.Task:
    return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))


def working() -> Scripted:
    async def unary(call: Call[Any, Any]) -> Any:
        if call.operation.response is hub.SendMessageResponse:
            return hub.SendMessageResponse(task=task())
        return task() if call.operation.response is hub.Task else call.operation.response()

    return Scripted(on_unary=unary, on_stream=yielding(hub.StreamResponse(task=task())))


def events(answer: Answer) -> list[Any]:
    lines = answer.body.decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


async def send(message: Any, path: str = "/v1/message:send") -> Answer:
    async with hosting(working(), dialects=KNOWN) as host:
        return await ask(host, request("POST", path, json.dumps({"message": message}), version=""))


@pytest.mark.parametrize("path", ["/v1/message:send", "/v1/message%3Asend", "/v1/message%3asend"])
async def test_who_asks_in_one_variant_is_answered_in_it(path: str) -> None:
    kind, proto = await send(KIND, path), await send(PROTO, path)
    assert kind.json()["task"]["status"]["state"] == "working"
    assert kind.json()["task"]["kind"] == "task"
    assert proto.json()["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert "kind" not in proto.json()["task"]


async def test_streams_too() -> None:
    for message, state in ((KIND, "working"), (PROTO, "TASK_STATE_WORKING")):
        [event] = events(await send(message, "/v1/message:stream"))
        assert event["task"]["status"]["state"] == state


async def test_a_stream_is_subscribed_to_by_either_verb() -> None:
    service = working()
    async with hosting(service, dialects=KNOWN) as host:
        for method, path in (("GET", "/v1/tasks/t:subscribe"), ("POST", "/v1/tasks/t%3Asubscribe")):
            [event] = events(await ask(host, request(method, path, version="")))
            assert event["task"]["id"] == "t"
    assert [call.operation for call in service.calls] == [ops.SUBSCRIBE_TO_TASK] * 2
    assert [call.context.origin.version for call in service.calls] == ["0.3"] * 2


async def test_one_url_for_all_versions() -> None:
    service = working()
    calls = [
        ("message/send", {"message": KIND}, "", "0.3"),
        ("message/send", {"message": KIND}, "0.3.0", "0.3"),
        (
            "SendMessage",
            {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}},
            "1.0",
            "1.0",
        ),
        ("tasks/get", {"id": "t"}, "", "0.3"),
    ]
    async with hosting(service, dialects=KNOWN) as host:
        for method, params, version, _ in calls:
            for path in ("/", ""):
                answer = await ask(host, request("POST", path or "/", frame(method, params), version=version))
                assert "result" in answer.json()
    assert [call.context.origin.version for call in service.calls][::2] == [call[3] for call in calls]


async def test_a_url_below_a_path_has_a_slash_or_none() -> None:
    async with hosting(working(), path="/a", dialects=KNOWN) as host:
        for path in ("/a", "/a/"):
            answer = await ask(host, request("POST", path, frame("tasks/get", {"id": "t"}), version=""))
            assert answer.json()["result"]["kind"] == "task"
        answer = await ask(host, request("GET", "/a/v1/tasks/t", version=""))
        assert answer.json()["status"]["state"] == "TASK_STATE_WORKING"


async def test_bad_input_names_the_member() -> None:
    message = {**KIND, "parts": [{"kind": "text", "text": 5}]}
    async with hosting(working(), dialects=KNOWN) as host:
        raw = request("POST", "/", frame("message/send", {"message": message}), version="")
        error = (await ask(host, raw)).json()["error"]
        assert (error["code"], error["message"].split(":")[0]) == (-32602, "message.parts[0].text")
        raw = request("POST", "/v1/message:send", json.dumps({"message": message}), version="")
        answer = await ask(host, raw)
        assert answer.status == 422
        assert "message.parts[0].text" in answer.json()["message"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}', None),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Task not found"}}',
            Reason.TASK_NOT_FOUND,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32001,"message":"x"}}',
            Reason.TASK_NOT_FOUND,
        ),
    ],
)
async def test_answers_of_agents_to_delete(answer: bytes, expected: Reason | None) -> None:
    asked = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")
    async with peering(http(answer)) as peer, dialling(peer.url, "JSONRPC", dialect=V0_3) as near:
        call = Call(ops.DELETE_PUSH_CONFIG, asked, CallContext())
        if expected is None:
            await near.unary(call)
            assert json.loads(peer.requests[0][2])["params"] == {"id": "t", "pushNotificationConfigId": "c"}
            return
        with rejected(expected):
            await near.unary(call)


async def test_a_request_without_params_has_none() -> None:
    card = {
        "name": "x",
        "version": "1",
        "url": "http://a.example",
        "protocolVersion": "0.3.0",
        "description": "",
    }
    card |= {"capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [], "skills": []}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": card})
    async with peering(http(body)) as peer, dialling(peer.url, "JSONRPC", dialect=V0_3) as near:
        asked = hub.GetExtendedAgentCardRequest()
        got = await near.unary(Call(ops.GET_EXTENDED_AGENT_CARD, asked, CallContext()))
        assert got.name == "x"
        _, headers, sent = peer.requests[0]
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    assert "a2a-version" not in headers


NO_METHOD = ("405 Method Not Allowed", '{"detail":"Method Not Allowed"}')
NO_TASK = ("404 Not Found", '{"message":"Task not found"}')


@pytest.mark.parametrize(("status", "body"), [NO_METHOD, NO_TASK])
@pytest.mark.parametrize("works", ["GET", "POST"])
async def test_clients_find_the_verb_that_an_agent_takes(works: str, status: str, body: str) -> None:
    event = '{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'

    def answer(first: str, _headers: dict[str, str], _body: bytes) -> bytes:
        if not first.startswith(works):
            return http(body, status)
        return http(f"data: {event}\n\n", media="text/event-stream")

    async with peering(answer) as peer, dialling(peer.url, "HTTP+JSON", dialect=V0_3) as near:
        for _ in range(2):
            call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
            assert [one.message.task.id async for one in near.stream(call)] == ["t"]
        verbs = [first.split()[0] for first, _, _ in peer.requests]
    assert verbs == (["GET", "GET"] if works == "GET" else ["GET", "POST", "POST"])


async def test_a_task_that_is_missing_for_every_verb() -> None:
    async with (
        peering(http(NO_TASK[1], NO_TASK[0])) as peer,
        dialling(peer.url, "HTTP+JSON", dialect=V0_3) as near,
    ):
        call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
        with rejected(Reason.TASK_NOT_FOUND):
            await anext(near.stream(call))
        assert len(peer.requests) == 2


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
async def test_every_number_of_an_event_is_read(kind: str) -> None:
    number = "9007199254740993"
    inner = f'{{"kind":"data","data":{{"n":{number}}}}}'
    task = (
        '{"kind":"task","id":"t","contextId":"c","status":{"state":"working"},"history":[{"kind":"message",'
    )
    task += f'"messageId":"m","role":"user","parts":[{inner}]}}]}}'

    def answer(_first: str, _headers: dict[str, str], asked: bytes) -> bytes:
        data = (
            task
            if kind != "JSONRPC"
            else f'{{"jsonrpc":"2.0","id":{json.loads(asked)["id"]},"result":{task}}}'
        )
        return http(f"data: {data}\n\n", media="text/event-stream")

    near_kind = "JSONRPC"
    async with (
        peering(answer) as peer,
        dialling(peer.url, kind, dialect=V0_3) as far,
        hosting(far, dialects=KNOWN) as host,
    ):
        raw = request("POST", "/", frame("message/stream", {"message": KIND}), version="")
        [event] = events(await ask(host, raw))
        answered = await ask(host, raw)
        async with dialling(f"http://{host.address}", near_kind, dialect=V0_3) as near:
            [_] = [one async for one in near.stream(Call(ops.SEND_STREAMING_MESSAGE, REQUEST, CallContext()))]
    assert number in answered.body.decode()
    assert event["result"]["history"][0]["parts"][0]["data"]["n"] == int(number)


@pytest.mark.parametrize("method", ["message/stream", "tasks/resubscribe"])
@pytest.mark.parametrize("params", [{"id": "t", "message": KIND}, {"message": 5, "id": 5}])
async def test_a_stream_that_is_rejected_is_a_stream_of_one_error(method: str, params: Any) -> None:
    async with hosting(Scripted(on_stream=yielding(A2AError(Reason.TASK_NOT_FOUND))), dialects=KNOWN) as host:
        raw = request("POST", "/", frame(method, params), version="", Accept="text/event-stream")
        answer = await ask(host, raw)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
        [event] = events(answer)
        expected = -32602 if params["id"] == 5 else -32001
        assert (event["id"], event["error"]["code"]) == (1, expected)
        async with dialling(f"http://{host.address}", "JSONRPC", dialect=V0_3) as near:
            call = Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
            with rejected(Reason.TASK_NOT_FOUND):
                await anext(near.stream(call))


EVENTS, BOTH = "text/event-stream", "application/json, text/event-stream"


@each(
    ("version", "headers", "media"),
    [
        ("", {"Accept": EVENTS}, EVENTS),
        ("", {"Accept": f"{EVENTS};q=0.9, text/plain", "User_Agent": "python-httpx/0.28"}, EVENTS),
        ("", {"Accept": BOTH}, "application/json"),
        ("", {"Accept": f"{EVENTS}, */*;q=0.1"}, "application/json"),
        ("", {"Accept": "*/*", "accept": EVENTS, "User_Agent": "python-httpx/0.28"}, EVENTS),
        ("", {"Accept": "*/*", "accept": EVENTS}, "application/json"),
        ("", {"Accept": "*/*"}, "application/json"),
        ("", {}, "application/json"),
        ("1.0", {"Accept": EVENTS}, EVENTS),
        ("1.0", {"Accept": EVENTS, "User_Agent": "Go-http-client/1.1"}, EVENTS),
        ("1.0", {"Accept": EVENTS, "User_Agent": "python-httpx/0.28"}, "application/json"),
        ("1.0", {"Accept": BOTH, "User_Agent": "Go-http-client/1.1"}, "application/json"),
        ("1.0", {"Accept": BOTH}, "application/json"),
        ("1.0", {}, "application/json"),
    ],
)
async def test_refused_streams(version: str, headers: dict[str, str], media: str) -> None:
    method = "SubscribeToTask" if version else "tasks/resubscribe"
    async with hosting(Scripted(on_stream=yielding(A2AError(Reason.TASK_NOT_FOUND))), dialects=KNOWN) as host:
        raw = request("POST", "/", frame(method, {"id": "t"}), version=version, **headers)
        answer = await ask(host, raw)
        assert (answer.status, answer.headers["content-type"]) == (200, media)
        tree = events(answer)[0] if media == EVENTS else answer.json()
        assert tree["error"]["code"] == -32001
        # A request for no stream is never answered with one.
        unary = frame("GetTask" if version else "tasks/get", {"id": 5})
        answer = await ask(host, request("POST", "/", unary, version=version, **headers))
        assert (answer.headers["content-type"], answer.json()["error"]["code"]) == (
            "application/json",
            -32602,
        )


@each(
    ("body", "code"),
    [
        ({"method": "Nothing"}, -32601),
        ({"method": "GetTask", "params": {"id": 5}}, -32602),
        ({"method": "GetTask", "params": {}}, -32602),
        ({"method": "GetTask", "params": []}, -32602),
        ({"method": "GetTask", "params": {"id": "t"}}, -32600),
        ({"method": "message/send", "params": {"message": 5}}, -32602),
        ({"method": "message/send", "params": {"message": KIND}}, -32600),
        ({"method": "message/stream", "params": {"message": KIND}}, -32600),
    ],
)
async def test_a_request_without_an_id_is_rejected_after_all_else(body: dict[str, Any], code: int) -> None:
    service = Scripted()
    async with hosting(service, dialects=KNOWN) as host:
        version = "" if "/" in body["method"] else "1.0"
        raw = request("POST", "/", dumps({"jsonrpc": "2.0", **body}), version=version)
        answer = (await ask(host, raw)).json()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert not service.calls


async def test_a_method_of_1_0_without_a_version_names_the_header_to_send() -> None:
    message = {"role": "ROLE_USER", "parts": [{"text": "Hello"}], "messageId": "1"}
    async with hosting(Scripted(), dialects=KNOWN) as host:
        raw = request("POST", "/", frame("SendMessage", {"message": message}), version="")
        error = (await ask(host, raw)).json()["error"]
        rest = (
            await ask(host, request("POST", "/message:send", dumps({"message": message}), version=""))
        ).json()
    assert error["code"] == -32009
    assert error["message"] == f"{rest['error']['message']}, 0.1", "0.1 is not spoken over HTTP+JSON"
    assert error["message"] == (
        "this method or path belongs to version 1.0, and without the header A2A-Version a request is read as 0.3; "
        "send the header 'A2A-Version: 1.0' (a server that is started with --lenient-versions does not need it); "
        "supported: 1.0, 0.3, 0.2.5, 0.1"
    )


async def test_credentials_and_outages_keep_their_status_where_a_stream_was_asked_for() -> None:
    async with hosting(
        Scripted(on_stream=yielding(A2AError(Reason.UNAUTHENTICATED))), dialects=KNOWN
    ) as host:
        raw = request("POST", "/", frame("message/stream", {"message": KIND}), version="")
        answer = await ask(host, raw)
    assert (answer.status, answer.headers["content-type"]) == (401, "application/json")


@pytest.mark.parametrize("version", ["1.0", ""])
async def test_a_rejection_of_other_calls_is_json(version: str) -> None:
    async with hosting(Scripted(), dialects=KNOWN) as host:
        for method in ("tasks/get", "GetTask", "SendStreamingMessage", "nothing"):
            answer = await ask(
                host, request("POST", "/", frame(method, {"id": 5, "message": 5}), version=version)
            )
            assert answer.headers["content-type"] == "application/json"
            assert "error" in answer.json()


@each("dialects", [KNOWN, (V0_3,)])
@each(
    ("method", "path", "place"),
    [
        ("POST", "/message:send", "/v1/message:send"),
        ("POST", "/message:stream", "/v1/message:stream"),
        ("GET", "/tasks/7", "/v1/tasks/{id}"),
        ("POST", "/tasks/7:cancel", "/v1/tasks/{id}:cancel"),
    ],
)
async def test_paths_of_another_0_3_get_an_error_with_ours(
    dialects: Any, method: str, path: str, place: str
) -> None:
    """a2a-go 2 before 2.4 requests 0.3 at the paths of 1.0, with objects of another form."""
    body = (
        json.dumps({"message": {"message_id": "m-1", "role": "user", "parts": []}})
        if method == "POST"
        else ""
    )
    async with hosting(working(), dialects=dialects) as host:
        answer = await ask(host, request(method, path, body, version="0.3"))
    assert answer.status == 404
    assert answer.json()["message"] == f"there is nothing at this path; version 0.3 has it at {place}"
    assert answer.json()["error"]["details"][0]["reason"] == "METHOD_NOT_FOUND"


async def test_an_agent_with_other_paths_for_0_3_differs_from_one_without_the_method() -> None:
    data = http("404 page not found\n", "404 Not Found", "text/plain; charset=utf-8")
    async with peering(data) as peer, dialling(peer.url, "HTTP+JSON", dialect=V0_3) as service:
        with pytest.raises(A2AError) as caught:
            await service.unary(Call(ops.SEND_MESSAGE, REQUEST, CallContext()))
    assert caught.value.reason is Reason.METHOD_NOT_FOUND
    assert "a2a-go 2 before 2.4 serve 0.3 over HTTP+JSON at paths of their own" in caught.value.message
