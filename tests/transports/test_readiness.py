"""The readiness of a host, as its service reports it: probes, the health service, retry times."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_bridge.bindings.binding import HostOptions, ListenAddress, grpc_attach
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import google_rpc
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge_transports._http.asgi import AsgiHost
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports.grpc import services
from tests.resume.scene import BINDINGS, dialling
from tests.sites import listening
from tests.transports.grpc_scene import SERVICE, channel
from tests.transports.grpc_scene import hosting as grpc_hosting
from tests.transports.http_peer import peering
from tests.transports.http_scene import MESSAGE, PATIENCE, Scripted, ask, hosting, request
from tests.transports.test_http_asgi import STREAM, application, browser, post_scope

Serving = health_pb2.HealthCheckResponse
FULL = A2AError(Reason.UNAVAILABLE, "the store cannot be written", retry_after=1.2)


class State:
    def __init__(self, rejection: A2AError | None = None) -> None:
        self.rejection = rejection

    def __call__(self) -> A2AError | None:
        return self.rejection


async def test_the_probe_of_http() -> None:
    state = State(FULL)
    async with hosting(Scripted(), options=HostOptions(rejection=state)) as host:
        rejected = await ask(host, request("GET", "/readyz"))
        assert (rejected.status, rejected.body) == (503, b"the store cannot be written\n")
        assert rejected.headers["retry-after"] == "2"
        assert (await ask(host, request("GET", "/livez"))).status == 200
        state.rejection = None
        ready = await ask(host, request("GET", "/readyz"))
        assert (ready.status, ready.body) == (200, b"ok\n")
        assert "retry-after" not in ready.headers


async def test_verbose_readiness_has_figures() -> None:
    state = State(FULL)
    async with hosting(Scripted(), options=HostOptions(rejection=state, status=lambda: {"left": 3})) as host:
        rejected = await ask(host, request("GET", "/readyz?verbose"))
        assert (rejected.status, rejected.body) == (503, b"the store cannot be written\nleft: 3\n")
        state.rejection = None
        assert (await ask(host, request("GET", "/readyz?verbose=1"))).body == b"ok\nleft: 3\n"
        assert (await ask(host, request("GET", "/readyz"))).body == b"ok\n"


async def test_the_probe_of_an_asgi_application() -> None:
    async with browser(AsgiHost(HostOptions(rejection=State(FULL)))) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize("name", ["", SERVICE])
async def test_the_health_of_grpc(name: str) -> None:
    state = State(FULL)
    async with grpc_hosting(Probe(), rejection=state) as host, channel(host.address) as raw:
        stub = health_pb2_grpc.HealthStub(raw)
        wanted = health_pb2.HealthCheckRequest(service=name)
        assert (await stub.Check(wanted)).status == Serving.NOT_SERVING
        state.rejection = None
        assert (await stub.Check(wanted)).status == Serving.SERVING


async def test_who_watches_the_health_learns_of_both_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "LOOK", 0.01)
    state = State()
    async with (
        asyncio.timeout(PATIENCE),
        grpc_hosting(Probe(), rejection=state) as host,
        channel(host.address) as raw,
    ):
        watch = health_pb2_grpc.HealthStub(raw).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == Serving.SERVING
        state.rejection = FULL
        assert (await watch.read()).status == Serving.NOT_SERVING
        state.rejection = None
        assert (await watch.read()).status == Serving.SERVING
        watch.cancel()


async def test_the_health_service_on_an_application_server() -> None:
    server = grpc.aio.server()
    grpc_attach(Probe(), server, health=True, reflection=False, rejection=State(FULL))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with channel(f"127.0.0.1:{port}") as raw:
            check = await health_pb2_grpc.HealthStub(raw).Check(health_pb2.HealthCheckRequest())
            assert check.status == Serving.NOT_SERVING
    finally:
        await server.stop(0)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("operation", [ops.GET_TASK, ops.SUBSCRIBE_TO_TASK], ids=lambda one: one.name)
async def test_how_long_to_wait_arrives_on_every_binding(binding: str, operation: Any) -> None:
    probe = Probe()
    probe.on_unary, probe.on_stream = answering(FULL), yielding(FULL)
    async with listening(probe, binding) as address, dialling(str(address), binding, V1_0) as service:
        call = Call(operation, operation.request(id="t"), CallContext())
        with pytest.raises(A2AError) as rejected:
            await (anext(service.stream(call)) if operation is ops.SUBSCRIBE_TO_TASK else service.unary(call))
    assert (rejected.value.reason, rejected.value.retry_after) == (Reason.UNAVAILABLE, 1.2)


async def test_grpc_sends_it_in_a_detail() -> None:
    probe = Probe()
    probe.on_unary = answering(FULL)
    async with grpc_hosting(probe) as host, channel(host.address) as raw:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await raw.unary_unary(f"/{SERVICE}/GetTask")(hub.GetTaskRequest(id="t").SerializeToString())
    details = dict(rejected.value.trailing_metadata())["grpc-status-details-bin"]
    status = google_rpc.Status.FromString(details)
    (detail,) = [one for one in status.details if one.type_url.endswith("google.rpc.RetryInfo")]
    delay = google_rpc.RetryInfo.FromString(detail.value).retry_delay
    assert (delay.seconds, delay.nanos) == (1, 200_000_000)


@each("binding", ["JSONRPC", "HTTP+JSON"])
@each(
    ("header", "seconds"),
    [("7", 7.0), (" 7 ", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("1e3", None)],
)
async def test_forwarded_headers_of_a_trusted_proxy_are_used(
    binding: str, header: str, seconds: float | None
) -> None:
    said = f"HTTP/1.1 503 Busy\r\nRetry-After: {header}\r\nContent-Length: 4\r\n\r\nbusy".encode()
    async with peering(said) as peer, dialling(peer.url.removeprefix("http://"), binding) as service:
        with pytest.raises(A2AError) as rejected:
            await service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))
    assert (rejected.value.reason, rejected.value.retry_after) == (Reason.UNAVAILABLE, seconds)


# --- Connections that wait together are accepted together, on each event loop ---

uvloop = pytest.importorskip("uvloop")

CONNECTIONS = 64


@pytest.mark.parametrize(
    "factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_connections_that_wait_are_open_after_a_few_turns(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        host = HttpHost(ListenAddress(), HostOptions(drain_window=0))
        await host.start()
        place = host.address.host, host.address.port
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(place))
            turns = 0
            while len(host.connections) < CONNECTIONS:
                turns += 1
                await asyncio.sleep(0)
            assert turns < CONNECTIONS / 2
            await host.drain(0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(work(), PATIENCE))


# --- Keep-alives of an ASGI application beside the other messages of a response ---
@pytest.mark.parametrize("path", ["/", "/message:stream"])
async def test_no_keep_alive_after_an_error(path: str) -> None:
    """Its head would be a second one. A server may take long to send the error to a slow client."""

    heads: list[Any] = []
    sendable = asyncio.Event()
    data = json.dumps(STREAM if path == "/" else {"message": MESSAGE}).encode()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": data})

    async def put(message: Any) -> None:
        if message["type"] == "http.response.start":
            heads.append(message["status"])
            asyncio.get_running_loop().call_later(0.1, sendable.set)
            await sendable.wait()

    app = application(
        Scripted(on_stream=yielding(A2AError(Reason.TASK_NOT_FOUND))), HostOptions(keep_alive=0.01)
    )
    async with asyncio.timeout(PATIENCE):
        await app(post_scope(path), messages.get, put)
    assert len(heads) == 1
