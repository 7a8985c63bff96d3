"""The client sides of JSON-RPC and HTTP+JSON against peers with habits of their own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from a2a_bridge.bindings.binding import DialOptions, http_exchange, http_fetch, http_post
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import Blame, Reason, cause_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe
from a2a_bridge_transports._http import session
from a2a_bridge_transports._http.proxy import is_loopback
from a2a_bridge_transports._http.session import KEEP_CONNECTION
from tests.patience import PATIENCE
from tests.transports.grpc_scene import hosting as hosting_grpc
from tests.transports.http_peer import (
    EVENT,
    REQUEST,
    RESULT,
    failure,
    http,
    peering,
    result,
    send,
    sse,
    subscribe,
)
from tests.transports.http_scene import BINDINGS, Scripted, dialling, hosting, reply

both = pytest.mark.parametrize("kind", list(BINDINGS))


def test_a_kept_connection_is_given_up_before_the_server_closes_it() -> None:
    assert uvicorn.Config("").timeout_keep_alive > KEEP_CONNECTION


@both
async def test_no_listener(kind: str, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    error = await failure(send(url, kind))
    assert (error.reason, error.metadata["phase"], error.blame) == (Reason.UNAVAILABLE, "connect", Blame.PEER)
    assert error.message == f"no connection to the agent: 127.0.0.1:{unused_tcp_port}: Connection refused"
    [error] = await subscribe(url, kind)
    assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


async def test_a_host_that_does_not_exist() -> None:
    error = await failure(send("http://agent.invalid:9", "JSONRPC"))
    assert error.message.startswith("no connection to the agent: agent.invalid:9: ")
    assert "ssl" not in error.message


@both
@pytest.mark.parametrize("url", ["", "ftp://x/", "http://", "http://[::1", "grpc://x:1"])
async def test_invalid_urls(kind: str, url: str) -> None:
    error = await failure(send(url, kind))
    assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


@both
@pytest.mark.parametrize("host", ["a..b", ".example.com", f"{'a' * 64}.example.com"])
async def test_a_host_that_is_no_name(kind: str, host: str) -> None:
    url = f"http://{host}/"
    [streamed] = await subscribe(url, kind)
    for error in (await failure(send(url, kind)), streamed):
        assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
        assert "idna" not in error.message


async def test_a_number_that_is_no_address() -> None:
    """No connector resolves it, so that it is checked before."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        raise OSError("no such host")

    options = DialOptions(resolve=resolve)
    url = "http://999.999.999.999/"
    async with (
        http_fetch(options) as fetch,
        http_exchange(options) as exchange,
        http_post(options) as post,
        http_post(DialOptions(), resolve) as post_unread,
    ):
        for call in (
            fetch(url, {}),
            exchange("GET", url, {}, None),
            post(url, {}, b""),
            post_unread(url, {}, b""),
        ):
            error = await failure(call)
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
async def test_a_closed_client_is_not_used(kind: str) -> None:
    async with hosting(Scripted()) as host:
        async with dialling(f"http://{host.address}", kind) as service:
            pass
        stream = Client(service).subscribe_to_task(hub.SubscribeToTaskRequest(id="7"))
        for call in (Client(service).send_message(REQUEST), anext(stream)):
            error = await failure(call)
            assert (error.reason, error.metadata, error.blame) == (
                Reason.UNAVAILABLE,
                {"phase": "connect"},
                Blame.SELF,
            )


@both
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc"])
async def test_closing_a_client_ends_its_calls(kind: str, data: bytes) -> None:
    async with peering(data) as peer:
        async with dialling(peer.url, kind, DialOptions(timeout=None)) as service:
            call = asyncio.ensure_future(Client(service).send_message(REQUEST))
            async with asyncio.timeout(PATIENCE):
                while not peer.requests or (data and not service.exchanger._connector._acquired):  # type: ignore[attr-defined]  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        async with asyncio.timeout(PATIENCE):
            error = await failure(call)
    assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.SELF)
    assert error.metadata.get("phase") != "connect"


@both
async def test_closing_a_client_ends_its_streams(kind: str) -> None:
    async with peering(sse(f"data: {result(kind, EVENT)}\n\n", end=False).removesuffix(b"<hang up>")) as peer:
        async with dialling(peer.url, kind) as service:
            stream = Client(service).subscribe_to_task(hub.SubscribeToTaskRequest(id="7"))
            await anext(stream)
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)  # until it reads
        async with asyncio.timeout(PATIENCE):
            error = await failure(reading)
    assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.SELF)


@both
async def test_nonsense_is_no_answer(kind: str) -> None:
    async with peering(b"nonsense\r\n\r\n<hang up>") as peer:
        error = await failure(send(peer.url, kind))
    assert error.reason is Reason.UNAVAILABLE
    assert "its answer is no HTTP: " in cause_of(error)


