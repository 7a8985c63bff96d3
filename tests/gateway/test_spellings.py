"""Addresses in the documents of an agent, in spellings that parsers may read differently: each way on which such a
document is used, and a service of this machine to which none of them may lead.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from a2a_bridge.app.runtime import ServeOptions, locate_agent
from a2a_bridge.auth.key_set import endpoint, fetch
from a2a_bridge.bindings.binding import DialOptions, ListenAddress, find, http_fetch, http_post
from a2a_bridge.bindings.places import address_of, place_of
from a2a_bridge.cards.resolve import Resolver
from a2a_bridge.cards.select import Candidate
from a2a_bridge.cli.gateway_setup import GatewayPlan
from a2a_bridge.cli.gateway_setup import found as locate_upstream
from a2a_bridge.cli.server_options import ListenOptions
from a2a_bridge.cli.target import Target, TargetKind
from a2a_bridge.codec import encoder
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway import destinations
from a2a_bridge.gateway.cards import CardReader
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ssrf_policy import Allowed, SsrfPolicy
from a2a_bridge.push.webhook import WebhookResolver
from a2a_bridge.testing.each import each
from a2a_bridge_tools.check.inspection import Inspection
from a2a_bridge_tools.check.network import interfaces
from a2a_bridge_tools.client.logging_in import Sessions
from a2a_bridge_tools.client.reaching import resolve_entry
from tests.patience import PATIENCE
from tests.sites import site

NAME = "agent.test"
#: of URLs, and of `host:port`; {p} is the port of the service
URLS = [
    "http://127.0.0.1:+{p}/", "http://127.0.0.1:{p:_}/", "http://127.0.0.1: {p}/", "http://127.0.0.1:0{p}/",
    "http://127.0.0.1:%3{p}/", "http://127.0.0.1%3A{p}/", "http://127.0.0.1%2e:{p}/", "http://127%2e0.0.1:{p}/",
    "http://\uff11\uff12\uff17.0.0.1:{p}/", "http://127.0.0.1:\u0661{p}/", "http://127\u30020\u30020\u30021:{p}/",
    "http://127.1:{p}/", "http://2130706433:{p}/", "http://0x7f000001:{p}/", "http://0177.0.0.1:{p}/",
    "http://127.0.0.1.:{p}/", "http://,127.0.0.1:{p}/", "http://127.0.0.1,agent.test:{p}/",
    "http://agent.test@127.0.0.1:{p}/", "http://agent.test\\@127.0.0.1:{p}/", "http://agent.test#@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\\@agent.test/", "http://a@agent.test@127.0.0.1:{p}/", "http://127.0.0.1:{p};@x/",
    "http://[::ffff:127.0.0.1]:{p}/", "http://[::ffff:7f00:1]:{p}/", "http://[::127.0.0.1]:{p}/",
    "http://[::1%lo]:{p}/", "http://[::1%25lo]:{p}/", "http://[127.0.0.1]:{p}/", "HTTP://LOCALHOST:{p}/",
    "http:///127.0.0.1:{p}/", "http:127.0.0.1:{p}/", "http://127.0.0.1\t:{p}/", "127.0.0.1:+{p}", "127.0.0.1:{p}",
]  # fmt: skip
#: those of them that have one meaning only, which is another host
ELSEWHERE = ["http://agent.test#@127.0.0.1:{p}/", "http://127.0.0.1:{p};@x/"]
#: of gRPC
TARGETS = [
    "127.0.0.1:+{p}", "127.0.0.1:{p:_}", "127.0.0.1: {p}", "grpc://127.0.0.1:+{p}", "http://127.0.0.1:{p:_}",
    "ipv4:127.0.0.1:{p}", "ipv4:,127.0.0.1:{p}", "ipv4:127.0.0.1:{p},", "ipv4:1.2.3.4:1,127.0.0.1:{p}",
    "ipv4:///127.0.0.1:{p}", "IPV4:127.0.0.1:{p}", "ipv4:127%2e0.0.1:{p}", "ipv6:[::ffff:127.0.0.1]:{p}",
    "ipv6:%5B::ffff:127.0.0.1%5D:{p}", "dns:127.0.0.1:{p}", "dns:///127.0.0.1:{p}", "dns:////127.0.0.1:{p}",
    "dns:127%2e0.0.1:{p}", "dns:///127.0.0.1%3A{p}", "dns://127.0.0.1:{p}/agent.test:1", "dns://x/127.0.0.1:{p}",
    "DNS:///127.0.0.1:{p}", "unix:/run/x", "unix-abstract:x", "vsock:1:{p}", "xds:///127.0.0.1:{p}",
    "127.0.0.1,agent.test:{p}", "agent.test@127.0.0.1:{p}", "[::1%25lo]:{p}", "[::ffff:127.0.0.1]:{p}",
]  # fmt: skip


def there(binding: str, url: str) -> hub.AgentInterface:
    return hub.AgentInterface(protocol_binding=binding, protocol_version="1.0", url=url)


class Service:
    """A service of this machine, and how many have connected to it."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    def card(self) -> hub.AgentCard:
        """With each spelling over each binding."""
        places = [("JSONRPC", URLS), ("HTTP+JSON", URLS), ("GRPC", TARGETS)]
        return hub.AgentCard(
            name="a",
            description="d",
            version="1",
            supported_interfaces=[
                there(binding, text.format(p=self.port)) for binding, texts in places for text in texts
            ],
        )

    def urls(self) -> list[str]:
        return [text.format(p=self.port) for text in URLS]


