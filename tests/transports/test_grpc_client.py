"""The gRPC client side against peers with all kinds of behaviour, most of them made of plain grpcio."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_transports.grpc import BINDING
from a2a_bridge_transports.grpc.channel import credentials_of
from tests.transports.breaking_relay import relaying
from tests.transports.grpc_scene import PATIENCE, SERVICE, dialling

REQUEST = hub.GetTaskRequest(id="t")
SUBSCRIBE = hub.SubscribeToTaskRequest(id="t")
EVENT = hub.StreamResponse(message=hub.Message(message_id="m")).SerializeToString()


class Peer(grpc.GenericRpcHandler):
    """Answers every path with one coroutine function, and records the requests."""

    def __init__(self, answer: Callable[..., Any], *, streaming: bool) -> None:
        kind = grpc.unary_stream_rpc_method_handler if streaming else grpc.unary_unary_rpc_method_handler
        self.paths: list[str] = []
        self.metadata: dict[str, Any] = {}
        self._handler = kind(answer)
        self._probe = grpc.unary_unary_rpc_method_handler(self._no)

    async def _no(self, _wire: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no")

    def service(self, details: Any) -> Any:
        self.paths.append(details.method)
        if not details.method.startswith(f"/{SERVICE}/"):
            return self._probe
        self.metadata = dict(details.invocation_metadata)
        return self._handler


@asynccontextmanager
async def peer(answer: Callable[..., Any], *, streaming: bool = False) -> AsyncIterator[tuple[str, Peer]]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handler = Peer(answer, streaming=streaming)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", handler
    finally:
        await server.stop(None)


async def task(_wire: bytes, _context: Any) -> bytes:
    return hub.Task(id="t").SerializeToString()


def aborting(code: grpc.StatusCode, text: str = "", trailers: tuple[Any, ...] = ()) -> Callable[..., Any]:
    async def answer(_wire: bytes, context: Any) -> None:
        await context.abort(code, text, trailers)

    return answer


async def failing(coroutine: Any) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(coroutine, PATIENCE)
    return caught.value


@pytest.mark.parametrize("form", ["{}", "http://{}", "http://{}/", "grpc://{}", "dns:///{}", "ipv4:{}"])
async def test_every_form_of_url_connects(form: str) -> None:
    async with peer(task) as (address, _), dialling(form.format(address)) as client:
        assert (await client.get_task(REQUEST)).id == "t"


async def test_no_proxy_is_asked_for_this_machine_and_errors_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://user:hunter2@127.0.0.1:1")
    request = hub.GetTaskRequest(id="t")
    async with peer(task) as (address, _), dialling(address) as client:
        await client.get_task(request)
    async with dialling("agent.invalid:1") as client:
        error = await failing(client.get_task(request))
    assert error.metadata["phase"] == "connect"
    assert "through the proxy 127.0.0.1:1," in error.message
    assert "hunter2" not in error.message


async def test_parameters_of_a_call() -> None:
    parameters = {
        "a2a-extensions": "https://e.example/2",
        "authorization": "Bearer caller",
        "traceparent": "00-1",
        "cookie": "no",
        "a2a-version": "0.3",
    }
    own = {"authorization": "Bearer own", "X-Key": "k"}
    async with peer(task) as (address, seen), dialling(address, parameters=own) as client:
        await client.get_task(REQUEST, CallContext(parameters=parameters))
    assert seen.paths == [f"/{SERVICE}/GetTask"]
    assert seen.metadata.pop("user-agent").startswith("a2a-bridge grpc-python")
    assert seen.metadata == {
        "a2a-version": "1.0",
        "a2a-extensions": "https://e.example/2",
        "authorization": "Bearer own",
        "traceparent": "00-1",
        "x-key": "k",
    }


async def test_extensions_add_up() -> None:
    seen: list[Any] = []

    async def answer(_wire: bytes, context: Any) -> bytes:
        seen.extend(value for name, value in context.invocation_metadata() if name == "a2a-extensions")
        return b""

    async with (
        peer(answer) as (address, _),
        dialling(address, parameters={"a2a-extensions": "u:1"}) as client,
    ):
        await client.get_task(REQUEST, CallContext(parameters={"a2a-extensions": "u:2"}))
    assert seen == ["u:1", "u:2"]


@pytest.mark.parametrize("value", ["a\r\nb", "é", "\x00"])
async def test_parameters_that_cannot_travel(value: str) -> None:
    async with peer(task) as (address, seen), dialling(address) as client:
        context = CallContext(parameters={"authorization": value})
        assert (await failing(client.get_task(REQUEST, context))).reason is Reason.INVALID_PARAMS
        assert not seen.paths
    with pytest.raises(ValueError, match="authorization"):
        BINDING.dial(hub.AgentInterface(url="a:1"), V1_0, DialOptions(parameters={"authorization": value}))


async def test_the_tenant_of_the_interface_stays_out_of_the_callers_request() -> None:
    seen: list[hub.GetTaskRequest] = []

    async def answer(wire: bytes, _context: Any) -> bytes:
        seen.append(hub.GetTaskRequest.FromString(wire))
        return b""

    request = hub.GetTaskRequest(id="t")
    async with peer(answer) as (address, _), dialling(address, tenant="acme") as client:
        await client.get_task(request)
        await client.get_task(hub.GetTaskRequest(id="t", tenant="own"))
    assert [one.tenant for one in seen] == ["acme", "own"]
    assert request.tenant == ""


@each(
    ("code", "reason"),
    [
        (grpc.StatusCode.CANCELLED, Reason.CANCELLED),
        (grpc.StatusCode.UNKNOWN, Reason.INTERNAL_ERROR),
        (grpc.StatusCode.INVALID_ARGUMENT, Reason.INVALID_PARAMS),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.DEADLINE_EXCEEDED),
        (grpc.StatusCode.NOT_FOUND, Reason.TASK_NOT_FOUND),
        (grpc.StatusCode.PERMISSION_DENIED, Reason.PERMISSION_DENIED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.RESOURCE_EXHAUSTED),
        (grpc.StatusCode.UNIMPLEMENTED, Reason.METHOD_NOT_FOUND),
        (grpc.StatusCode.INTERNAL, Reason.INTERNAL_ERROR),
        (grpc.StatusCode.UNAVAILABLE, Reason.UNAVAILABLE),
        (grpc.StatusCode.UNAUTHENTICATED, Reason.UNAUTHENTICATED),
    ],
)
@each("streaming", [False, True])
async def test_bare_statuses(code: grpc.StatusCode, reason: Reason, streaming: bool) -> None:
    async with (
        peer(aborting(code, "as it says"), streaming=streaming) as (address, _),
        dialling(address) as client,
    ):
        call = anext(client.subscribe_to_task(SUBSCRIBE)) if streaming else client.get_task(REQUEST)
        error = await failing(call)
    words = reason.text if code is grpc.StatusCode.UNKNOWN else "as it says"
    assert (error.reason, error.message, error.blame) == (reason, words, Blame.PEER)
    assert "phase" not in error.metadata


@pytest.mark.parametrize("code", [7, 8], ids=["REFUSED_STREAM", "CANCEL"])
async def test_a_call_that_the_peer_throws_away_unseen(code: int) -> None:
    """A call that reaches a server while it stops ends like this."""

    met: list[asyncio.Task[None]] = []
    over = asyncio.Event()

    async def resetting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        settings, headers, reset = 4, 1, 3
        met.append(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await reader.readexactly(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            writer.write(struct.pack(">HBBBI", 0, 0, settings, 0, 0))
            kind = settings
            while kind != headers:
                high, low, kind, _, stream = struct.unpack(">BHBBI", await reader.readexactly(9))
                await reader.readexactly(high << 16 | low)
            writer.write(struct.pack(">BHBBII", 0, 4, reset, 0, stream, code))
            await over.wait()
        finally:
            writer.close()

    server = await asyncio.start_server(resetting, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, dialling(f"127.0.0.1:{port}") as client:
        error = await failing(client.get_task(REQUEST))
        over.set()
        await asyncio.wait_for(asyncio.gather(*met), PATIENCE)
    assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.PEER)
    assert "phase" not in error.metadata


async def test_details_that_are_no_status() -> None:
    answer = aborting(grpc.StatusCode.NOT_FOUND, "gone", (("grpc-status-details-bin", b"\x0a\x7f"),))
    async with peer(answer) as (address, _), dialling(address) as client:
        error = await failing(client.get_task(REQUEST))
    assert (error.reason, error.message) == (Reason.TASK_NOT_FOUND, "gone")


@pytest.mark.parametrize("streaming", [False, True])
async def test_answers_that_are_no_messages(streaming: bool) -> None:
    async def unary(_wire: bytes, _context: Any) -> bytes:
        return b"\x0a\x7f"

    async def stream(_wire: bytes, context: Any) -> None:
        await context.write(b"\x0a\x7f")

    async with (
        peer(stream if streaming else unary, streaming=streaming) as (address, _),
        dialling(address) as client,
    ):
        call = anext(client.subscribe_to_task(SUBSCRIBE)) if streaming else client.get_task(REQUEST)
        error = await failing(call)
    assert (error.reason, error.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


async def test_a_unary_answer_without_a_message() -> None:
    async def nothing(_wire: bytes, _context: Any) -> AsyncIterator[bytes]:
        return
        yield b""

    async with peer(nothing, streaming=True) as (url, _), dialling(url) as client:
        with pytest.raises(A2AError) as caught:
            await client.get_task(REQUEST)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


async def test_a_peer_that_quotes_gRPCs_own_words_has_seen_the_call() -> None:  # noqa: N802
    answer = aborting(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses")
    async with peer(answer) as (address, _), dialling(address) as client:
        error = await failing(client.get_task(REQUEST))
    assert error.reason is Reason.UNAVAILABLE
    assert "phase" not in error.metadata


async def test_a_connection_that_breaks_during_a_call_was_a_connection() -> None:
    arrived = asyncio.Event()

    async def answer(_wire: bytes, _context: Any) -> bytes:
        arrived.set()
        await asyncio.Event().wait()
        return b""

    async with peer(answer) as (address, _), relaying(address) as relay, dialling(relay.address) as client:
        call = asyncio.create_task(failing(client.get_task(REQUEST)))
        await asyncio.wait_for(arrived.wait(), PATIENCE)
        relay.cut()
        error = await call
    assert error.reason is Reason.UNAVAILABLE
    assert "phase" not in error.metadata


@pytest.mark.parametrize("url", ["127.0.0.1:1", "dns:///agent.invalid:1", "unix:/nowhere/agent.sock"])
async def test_a_peer_that_is_not_there(url: str) -> None:
    async with dialling(url) as client:
        for _ in range(2):
            error = await failing(client.get_task(REQUEST))
            assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


async def test_a_peer_that_accepts_and_stays_silent_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the system accepts, no process answers
        port = listening.getsockname()[1]
        async with dialling(f"127.0.0.1:{port}", connect_timeout=0.3) as client:
            start = time.monotonic()
            error = await failing(client.get_task(REQUEST))
    assert error.metadata["phase"] == "connect"
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("patience", "limit", "waited"), [(0.02, 60.0, 0.02), (60.0, 0.4, 0.1)])
async def test_a_wait_for_a_connection_leaves_time_for_another_agent(
    patience: float, limit: float, waited: float
) -> None:
    """It takes the patience, or a quarter of the time that the call has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"127.0.0.1:{listening.getsockname()[1]}"
        async with dialling(url, connect_patience=patience, timeout=limit) as client:
            error = await failing(client.get_task(REQUEST))
    assert (error.reason, error.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
    assert f"within {waited:g} s" in error.message


async def test_plain_text_where_tls_is_spoken_does_not_connect() -> None:
    async with peer(task) as (address, seen):
        async with dialling(f"https://{address}") as client:
            error = await failing(client.get_task(REQUEST))
        async with dialling(address, tls=True) as client:
            assert (
                (await failing(client.get_task(REQUEST))).metadata == error.metadata == {"phase": "connect"}
            )
        async with dialling(f"https://{address}", tls=False) as client:
            assert (await client.get_task(REQUEST)).id == "t"
    assert len(seen.paths) == 1


def test_tls_options() -> None:
    credentials = grpc.ssl_channel_credentials()
    assert credentials_of(credentials, None) is credentials
    assert credentials_of(None, None) is None
    assert credentials_of(None, True) is not None
    assert credentials_of(False, True) is None
    assert isinstance(credentials_of(ssl.create_default_context(), None), grpc.ChannelCredentials)
    careless = ssl.create_default_context()
    careless.check_hostname = False
    careless.verify_mode = ssl.CERT_NONE
    for wrong in (careless, "cert.pem"):
        with pytest.raises(ValueError):
            credentials_of(wrong, None)


@pytest.mark.parametrize("url", ["", "agent.example", "ftp://a:1", "http://a:1/path"])
def test_urls_that_cannot_be_dialled(url: str) -> None:
    with pytest.raises(ValueError):
        BINDING.dial(hub.AgentInterface(url=url), V1_0, DialOptions())


def test_a_version_without_a_form() -> None:
    with pytest.raises(LookupError):
        BINDING.dial(
            hub.AgentInterface(url="a:1"), Dialect(version="0.1", card=V1_0.card, forms={}), DialOptions()
        )


async def test_an_operation_the_version_lacks() -> None:
    operation = replace(ops.GET_TASK, name="Nothing")
    async with dialling("127.0.0.1:1") as client:
        error = await failing(client.service.unary(Call(operation, REQUEST, CallContext())))
    assert error.reason is Reason.UNSUPPORTED_OPERATION


async def test_a_closed_client_sends_nothing() -> None:
    async with peer(task) as (address, seen):
        async with dialling(address) as client:
            await client.get_task(REQUEST)
        assert (await failing(client.get_task(REQUEST))).reason is Reason.UNAVAILABLE
        assert len(seen.paths) == 1


async def test_closing_ends_running_calls_with_an_error() -> None:
    arrived = asyncio.Event()

    async def answer(_wire: bytes, _context: Any) -> bytes:
        arrived.set()
        await asyncio.Event().wait()
        return b""

    async with peer(answer) as (address, _):
        async with dialling(address) as client:
            call = asyncio.create_task(failing(client.get_task(REQUEST)))
            await asyncio.wait_for(arrived.wait(), PATIENCE)
        error = await call
    assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.SELF)