@both
@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_an_answer_that_is_not_compressed_as_it_says(kind: str, coding: str) -> None:
    more = f"Content-Encoding: {coding}\r\n"
    whole = http(result(kind, RESULT), more=more)
    streamed = sse(f"data: {result(kind, EVENT)}\n\n").replace(b"Transfer-", f"{more}Transfer-".encode())
    for data in (whole, streamed):
        async with peering(data) as peer, dialling(peer.url, kind) as service:
            for call in (
                Client(service).send_message(REQUEST),
                anext(Client(service).send_streaming_message(REQUEST)),
            ):
                error = await failure(call)
                assert (error.reason, error.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
                assert "Content-Encoding" in error.message


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
async def test_streams_in_any_variant(kind: str, end: str) -> None:
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
async def test_integers_beyond_64_bits_become_the_nearest_double(kind: str) -> None:
    tree = RESULT.replace('"text":"hi"', f'"data":{2**100}')
    async with peering(http(result(kind, tree))) as peer:
        answer = await send(peer.url, kind)
    assert answer.message.parts[0].data.number_value == float(2**100)


@both
async def test_sent_headers(kind: str) -> None:
    async with peering(http(result(kind, RESULT))) as peer:
        await send(f"{peer.url}/base", kind)
    [(first, headers, body)] = peer.requests
    path = "/base" if kind == "JSONRPC" else "/base/message:send"
    assert first == f"POST {path} HTTP/1.1"
    assert (headers["a2a-version"], headers["content-type"]) == ("1.0", "application/json")
    assert "application/json" in headers["accept"]
    tree = json.loads(body)
    params = tree["params"] if kind == "JSONRPC" else tree
    assert params == {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}


@both
async def test_a_parameter_that_no_header_holds(kind: str) -> None:
    options = DialOptions(parameters={"authorization": "a\r\nb"})
    error = await failure(send("http://127.0.0.1:1", kind, options))
    assert error.reason is Reason.INVALID_PARAMS


# --- JSON-RPC only ---
async def test_an_id_that_comes_back_as_text() -> None:
    """a2a-java 0.3.3 answers so when a push configuration is set (JSONRPCHandler.setPushNotificationConfig)."""
    async with peering(http(result("JSONRPC", RESULT, "1"))) as peer:
        as_text = await send(peer.url, "JSONRPC")
    async with peering(http(result("JSONRPC", RESULT, 1))) as peer:
        assert as_text == await send(peer.url, "JSONRPC")


@pytest.mark.parametrize("id_", [2, "2", "01", None, True, 1.0])
async def test_an_answer_with_another_id(id_: Any) -> None:
    async with peering(http(result("JSONRPC", RESULT, id_))) as peer:
        assert (await failure(send(peer.url, "JSONRPC"))).reason is Reason.INVALID_AGENT_RESPONSE


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 Oops"])
@pytest.mark.parametrize("id_", ["1", "null"])
async def test_an_error_with_any_status_and_id(status: str, id_: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{id_},"error":{{"code":-32001,"message":"gone"}}}}'
    async with peering(http(body, status)) as peer:
        error = await failure(send(peer.url, "JSONRPC"))
    assert (error.reason, error.message, error.blame) == (Reason.TASK_NOT_FOUND, "gone", Blame.PEER)


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","id":1,"result":null}',
        '{"jsonrpc":"2.0","id":1}',
        "",  # a2a-go 0.3.15
    ],
)
async def test_deleted_in_variants_of_json_rpc(body: str) -> None:
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