def elsewhere(service: Service) -> set[str]:
    return {text.format(p=service.port) for text in ELSEWHERE}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    one = Service()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one.connections += 1
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        one.port = server.sockets[0].getsockname()[1]
        yield one


@asynccontextmanager
async def public_agent(card: hub.AgentCard, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The URL of an agent, and of its card, at a host with a public address for everybody who asks."""

    async def show(request: web.Request) -> web.Response:
        tree: Any = encoder(hub.AgentCard)(card)
        if request.path.endswith("ai-catalog.json"):
            kind = "application/a2a-agent-card+json"
            urls = [one["url"] for one in tree["supportedInterfaces"]]
            entries = [{"type": kind, "identifier": str(at), "url": url} for at, url in enumerate(urls)]
            tree = {"entries": entries}
        return web.json_response(tree)

    asked = socket.getaddrinfo

    async with site(show) as near:
        port = int(near.rpartition(":")[2])

        def resolve(host: Any, there: Any, *rest: Any, **options: Any) -> Any:
            if host == NAME and there != port:
                raise socket.gaierror("it is elsewhere")
            return asked("127.0.0.1" if host == NAME else host, there, *rest, **options)

        system = destinations._system

        async def lookup(host: str, there: int) -> Any:
            return ["93.184.216.34"] if host == NAME else await system(host, there)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(destinations, "_system", lookup)
        yield f"http://{NAME}:{port}"


async def call_each(candidates: Iterable[Candidate], options: DialOptions) -> None:
    """Calls each interface alone."""
    for one in candidates:
        with contextlib.suppress(A2AError, ValueError):
            async with dial_failover([one], options) as peer:
                await peer.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))


async def send(url: str, _: Service) -> None:
    __, candidates, options = await locate_agent(url, options=OPTIONS)
    await call_each((one for one in candidates if NAME not in one.interface.url), options)


async def gateway(url: str, _: Service) -> None:
    target = Target(TargetKind.URL, url)
    listening = ListenOptions([], ServeOptions(), ListenAddress(), ListenAddress())
    plan = GatewayPlan(listening, OPTIONS, file=None, binding="", version="")
    opening = locate_upstream(target, plan, listening.options)
    with contextlib.suppress(A2AError):
        async with opening as (__, candidates, ___, options):
            await call_each(candidates, options)


async def changed_card(url: str, _: Service) -> None:
    options = DialOptions(named=url, timeout=5)
    async with http_fetch(options) as get:
        with contextlib.suppress(A2AError):
            found = await CardReader(Resolver(get), url, options)()
            await call_each(found.candidates, options)


async def check(url: str, service: Service) -> None:
    options = DialOptions(named=url, timeout=5)
    inspection = Inspection(Target(TargetKind.URL, url), options, "", 5, card=service.card())
    assert [one async for one in interfaces(inspection)]
    assert {one.candidate.interface.url for one in inspection.dialled} <= elsewhere(service)


async def catalog(url: str, service: Service) -> None:
    options = DialOptions(named=url, timeout=5)
    for at in range(len(service.card().supported_interfaces)):
        with contextlib.suppress(A2AError, ValueError):
            target, found = await resolve_entry(Target(TargetKind.URL, f"{url}#{at}"), options)
            if NAME not in target.place.partition("://")[2].partition("/")[0]:
                async with http_fetch(found) as get:
                    await get(target.place, {})


async def login(url: str, service: Service) -> None:
    sessions = Sessions(DialOptions(named=url), "")
    for one in service.urls():
        with contextlib.suppress(A2AError):
            async with http_fetch(await sessions.options(one)) as get:
                await get(one, {})


async def discovery(_: str, service: Service) -> None:
    named: list[str] = []

    async def show(request: web.Request) -> web.Response:
        return web.json_response({"issuer": f"http://{request.host}", "jwks_uri": named[0]})

    async with site(show) as near:
        issuer = near.replace("127.0.0.1", "localhost")  # the service is at another host
        for url in service.urls():
            named[:] = [url]
            with contextlib.suppress(A2AError, ValueError, OSError):
                found = await endpoint(issuer, "jwks_uri")
                assert not found.named or "localhost" in url.lower()
                if not found.named:
                    await fetch(found.url, named=False)


async def webhook(_: str, service: Service) -> None:
    resolver = WebhookResolver(SsrfPolicy([Allowed.parse("agent.test")]))
    async with http_post(DialOptions(timeout=5), resolver.resolve) as post:
        for url in service.urls():
            rejection = await resolver.check(hub.TaskPushNotificationConfig(url=url, id="c"))
            assert rejection is not None or url in elsewhere(service), url
            with contextlib.suppress(A2AError, OSError):
                await post(url, {}, b"{}")
    resolver.close()


OPTIONS = DialOptions(timeout=5, connect_timeout=5)
WAYS: list[Callable[[str, Service], Awaitable[None]]] = [
    send, gateway, changed_card, check, catalog, login, discovery, webhook,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_spelling_leads_to_a_service_of_this_machine(
    way: Callable[[str, Service], Awaitable[None]], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(PATIENCE), public_agent(service.card(), monkeypatch) as url:
        await way(url, service)
    assert service.connections == 0


@each("spelling", URLS + TARGETS)
@each("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_spelling_is_rejected_or_dialled_as_it_was_checked(spelling: str, binding: str) -> None:
    """Whoever dials asks for the addresses of the place that was checked, and of no other."""
    asked: list[tuple[str, int]] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return []

    one = Candidate(there(binding, spelling.format(p=7001)), V1_0)
    place = Destinations(DialOptions(named=f"http://{NAME}"))._place(one)
    options = DialOptions(resolve=resolve, timeout=5, connect_timeout=5)
    literal = place is not None and address_of(place.host) is not None
    with contextlib.suppress(ValueError, A2AError):
        if literal and binding != "GRPC":
            return  # it is not resolved again
        async with find(binding).dial(one.interface, V1_0, options) as peer:
            await peer.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))
    assert not asked or (
        place is not None
        and {(host.rstrip(".").lower(), port) for host, port in asked} == {(place.host, place.port)}
    )


@each("spelling", URLS + TARGETS)
async def test_what_the_operator_names_is_read_or_an_error(spelling: str) -> None:
    """Whatever is named, no card leads credentials to a host that is not."""
    named = spelling.format(p=7001)
    elsewhere = Candidate(there("JSONRPC", "http://elsewhere.test:7001/"), V1_0)
    options = DialOptions(named=named)
    if not named.startswith("unix") and place_of(named) is None:
        with pytest.raises(ValueError, match=re.escape(repr(named))):
            await locate_agent(elsewhere.interface, options=options)
        return
    itself = Candidate(there("GRPC", named), V1_0)
    found = await Destinations(options).check([elsewhere, itself])
    assert [one.candidate.credentials for one in found] == [False, True]


@each(
    "url",
    ["fd20:ce::254", "fd00:ec2::23", "fd00:ec2::254", "192.0.0.192", "64:ff9b::a9fe:a9fe", "::ffff:0:a9fe:a9fe",
     "2002:a9fe:a9fe::1", "::169.254.169.254", "2001:db8::1%eth0"],
)  # fmt: skip
async def test_metadata_services_are_reached_from_nowhere(url: str) -> None:
    near = f"http://[{url}]:8000/" if ":" in url else f"http://{url}:8000/"
    for named in ("http://127.0.0.1:8000", "http://10.0.0.1:8000"):
        [found] = await Destinations(DialOptions(named=named)).check(
            [Candidate(there("JSONRPC", near), V1_0)]
        )
        assert "never an agent's" in found.rejection


async def test_a_name_below_localhost_is_looked_up() -> None:
    """Some resolvers ask a name server for it, which may name any address."""

    async def lookup(host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == "near.localhost" else ["169.254.169.254"]

    options = DialOptions(named="http://localhost:9000", parameters={"authorization": "Bearer secret"})
    near, far = await Destinations(options, lookup=lookup).check(
        [Candidate(there("JSONRPC", f"http://{name}.localhost:5555/"), V1_0) for name in ("near", "far")]
    )
    assert (near.rejection, near.candidate.credentials) == ("", False)
    assert "never an agent's" in far.rejection
