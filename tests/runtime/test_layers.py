"""The layers of each composition are rows of the one table, and calls pass them in its order."""

import ast
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider

from a2a_bridge import add_to_server, asgi, connect, interface, serve
from a2a_bridge.agents import hosted, serve_agents
from a2a_bridge.app import gateway, layers, serving
from a2a_bridge.app.layers import CLIENT, GATEWAY, MOUNT, TABLE, Layer, MountSide
from a2a_bridge.app.runtime import ServeOptions, guarded_agent, guarded_gateway, serve_gateway
from a2a_bridge.auth import Authentication, LiveRules, ProxyHeader, Rule
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.operations import SEND_MESSAGE
from a2a_bridge.core.service import Events, Service, reject_if
from a2a_bridge.dialects import JSONRPC, KNOWN, V1_0, BindingKind
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.credentials.sending import StaticCredentials
from a2a_bridge.gateway.upstream import Dial
from a2a_bridge.gateway.upstream import dial as dial_plainly
from a2a_bridge.middleware import Metrics, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.architecture.repository import PRODUCT, ROOT, modules
from tests.runtime.scene import agent, uvicorn_running

Noted = list[str]
OLDEST = KNOWN[-1]
#: of the servers, where callers of the oldest version are served, too
BOTH = [interface("JSONRPC", version=one.version) for one in (V1_0, OLDEST)]


class Passed:
    """A layer that notes when a call passes it."""

    def __init__(self, service: Service, name: str, noted: Noted) -> None:
        self._service = service
        self._name = name
        self._noted = noted

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self._noted.append(self._name)
        return await self._service.unary(call)

    def stream(self, call: Call[Any, Any], /) -> Events:
        return self._service.stream(call)


def noting(name: str, wrap: Callable[[Any], Any], noted: Noted) -> Callable[[Any], Any]:
    """The layer with a note; without one where the layer gives back what is inside."""

    def around(inner: Service) -> Service:
        made = wrap(inner)
        return inner if made is inner else Passed(made, name, noted)

    def around_dial(dial: Dial) -> Dial:
        @asynccontextmanager
        async def dial_noted(candidate: Candidate, options: DialOptions) -> AsyncIterator[Service]:
            below: list[Service] = []

            @asynccontextmanager
            async def dial_below(one: Candidate, of: DialOptions) -> AsyncIterator[Service]:
                async with dial(one, of) as service:
                    below.append(service)
                    yield service

            async with wrap(dial_below)(candidate, options) as made:
                yield made if made is below[0] else Passed(made, name, noted)

        return dial_noted

    return around_dial if name in {row.name for row in CLIENT} else around


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """The rows that calls have passed, in order."""
    found: Noted = []

    def present(rows: Iterable[Layer[Any, Any]], of: Any) -> list[Callable[[Any], Any]]:
        return [noting(row.name, wrap, found) for row in rows for wrap in row.make(of)]

    for module in (layers, serving, gateway):
        monkeypatch.setattr(module, "present", present)
    return found


@dataclass
class Scene:
    """A remote agent, and the options of a composition."""

    old: Candidate
    new: Candidate
    options: ServeOptions = field(default_factory=ServeOptions)
    dialling: DialOptions = field(default_factory=DialOptions)


def nothing_rejected(service: Service) -> Service:
    return reject_if(lambda _: None)(service)


WITH_ALL = ServeOptions(
    authentication=Authentication([ProxyHeader("x-user", ("127.0.0.1",))]),
    access_rules=LiveRules([Rule(principals=("ann",))]),
    middleware=(nothing_rejected,),
    usage=Usage(),
    upstream=UpstreamOptions(credentials=StaticCredentials({"x-key": "k"})),
    push_relay="http://127.0.0.1:1",
    store="memory://",
)


@asynccontextmanager
async def at(url: str) -> AsyncIterator[Service]:
    """A client without layers."""
    there = interface("JSONRPC" if "://" in url else "GRPC", url)
    async with dial_plainly(Candidate(there, V1_0), DialOptions(parameters={"x-user": "ann"})) as service:
        yield service


@asynccontextmanager
async def served(scene: Scene) -> AsyncIterator[Service]:
    async with (
        serve(agent(), BOTH, scene.options) as server,
        at(f"http://{server.http}") as service,
    ):
        yield service


@asynccontextmanager
async def newest_only(scene: Scene) -> AsyncIterator[Service]:
    async with (
        serve(agent(extended_card=None), [interface("JSONRPC")]) as server,
        at(f"http://{server.http}") as service,
    ):
        yield service


@asynccontextmanager
async def application(scene: Scene) -> AsyncIterator[Service]:
    async with (
        uvicorn_running(asgi(agent(), [interface("JSONRPC")], scene.options)) as url,
        at(url) as service,
    ):
        yield service


@asynccontextmanager
async def gateway_before(scene: Scene, candidate: Candidate) -> AsyncIterator[Service]:
    card = agent().card
    async with (
        serve_gateway(card, [candidate], BOTH, scene.options, scene.dialling) as server,
        at(f"http://{server.http}") as service,
    ):
        yield service


def gateway_to_the_oldest(scene: Scene) -> AbstractAsyncContextManager[Service]:
    return gateway_before(scene, scene.old)


