"""The client sides of JSON-RPC and HTTP+JSON: against our own host, and against peers with habits of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings import DialOptions, HostOptions, http_fetch
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.transports.http_scene import BINDINGS, PATIENCE, Scripted, dialling, hosting, reply, said, update

both = pytest.mark.parametrize("kind", list(BINDINGS))
REQUEST = hub.SendMessageRequest(
    message=hub.Message(message_id="m-1", role=hub.ROLE_USER, parts=[hub.Part(text="hello")])
)
RESULT = '{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}'
EVENT = '{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'


@dataclass
class Peer:
    """An agent of raw bytes: answers each request with what a function makes of it."""

    answer: Callable[[str, dict[str, str], bytes], bytes]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                block = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = block.split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((first, headers, body))
                data = self.answer(first, headers, body)
                writer.write(data.removesuffix(b"<hang up>"))
                if data.endswith(b"<hang up>"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def peering(answer: Callable[[str, dict[str, str], bytes], bytes] | bytes) -> AsyncIterator[Peer]:
    peer = Peer(answer if callable(answer) else lambda *_: answer)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer.url = f"http://{host}:{port}"
    try:
        yield peer
    finally:
        server.close()


def http(body: str | bytes, status: str = "200 OK", media: str = "application/json", more: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


def sse(*blocks: str, end: bool = True, media: str = "text/event-stream") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = "".join(f"{len(block.encode()):x}\r\n{block}\r\n" for block in blocks)
    return (head + chunks + ("0\r\n\r\n" if end else "<hang up>")).encode()


def result(kind: str, tree: str, id_: Any = 1) -> str:
    return tree if kind == "HTTP+JSON" else f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{tree}}}'


async def send(
    url: str, kind: str, options: DialOptions | None = None, **context: Any
) -> hub.SendMessageResponse:
    async with dialling(url, kind, options) as service:
        return await Client(service).send_message(REQUEST, CallContext(**context))


async def subscribe(url: str, kind: str, options: DialOptions | None = None, **context: Any) -> list[Any]:
    found: list[Any] = []
    async with dialling(url, kind, options) as service:
        request = hub.SubscribeToTaskRequest(id="7")
        stream = Client(service).subscribe_to_task(request, CallContext(**context))
        try:
            async for event in stream:
                found.append(event)  # noqa: PERF401  an error may come in between
        except A2AError as error:
            found.append(error)
    return found


async def failure(awaitable: Any) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await awaitable
    return caught.value


# --- against our own host


@both
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", ["", "/weather"])
async def test_there_and_back(kind: str, path: str, slash: str) -> None:
    service = Scripted()
    async with hosting(service, path=path) as host:
        answer = await send(f"http://{host.address}{path}{slash}", kind)
    assert answer == reply()
    [call] = service.calls
    assert call.request == REQUEST


@both
async def test_a_stream(kind: str) -> None:
    async with hosting(Scripted()) as host:
        assert [said(event) for event in await subscribe(f"http://{host.address}", kind)] == [
            "one",
            "two",
            "three",
        ]


@both
async def test_errors_keep_their_reason(kind: str) -> None:
    thrown: list[A2AError] = []

    async def fail(_: Call[Any, Any]) -> Any:
        raise thrown[-1]

    async with hosting(Scripted(on_unary=fail)) as host:
        for reason in Reason:
            thrown.append(A2AError(reason, "told", metadata={"k": "v"}, retry_after=3))
            error = await failure(send(f"http://{host.address}", kind))
            assert (error.reason, error.message, error.metadata, error.blame, error.retry_after) == (
                reason,
                "told",
                {"k": "v"},
                Blame.PEER,
                3,
            )


@both
async def test_errors_early_and_late_in_streams(kind: str) -> None:
    late = False

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        if late:
            yield update("one")
        raise A2AError(Reason.TASK_NOT_FOUND)

    async with hosting(Scripted(on_stream=script)) as host:
        [error] = await subscribe(f"http://{host.address}", kind)
        assert error.reason is Reason.TASK_NOT_FOUND
        late = True
        event, error = await subscribe(f"http://{host.address}", kind)
        assert (said(event), error.reason) == ("one", Reason.TASK_NOT_FOUND)


@both
async def test_parameters_both_ways(kind: str) -> None:
    async def echo(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = call.context.parameters["a2a-extensions"]
        call.context.reply["set-cookie"] = "no"
        return reply()

    service = Scripted(on_unary=echo)
    options = DialOptions(parameters={"authorization": "Bearer x"})
    async with hosting(service) as host, dialling(f"http://{host.address}", kind, options) as near:
        context = CallContext(parameters={"a2a-extensions": "a, b", "cookie": "c", "traceparent": "t"})
        await Client(near).send_message(REQUEST, context)
    assert context.reply == {"a2a-extensions": "a, b"}
    seen = service.calls[0].context.parameters
    assert {name: seen.get(name) for name in ("authorization", "traceparent", "cookie", "a2a-version")} == {
        "authorization": "Bearer x",
        "traceparent": "t",
        "cookie": None,
        "a2a-version": "1.0",
    }


@both
async def test_the_interfaces_tenant(kind: str) -> None:
    service = Scripted()
    async with hosting(service) as host, dialling(f"http://{host.address}", kind, tenant="ac/me") as near:
        client = Client(near)
        request = hub.GetTaskRequest(id="7")
        await client.get_task(request)
        await client.get_task(hub.GetTaskRequest(id="7", tenant="own"))
        assert request.tenant == ""
    assert [call.context.tenant for call in service.calls] == ["ac/me", "own"]


@both
async def test_deadlines_travel(kind: str) -> None:
    service = Scripted()
    deadline = time.monotonic() + 50
    async with hosting(service) as host:
        await send(f"http://{host.address}", kind, deadline=deadline)
    found = service.calls[0].context.deadline
    assert found is not None
    assert abs(found - deadline) < 5


@both
@pytest.mark.parametrize("how", ["context", "options"])
async def test_deadlines_end_calls(kind: str, how: str) -> None:
    gone = asyncio.Event()

    async def never(_: Call[Any, Any]) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with hosting(Scripted(on_unary=never)) as host:
        url = f"http://{host.address}"
        if how == "context":
            error = await failure(send(url, kind, deadline=time.monotonic() + 0.05))
        else:
            error = await failure(send(url, kind, DialOptions(timeout=0.05)))
        assert error.reason is Reason.DEADLINE_EXCEEDED
        async with asyncio.timeout(PATIENCE):
            await gone.wait()


@both
async def test_a_deadline_that_has_passed_sends_nothing(kind: str) -> None:
    service = Scripted()
    async with hosting(service) as host:
        error = await failure(send(f"http://{host.address}", kind, deadline=time.monotonic() - 1))
    assert error.reason is Reason.DEADLINE_EXCEEDED
    assert not service.calls


@both
async def test_a_deadline_ends_a_stream(kind: str) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    service = Scripted(on_stream=script)
    async with hosting(service) as host:
        event, error = await subscribe(f"http://{host.address}", kind, deadline=time.monotonic() + 0.1)
        assert (said(event), error.reason) == ("one", Reason.DEADLINE_EXCEEDED)
        async with asyncio.timeout(PATIENCE):
            await service.closed.wait()


@both
async def test_silence_is_noticed_and_keep_alives_are_no_silence(kind: str) -> None:
    go = asyncio.Event()

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await go.wait()
        yield update("two")

    options = DialOptions(idle_timeout=0.2)
    service = Scripted(on_stream=script)
    async with hosting(service, options=HostOptions(keep_alive=0.05)) as host:
        asyncio.get_running_loop().call_later(0.6, go.set)
        events = await subscribe(f"http://{host.address}", kind, options)
        assert [said(event) for event in events] == ["one", "two"]
    go.clear()
    async with hosting(service, options=HostOptions(keep_alive=60)) as host:
        event, error = await subscribe(f"http://{host.address}", kind, options)
        assert (said(event), error.reason) == ("one", Reason.UNAVAILABLE)
        assert (error.metadata["phase"], error.blame) == ("stream", Blame.PEER)


@both
async def test_closing_a_stream_cancels_upstream(kind: str) -> None:
    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    service = Scripted(on_stream=script)
    async with hosting(service) as host, dialling(f"http://{host.address}", kind) as near:
        stream = near.stream(Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="7"), CallContext()))
        assert said(await anext(stream)) == "one"
        await stream.aclose()
        async with asyncio.timeout(PATIENCE):
            await service.closed.wait()


@both
async def test_cancelling_a_call_cancels_upstream(kind: str) -> None:
    entered, gone = asyncio.Event(), asyncio.Event()

    async def never(_: Call[Any, Any]) -> Any:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with hosting(Scripted(on_unary=never)) as host:
        task = asyncio.create_task(send(f"http://{host.address}", kind))
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
            task.cancel()
            await gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await task


@both
async def test_more_calls_at_once_than_a_pool_would_allow(kind: str) -> None:
    together = asyncio.Event()
    inside = 0

    async def meet(_: Call[Any, Any]) -> Any:
        nonlocal inside
        inside += 1
        if inside == 150:
            together.set()
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return reply()

    async with hosting(Scripted(on_unary=meet)) as host, dialling(f"http://{host.address}", kind) as near:
        client = Client(near)
        answers = await asyncio.gather(*(client.send_message(REQUEST) for _ in range(150)))
    assert len(answers) == 150


# --- against peers


@both
async def test_nobody_listens(kind: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    error = await failure(send(url, kind))
    assert (error.reason, error.metadata["phase"], error.blame) == (
        Reason.UNAVAILABLE,
        "connect",
        Blame.PEER,
    )
    [error] = await subscribe(url, kind)
    assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


@both
@pytest.mark.parametrize("url", ["", "ftp://x/", "http://", "http://[::1", "grpc://x:1"])
async def test_what_is_no_url(kind: str, url: str) -> None:
    error = await failure(send(url, kind))
    assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


@both
async def test_host_and_port_are_enough(kind: str) -> None:
    async with hosting(Scripted()) as host:
        assert await send(str(host.address), kind) == reply()


@both
@pytest.mark.parametrize("data", [b"<hang up>", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc<hang up>"])
async def test_a_connection_that_breaks(kind: str, data: bytes) -> None:
    async with peering(data) as peer:
        error = await failure(send(peer.url, kind))
    assert (error.reason, error.metadata["phase"], error.blame) == (Reason.UNAVAILABLE, "call", Blame.PEER)


@both
async def test_nonsense_is_no_answer(kind: str) -> None:
    async with peering(b"nonsense\r\n\r\n<hang up>") as peer:
        assert (await failure(send(peer.url, kind))).reason is Reason.UNAVAILABLE


@both
async def test_a_stream_that_breaks(kind: str) -> None:
    block = f"data: {result(kind, EVENT)}\n\n"
    for data in (sse(block, end=False), sse(block, "data: {", end=False), sse(block, "data: {")):
        async with peering(data) as peer:
            event, error = await subscribe(peer.url, kind)
        assert event.status_update.task_id == "t"
        assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "stream")


@both
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_streams_in_any_spelling(kind: str, end: str) -> None:
    tree = json.dumps(json.loads(result(kind, EVENT)), indent=1)
    lines = ["\ufeff: hello", "id: 1", "retry: 5", "event: message"]
    lines += [f"data: {line}" for line in tree.split("\n")] + [
        "",
        ": ping",
        "",
        f"data:{result(kind, EVENT)}",
        "",
        "",
    ]
    text = end.join(lines)
    async with peering(
        sse(text[:25], text[25:31], text[31:], media="text/event-stream; charset=utf-8")
    ) as peer:
        events = await subscribe(peer.url, kind)
    assert [event.status_update.task_id for event in events] == ["t", "t"]


@both
async def test_one_json_answer_to_a_streaming_call(kind: str) -> None:
    async with peering(http(result(kind, EVENT))) as peer:
        [event] = await subscribe(peer.url, kind)
    assert event.status_update.task_id == "t"


@both
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("401 Unauthorized", Reason.UNAUTHENTICATED),
        ("403 Forbidden", Reason.PERMISSION_DENIED),
        ("404 Not Found", Reason.METHOD_NOT_FOUND),
        ("429 Too Many Requests", Reason.RESOURCE_EXHAUSTED),
        ("500 Oops", Reason.INTERNAL_ERROR),
        ("502 Bad Gateway", Reason.UNAVAILABLE),
        ("503 Service Unavailable", Reason.UNAVAILABLE),
        ("504 Gateway Timeout", Reason.DEADLINE_EXCEEDED),
        ("302 Found", Reason.UNAVAILABLE),
    ],
)
async def test_http_errors_without_our_body(kind: str, status: str, reason: Reason, streaming: bool) -> None:
    page = http("<html>A  proxy\nspeaks</html>", status, "text/html", "Location: http://127.0.0.1:1/\r\n")
    async with peering(page) as peer:
        if streaming:
            [error] = await subscribe(peer.url, kind)
        else:
            error = await failure(send(peer.url, kind))
    assert error.reason is reason
    assert error.blame is Blame.PEER


@both
@pytest.mark.parametrize("body", ["", "<html>", "[]", '"x"', "{", '{"message":5}'])
async def test_answers_that_are_none(kind: str, body: str) -> None:
    async with peering(http(body)) as peer:
        error = await failure(send(peer.url, kind))
    assert (error.reason, error.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


@both
async def test_answers_that_are_too_large(kind: str) -> None:
    huge = result(kind, RESULT.replace("hi", "x" * 5000))
    options = DialOptions(max_message=1000)
    async with peering(http(huge)) as peer:
        assert (await failure(send(peer.url, kind, options))).reason is Reason.INVALID_AGENT_RESPONSE
    async with peering(sse(f"data: {huge}\n\n")) as peer:
        [error] = await subscribe(peer.url, kind, options)
        assert error.reason is Reason.INVALID_AGENT_RESPONSE


@both
async def test_large_integers_are_read_exactly_before_they_are_rounded(kind: str) -> None:
    tree = RESULT.replace('"text":"hi"', f'"data":{2**100}')
    async with peering(http(result(kind, tree))) as peer:
        answer = await send(peer.url, kind)
    assert answer.message.parts[0].data.number_value == float(2**100)


@both
async def test_what_goes_out(kind: str) -> None:
    async with peering(http(result(kind, RESULT))) as peer:
        await send(f"{peer.url}/base", kind)
    [(first, headers, body)] = peer.requests
    path = "/base" if kind == "JSONRPC" else "/base/message:send"
    assert first == f"POST {path} HTTP/1.1"
    assert headers["a2a-version"] == "1.0"
    assert headers["content-type"] == "application/json"
    assert "application/json" in headers["accept"]
    tree = json.loads(body)
    params = tree["params"] if kind == "JSONRPC" else tree
    assert params == {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}


@both
async def test_a_parameter_that_no_header_holds(kind: str) -> None:
    options = DialOptions(parameters={"authorization": "a\r\nb"})
    error = await failure(send("http://127.0.0.1:1", kind, options))
    assert error.reason is Reason.INVALID_PARAMS


# --- JSON-RPC only


@pytest.mark.parametrize("id_", [2, "1", None])
async def test_an_answer_to_somebody_else(id_: Any) -> None:
    async with peering(http(result("JSONRPC", RESULT, id_))) as peer:
        assert (await failure(send(peer.url, "JSONRPC"))).reason is Reason.INVALID_AGENT_RESPONSE


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 Oops"])
@pytest.mark.parametrize("id_", ["1", "null"])
async def test_an_error_with_any_status_and_id(status: str, id_: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{id_},"error":{{"code":-32001,"message":"gone"}}}}'
    async with peering(http(body, status)) as peer:
        error = await failure(send(peer.url, "JSONRPC"))
    assert (error.reason, error.message) == (Reason.TASK_NOT_FOUND, "gone")


@pytest.mark.parametrize("body", ['{"jsonrpc":"2.0","id":1,"result":null}', '{"jsonrpc":"2.0","id":1}'])
async def test_deleted_in_two_spellings(body: str) -> None:
    async with peering(http(body)) as peer, dialling(peer.url, "JSONRPC") as service:
        request = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")
        await Client(service).delete_task_push_notification_config(request)
        assert len(peer.requests) == 1
        # For anything else no result is no answer.
        assert (await failure(Client(service).send_message(REQUEST))).reason is Reason.INVALID_AGENT_RESPONSE


async def test_an_error_in_the_middle_of_a_stream() -> None:
    error = '{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no"}}'
    data = sse(f"data: {result('JSONRPC', EVENT)}\n\n", f"data: {error}\n\n")
    async with peering(data) as peer:
        _, found = await subscribe(peer.url, "JSONRPC")
    assert found.reason is Reason.UNSUPPORTED_OPERATION


# --- HTTP+JSON only


@pytest.mark.parametrize("body", ["", "{}", "null"])
@pytest.mark.parametrize("status", ["200 OK", "204 No Content"])
async def test_deleted_in_several_spellings(body: str, status: str) -> None:
    data = http("" if status.startswith("204") else body, status)
    if status.startswith("204"):
        data = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with peering(data) as peer, dialling(peer.url, "HTTP+JSON") as service:
        request = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")
        await Client(service).delete_task_push_notification_config(request)
        assert peer.requests[0][0] == "DELETE /tasks/t/pushNotificationConfigs/c HTTP/1.1"


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
async def test_subscribe_tries_the_other_method_and_remembers(status: str) -> None:
    def answer(first: str, *_: Any) -> bytes:
        return http("", status) if first.startswith("GET") else sse(f"data: {EVENT}\n\n")

    async with peering(answer) as peer, dialling(peer.url, "HTTP+JSON") as service:
        for _ in range(2):
            request = hub.SubscribeToTaskRequest(id="7")
            assert len([event async for event in Client(service).subscribe_to_task(request)]) == 1
    assert [first.split()[0] for first, *_ in peer.requests] == ["GET", "POST", "POST"]


async def test_a_missing_task_is_no_reason_to_try_the_other_method() -> None:
    body = {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "gone",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                }
            ],
        }
    }
    async with peering(http(json.dumps(body), "404 Not Found")) as peer:
        [error] = await subscribe(peer.url, "HTTP+JSON")
    assert error.reason is Reason.TASK_NOT_FOUND
    assert len(peer.requests) == 1


@pytest.mark.parametrize("event", ["event: error\n", ""])
async def test_error_events_with_and_without_their_type(event: str) -> None:
    body = '{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"This operation is not supported"}}'
    async with peering(sse(f"data: {EVENT}\n\n", f"{event}data: {body}\n\n")) as peer:
        _, error = await subscribe(peer.url, "HTTP+JSON")
    assert error.reason is Reason.UNSUPPORTED_OPERATION


async def test_problem_json() -> None:
    body = '{"type":"about:blank","title":"Task not found","status":404,"detail":"Task not found: 7"}'
    async with peering(http(body, "404 Not Found", "application/problem+json")) as peer:
        error = await failure(send(peer.url, "HTTP+JSON"))
    assert (error.reason, error.message) == (Reason.TASK_NOT_FOUND, "Task not found: 7")


async def test_an_id_that_is_missing_stays_here() -> None:
    async with peering(http("{}")) as peer, dialling(peer.url, "HTTP+JSON") as service:
        error = await failure(Client(service).get_task(hub.GetTaskRequest()))
        assert (error.reason, error.violations[0].field) == (Reason.INVALID_PARAMS, "id")
        assert not peer.requests


@pytest.mark.parametrize("id_", ["a/b", "..", ".", "a b?c#d", "é%2F", "a:cancel", "//", "\u2028"])
async def test_any_id_arrives(id_: str) -> None:
    service = Scripted()
    async with hosting(service) as host, dialling(f"http://{host.address}", "HTTP+JSON", tenant=id_) as near:
        task = await Client(near).get_task(hub.GetTaskRequest(id=id_))
    assert task.id == id_
    assert service.calls[0].context.tenant == id_


# --- proxies


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@both
async def test_a_proxy_from_the_environment(kind: str, environment: pytest.MonkeyPatch) -> None:
    async with peering(http(result(kind, RESULT))) as proxy:
        environment.setenv("HTTP_PROXY", proxy.url.replace("http://", "http://user:pass@"))
        environment.setenv("NO_PROXY", "direct.invalid")
        await send("http://agent.invalid/x", kind)
        first, headers, _ = proxy.requests[0]
        assert first.startswith("POST http://agent.invalid/x")
        assert headers["proxy-authorization"].startswith("Basic ")
        error = await failure(send("http://direct.invalid/x", kind, DialOptions(connect_timeout=2)))
        assert error.metadata["phase"] == "connect"
        assert len(proxy.requests) == 1


@both
async def test_a_proxy_that_is_down_or_of_another_kind(kind: str, environment: pytest.MonkeyPatch) -> None:
    for proxy in ("http://127.0.0.1:1", "127.0.0.1:1", "socks5://127.0.0.1:1"):
        environment.setenv("http_proxy", proxy)
        error = await failure(send("http://agent.invalid", kind))
        assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


async def test_netrc_is_not_asked(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login a password b\n")
    netrc.chmod(0o600)
    environment.setenv("NETRC", str(netrc))
    async with peering(http(RESULT)) as peer:
        await send(peer.url, "HTTP+JSON")
        assert "authorization" not in peer.requests[0][1]


# --- fetching


async def test_fetching() -> None:
    async with peering(http("{}", more="X-One: 1\r\n")) as peer, http_fetch(DialOptions()) as fetch:
        fetched = await fetch(f"{peer.url}/card.json?x=1", {"If-None-Match": '"a"'})
    assert (fetched.status, fetched.body, fetched.headers["x-one"]) == (200, b"{}", "1")
    first, headers, _ = peer.requests[0]
    assert (first, headers["if-none-match"]) == ("GET /card.json?x=1 HTTP/1.1", '"a"')


async def test_fetching_follows_no_redirect() -> None:
    moved = http("", "301 Moved", more="Location: http://127.0.0.1:1/\r\n")
    async with peering(moved) as peer, http_fetch(DialOptions()) as fetch:
        assert (await fetch(peer.url, {})).status == 301


async def test_fetching_what_is_not_there() -> None:
    async with http_fetch(DialOptions()) as fetch:
        error = await failure(fetch("http://127.0.0.1:1/", {}))
        assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
        assert (await failure(fetch("nonsense://x", {}))).reason is Reason.UNAVAILABLE


async def test_fetching_has_limits() -> None:
    async with peering(http("x" * 5000)) as peer, http_fetch(DialOptions(max_message=1000)) as fetch:
        assert (await failure(fetch(peer.url, {}))).reason is Reason.INVALID_AGENT_RESPONSE
    async with peering(b"HTTP/1.1 200 OK\r\n") as peer, http_fetch(DialOptions(timeout=0.1)) as fetch:
        assert (await failure(fetch(peer.url, {}))).reason is Reason.DEADLINE_EXCEEDED