@each("binding", ["JSONRPC", "HTTP+JSON"])
@each("form", ["compact", "lines", "blank line", "with a keep-alive"])
async def test_an_error_that_is_no_event_of_the_stream_that_it_answers(binding: str, form: str) -> None:
    """Servers that set the media type of the response before they read the request."""
    tree = {
        "JSONRPC": {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no parts"}},
        "HTTP+JSON": {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no parts"}},
    }[binding]
    text = json.dumps(tree, indent=1 if form == "lines" else None)
    body = {"blank line": f"{text}\n\n", "with a keep-alive": f": waiting\n\n{text}\n"}.get(form, text)
    async with peering(sse(body)) as peer:
        [error] = await subscribe(peer.url, binding)
    assert (error.reason, error.message) == (Reason.INVALID_PARAMS, "no parts")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_response_that_is_no_event_of_the_stream_that_it_answers(binding: str) -> None:
    text = result(binding, EVENT)
    async with peering(sse(text)) as peer:
        [event] = await subscribe(peer.url, binding)
    async with peering(sse(f"data: {text}\n\n")) as peer:
        assert [event] == await subscribe(peer.url, binding)
    async with peering(sse(text[:-1])) as peer:
        [error] = await subscribe(peer.url, binding)
    assert error.reason in {Reason.UNAVAILABLE, Reason.INVALID_AGENT_RESPONSE}


# --- HTTP+JSON only ---
@pytest.mark.parametrize("body", ["", "{}", "null"])
@pytest.mark.parametrize("status", ["200 OK", "204 No Content"])
async def test_deleted_in_several_variants(body: str, status: str) -> None:
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
        return http("", status) if first.startswith("POST") else sse(f"data: {EVENT}\n\n")

    async with peering(answer) as peer, dialling(peer.url, "HTTP+JSON") as service:
        for _ in range(2):
            request = hub.SubscribeToTaskRequest(id="7")
            assert len([event async for event in Client(service).subscribe_to_task(request)]) == 1
    assert [first.split()[0] for first, *_ in peer.requests] == ["POST", "GET", "GET"]


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


async def test_a_bare_error_of_jsonrpc_in_a_stream() -> None:
    """As agents in Rust send it (a2a-server-lf 0.5.3, src/sse.rs)."""
    body = (
        '{"code":-32004,"message":"some words","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",'
    )
    body += '"reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"k":"v"}}]}'
    async with peering(sse(f"id: 1\ndata: {EVENT}\n\n", f"id: 2\ndata: {body}\n\n")) as peer:
        _, error = await subscribe(peer.url, "HTTP+JSON")
    assert (error.reason, error.message) == (Reason.UNSUPPORTED_OPERATION, "some words")
    assert error.metadata == {"k": "v"}


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


@each("id_", ["a/b", "..", ".", "a b?c#d", "é%2F", "a:cancel", "//", "\u2028"])
async def test_any_id_arrives(id_: str) -> None:
    service = Scripted()
    async with hosting(service) as host, dialling(f"http://{host.address}", "HTTP+JSON", tenant=id_) as near:
        task = await Client(near).get_task(hub.GetTaskRequest(id=id_))
    assert task.id == id_
    assert service.calls[0].context.tenant == id_


# --- proxies ---
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
    environment.setenv("http_proxy", "http://user:hunter2@127.0.0.1:1")
    error = await failure(send("http://agent.invalid", kind))
    assert "through the proxy http://127.0.0.1:1," in error.message
    assert "hunter2" not in error.message


@both
async def test_no_proxy_is_asked_for_this_machine(kind: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("http_proxy", "http://127.0.0.1:1")
    async with peering(http(result(kind, RESULT))) as peer:
        await send(peer.url, kind)
        await send(peer.url.replace("127.0.0.1", "localhost"), kind)
        assert len(peer.requests) == 2


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("agent.localhost", True),
        ("127.8.9.1", True),
        ("[::1]", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@both
async def test_an_http_address_that_is_a_grpc_port(kind: str) -> None:
    async with hosting_grpc(Probe()) as host:
        error = await failure(send(f"http://{host.address}", kind))
    assert error.reason is Reason.UNAVAILABLE
    assert "grpc://" in error.message


async def test_netrc_is_not_asked(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login a password b\n")
    netrc.chmod(0o600)
    environment.setenv("NETRC", str(netrc))
    async with peering(http(RESULT)) as peer:
        await send(peer.url, "HTTP+JSON")
        assert "authorization" not in peer.requests[0][1]


# --- fetching ---
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


async def test_fetching_an_unknown_document() -> None:
    async with http_fetch(DialOptions()) as fetch:
        error = await failure(fetch("http://127.0.0.1:1/", {}))
        assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
        assert (await failure(fetch("nonsense://x", {}))).reason is Reason.UNAVAILABLE


async def test_fetching_has_limits() -> None:
    async with peering(http("x" * 5000)) as peer, http_fetch(DialOptions(max_message=1000)) as fetch:
        assert (await failure(fetch(peer.url, {}))).reason is Reason.INVALID_AGENT_RESPONSE
    async with peering(b"HTTP/1.1 200 OK\r\n") as peer, http_fetch(DialOptions(timeout=0.1)) as fetch:
        assert (await failure(fetch(peer.url, {}))).reason is Reason.DEADLINE_EXCEEDED


async def test_a_document_that_drips_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a gateway, whose calls have no time limit, would wait for ever for the card."""
    monkeypatch.setattr(session, "DOCUMENT_TIME", 0.1)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
    async with peering(head) as peer, http_fetch(DialOptions(timeout=None)) as fetch:
        error = await failure(fetch(peer.url, {}))
    assert (error.reason, error.message) == (
        Reason.DEADLINE_EXCEEDED,
        f"{peer.url} has not arrived whole within 0.1 s",
    )