def gateway_to_the_newest(scene: Scene) -> AbstractAsyncContextManager[Service]:
    return gateway_before(replace(scene, options=ServeOptions(), dialling=DialOptions()), scene.new)


@asynccontextmanager
async def one_of_several(scene: Scene) -> AsyncIterator[Service]:
    interfaces = [interface("JSONRPC"), interface("GRPC")]
    async with (
        serve_agents([hosted("one", agent(), scene.options, interfaces)], scene.options) as server,
        at(f"http://{server.http}/agents/one") as service,
    ):
        yield service


@asynccontextmanager
async def behind_a_front(scene: Scene) -> AsyncIterator[Service]:
    async with guarded_agent(agent(), ServeOptions(middleware=(nothing_rejected,))) as peer:
        yield peer.service


@asynccontextmanager
async def gateway_behind_a_front(scene: Scene) -> AsyncIterator[Service]:
    async with guarded_gateway(agent().card, [scene.new], ServeOptions(tracing="off")) as peer:
        yield peer.service


@asynccontextmanager
async def added_to_a_server(scene: Scene) -> AsyncIterator[Service]:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    engine = add_to_server(agent(), server)
    await server.start()
    try:
        async with at(f"127.0.0.1:{port}") as service:
            yield service
    finally:
        await server.stop(0)
        await engine.close(0)


@asynccontextmanager
async def client(scene: Scene) -> AsyncIterator[Service]:
    async with connect(scene.old.interface, options=scene.dialling) as peer:
        yield peer.service


@asynccontextmanager
async def client_of_an_object(scene: Scene) -> AsyncIterator[Service]:
    async with connect(agent()) as peer:
        yield peer.service


#: the rows that every served agent has
EACH = {"access log", "deadline", "required members", "limits of a caller", "extensions"}
ADDRESSES, METHODS = "addresses in the extended card", "methods of the edge in the extended card"
#: those of WITH_ALL
EDGE = {"access rules", "end of lapsed calls", "middleware of the application", ADDRESSES, METHODS}
OBSERVED = {"spans of the server", "metrics of the server", "usage by caller"}
OLDER = {"names of tasks for 0.1", "shape of streams for 0.x"}
RELAYED = {"push registrations of 0.x", *(row.name for row in GATEWAY)}

COMPOSITIONS: dict[Callable[[Scene], AbstractAsyncContextManager[Service]], set[str]] = {
    newest_only: EACH,
    served: EACH | OBSERVED | EDGE | OLDER,
    application: EACH | OBSERVED | EDGE,
    one_of_several: EACH | OBSERVED | EDGE | {"count of running calls"},
    gateway_to_the_newest: EACH | OLDER | {"push registrations of 0.x", ADDRESSES},
    gateway_to_the_oldest: EACH | OBSERVED | EDGE | OLDER | RELAYED | {row.name for row in CLIENT},
    behind_a_front: EACH | {"middleware of the application"},
    gateway_behind_a_front: EACH,
    added_to_a_server: EACH | OLDER,
    client: {row.name for row in CLIENT} - {"credentials", "metrics of the client"},
    client_of_an_object: EACH,
}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Opened before `noted`, so that the remote agent notes nothing."""
    async with serve(agent(), BOTH) as server:
        url = f"http://{server.http}/"
        old, new = (Candidate(interface("JSONRPC", url, version=one.version), one) for one in (OLDEST, V1_0))
        provider = TracerProvider()
        options = replace(WITH_ALL, metrics=Metrics(), tracing=provider)
        yield Scene(old, new, options, DialOptions(middleware=(nothing_rejected,), tracing=provider))


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=lambda one: one.__name__)
async def test_a_call_passes_the_rows_of_the_table_in_order(
    composition: Callable[[Scene], AbstractAsyncContextManager[Service]], scene: Scene, noted: Noted
) -> None:
    sent = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
    )
    async with composition(scene) as service:
        await service.unary(Call(SEND_MESSAGE, sent, CallContext(parameters={"x-user": "ann"})))
    rows = [row.name for rows in TABLE.values() for row in rows]
    assert noted == [name for name in rows if name in COMPOSITIONS[composition]]


def test_every_row_is_in_a_composition() -> None:
    in_some = set().union(*COMPOSITIONS.values())
    names = [row.name for place, rows in TABLE.items() for row in rows if rows is not MOUNT]
    assert sorted(in_some) == sorted(names)


@pytest.mark.parametrize(
    ("kind", "identifies", "rows"),
    [(JSONRPC, True, 0), (BindingKind("TCP"), False, 0), (BindingKind("TCP"), True, 1)],
)
def test_only_a_binding_of_another_package_has_to_show_that_it_identifies_callers(
    kind: BindingKind[Any, Any], identifies: bool, rows: int
) -> None:
    assert len(layers.present(MOUNT, MountSide(kind, kind.name, identifies))) == rows


def test_nothing_else_composes_layers() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in modules()
        if path.relative_to(ROOT).parts[0] in PRODUCT
        for one in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "compose"
    }
    assert found == {f"a2a_bridge/app/{name}.py" for name in ("gateway", "layers", "serving")}