async def test_extensions_of_the_peer_become_the_reply() -> None:
    async def answer(_wire: bytes, context: Any) -> bytes:
        await context.send_initial_metadata((("a2a-extensions", "u:1"), ("date", "now"), ("x-bin", b"1")))
        return b""

    async with peer(answer) as (address, _), dialling(address) as client:
        context = CallContext()
        await client.get_task(REQUEST, context)
    assert context.reply == {"a2a-extensions": "u:1"}


async def test_a_silent_peer_that_lives_is_waited_for() -> None:
    """A peer without health answers UNIMPLEMENTED, and that is an answer."""
    go = asyncio.Event()

    async def answer(_wire: bytes, context: Any) -> None:
        await context.write(EVENT)
        await go.wait()
        await context.write(EVENT)

    async with (
        peer(answer, streaming=True) as (address, seen),
        dialling(address, idle_timeout=0.2) as client,
        aclosing(client.subscribe_to_task(SUBSCRIBE)) as events,
    ):
        await anext(events)
        rest = asyncio.create_task(anext(events))
        async with asyncio.timeout(PATIENCE):
            while len(seen.paths) < 6:
                await asyncio.wait({rest}, timeout=0.05)
        go.set()
        assert (await asyncio.wait_for(rest, PATIENCE)).message.message_id == "m"
    assert set(seen.paths[1:]) == {"/grpc.health.v1.Health/Check"}


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_error_that_is_kept_does_not_keep_the_connection(streaming: bool) -> None:
    answer = aborting(grpc.StatusCode.NOT_FOUND)
    async with peer(answer, streaming=streaming) as (address, _), relaying(address) as relay:
        async with dialling(relay.address) as client:
            request = hub.GetTaskRequest(id="t")
            call = anext(client.subscribe_to_task(SUBSCRIBE)) if streaming else client.get_task(request)
            error = await failing(call)
        await relay.ended()
    assert error.reason is Reason.TASK_NOT_FOUND


async def test_a_peer_that_vanished_is_noticed_on_every_stream() -> None:
    async def answer(_wire: bytes, context: Any) -> None:
        await context.write(EVENT)
        await asyncio.Event().wait()

    async with peer(answer, streaming=True) as (address, _), relaying(address) as relay:
        async with dialling(relay.address, idle_timeout=0.4) as client:
            left, right = (client.subscribe_to_task(SUBSCRIBE) for _ in range(2))
            await anext(left)
            await anext(right)
            relay.mute()
            errors = [await failing(anext(events)) for events in (left, right)]
            for events in (left, right):
                await events.aclose()
            service: Any = client.service
            assert not service._keepalive.lost
        await relay.ended()
    for error in errors:
        assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.PEER)
