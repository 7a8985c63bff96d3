"""Several agents behind one server: found by path, host name, tenant or port, and independent of each other."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import Message, Part, Role, SendMessageRequest

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.agents import (
    AgentEntry,
    Agents,
    asgi_agents,
    catalogue,
    hosted,
    remote,
    serve_agents,
    several,
)
from a2a_bridge.app.planning import EVERYTHING, VERSIONS, ServeOptions
from a2a_bridge.app.serving import Shared
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards.select import select
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE, until
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS, uvicorn_running


class Naming:
    """Answers with its own name and the tenant that it sees; waits for "wait" until it is released."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.may_end = asyncio.Event()
        self.waiting = asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        if run.text == "wait":
            self.waiting.set()
            await self.may_end.wait()
        yield run.artifact(f"{self.name}:{run.context.tenant}:{run.text}")
        yield run.status("completed")


def agent(name: str, executor: Naming | None = None) -> Agent:
    return Agent(executor or Naming(name), name=name.title(), description=f"is {name}")


def entry(name: str, executor: Naming | None = None, **more: Any) -> AgentEntry:
    return hosted(name, agent(name, executor), ServeOptions(), **more)


def base(server: Agents) -> str:
    return f"http://{server.http}"


async def text_of(target: Any, binding: str = "", version: str = "", **options: Any) -> str:
    async with connect(target, binding=binding, version=version, options=DialOptions(**options)) as peer:
        return (await peer.send("hi")).text


async def by_sdk(url: str, binding: str) -> str:
    """The answer that a client of the official SDK gets, which reads the card below the URL."""
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            streaming=False,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = ClientFactory(config).create(card)
        message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="hi")])
        found = [event async for event in client.send_message(SendMessageRequest(message=message))]
        await client.close()
    return found[-1].task.artifacts[0].parts[0].text


async def test_each_agent_has_its_path() -> None:
    async with serve_agents([entry("red"), entry("blue")]) as server:
        for name in ("red", "blue"):
            for binding in BINDINGS[:2]:
                for version in VERSIONS:
                    url = f"{base(server)}/agents/{name}"
                    assert await text_of(url, binding, version) == f"{name}::hi"
        async with httpx.AsyncClient(base_url=base(server)) as http:
            assert (await http.get("/.well-known/agent-card.json")).status_code == 404
            assert (await http.get("/agents/green/.well-known/agent-card.json")).status_code == 404
            shown = (await http.get("/agents/red/.well-known/agent-card.json")).json()
    urls = {one["url"] for one in shown["supportedInterfaces"] if one["protocolBinding"] != "GRPC"}
    assert urls == {f"{base(server)}/agents/red/", f"{base(server)}/agents/red"}
    grpc = [one for one in shown["supportedInterfaces"] if one["protocolBinding"] == "GRPC"]
    assert [(one["tenant"], one["protocolVersion"]) for one in grpc] == [("red", "1.0")]


async def test_the_tenant_names_an_agent_over_grpc() -> None:
    async with serve_agents([entry("red"), entry("blue")]) as server:
        for name in ("red", "blue"):
            assert await text_of(server.cards[name], "GRPC", "1.0") == f"{name}::hi"
        for tenant in ("", "green"):
            with pytest.raises(A2AError, match="tenant") as failed:
                await text_of(interface("GRPC", str(server.grpc), tenant=tenant))
            assert failed.value.reason is Reason.INVALID_PARAMS
        with rejected(Reason.INVALID_PARAMS):
            await text_of(interface("GRPC", str(server.grpc), version="0.3", tenant="red"))


async def test_an_agent_with_a_grpc_address_of_its_own_is_named_at_the_common_one() -> None:
    own = [interface("JSONRPC"), interface("GRPC", "127.0.0.1:0")]
    async with serve_agents([entry("red"), entry("blue", interfaces=own)]) as server:
        there = next(one.url for one in server.cards["blue"].supported_interfaces if "GRPC" in str(one))
        assert await text_of(interface("GRPC", there)) == "blue::hi"
        assert there != str(server.grpc)
        with pytest.raises(A2AError, match=f"tenant.* at {there}") as failed:
            await text_of(interface("GRPC", str(server.grpc), tenant="blue"))
        assert failed.value.reason is Reason.INVALID_PARAMS


@pytest.mark.parametrize("binding", BINDINGS)
async def test_clients_of_the_official_sdk(binding: str) -> None:
    async with serve_agents([entry("red"), entry("blue")]) as server:
        assert await by_sdk(f"{base(server)}/agents/blue", binding) == "blue::hi"


async def test_the_only_agent_is_at_the_root_too() -> None:
    async with serve_agents([entry("red", at_root=True)]) as server, httpx.AsyncClient() as http:
        for url in (base(server), f"{base(server)}/agents/red"):
            for binding in BINDINGS:
                for version in VERSIONS[:2]:
                    assert await text_of(url, binding, version) == "red::hi"
            assert await by_sdk(url, "JSONRPC") == "red::hi"
        assert await text_of(interface("GRPC", str(server.grpc), tenant="acme")) == "red:acme:hi"
        assert await text_of(interface("GRPC", str(server.grpc), tenant="red")) == "red::hi"
        listed = (await http.get(f"{base(server)}/agents")).json()["agents"]
        assert [one["name"] for one in listed] == ["red"]
        assert (await http.get(f"{base(server)}/readyz")).status_code == 200


async def test_the_public_url_has_the_path_of_an_agent() -> None:
    options = ServeOptions(public_url="https://gw.example/", public_grpc="gw.example:443")
    async with serve_agents([entry("red")], options) as server:
        urls = {one.url for one in server.cards["red"].supported_interfaces}
    assert urls == {"https://gw.example/agents/red", "https://gw.example/agents/red/", "gw.example:443"}


async def test_host_names() -> None:
    async with serve_agents([entry("red", names=("red.example",)), entry("blue")]) as server:
        assert server.http is not None
        async with httpx.AsyncClient(base_url=base(server)) as http:
            named = {"Host": f"RED.example:{server.http.port}"}
            shown = (await http.get("/.well-known/agent-card.json", headers=named)).json()
            below = (await http.get("/agents/red/.well-known/agent-card.json", headers=named)).json()
            other = await http.get("/.well-known/agent-card.json", headers={"Host": "blue.example"})
            body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
            done = await http.post("/message:send", headers=named | {"A2A-Version": "1.0"}, json=body)
    at = f"http://RED.example:{server.http.port}"
    assert {one["url"] for one in shown["supportedInterfaces"] if one["protocolBinding"] != "GRPC"} == {
        at,
        f"{at}/",
    }
    assert below["supportedInterfaces"][0]["url"] == f"{at}/agents/red/"
    assert other.status_code == 404
    assert done.json()["task"]["artifacts"][0]["parts"][0]["text"] == "red::hi"


async def test_a_grpc_address_of_its_own() -> None:
    own = (*EVERYTHING, interface("GRPC", "127.0.0.1:0", version="0.3"))
    entries = [hosted("red", agent("red"), ServeOptions(), own), entry("blue")]
    async with serve_agents(entries) as server:
        card = server.cards["red"]
        old = next(
            one
            for one in card.supported_interfaces
            if one.protocol_binding == "GRPC" and one.protocol_version == "0.3"
        )
        assert old.url != str(server.grpc)
        assert await text_of(old) == "red::hi"


async def test_a_gateway_to_several_agents_restores_their_tenants() -> None:
    theirs = [interface("JSONRPC", tenant="acme"), interface("GRPC", tenant="acme")]
    async with serve(agent("far"), theirs) as far, serve(agent("other")) as other:
        entries = [
            remote(name, found.card, select(found.card, known=BINDINGS), ServeOptions())
            for name, found in (("far", far), ("other", other))
        ]
        async with serve_agents(entries) as server:
            for binding in BINDINGS:
                assert await text_of(server.cards["far"], binding, "1.0") == "far:acme:hi"
                assert await text_of(server.cards["other"], binding, "1.0") == "other::hi"


async def test_the_catalogue() -> None:
    async with serve_agents([entry("red"), entry("blue")]) as server, httpx.AsyncClient() as http:
        listed = (await http.get(f"{base(server)}/agents")).json()
        catalogue = (await http.get(f"{base(server)}/.well-known/ai-catalog.json")).json()
        for one in catalogue["entries"]:
            card = (await http.get(one["url"])).json()
            assert card["name"] == one["displayName"]
    url = f"{base(server)}/agents/red/.well-known/agent-card.json"
    assert listed["agents"][0] == {
        "name": "red",
        "card": url,
        "state": "available",
        "displayName": "Red",
        "description": "is red",
    }
    assert catalogue["specVersion"] == "1.0"
    first = catalogue["entries"][0]
    assert first["identifier"] == "urn:air:127.0.0.1:agent:red"
    assert (first["type"], first["url"]) == ("application/a2a-agent-card+json", url)


async def test_the_lists_have_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PAGE", 2)
    names = [f"a{number}" for number in range(5)]
    async with serve_agents([entry(one) for one in names]) as server, httpx.AsyncClient() as http:

        async def read(url: str) -> Any:
            return (await http.get(url)).json()

        page, listed = {"next": f"{base(server)}/agents"}, []
        while "next" in page:
            page = await read(page["next"])
            listed.append([one["name"] for one in page["agents"]])
        assert listed == [["a0", "a1"], ["a2", "a3"], ["a4"]]
        first = (await read(f"{base(server)}/.well-known/ai-catalog.json"))["entries"]
        parts = [one["url"] for one in first if one["type"] == "application/ai-catalog+json"]
        entries = [*first, *[one for url in parts for one in (await read(url))["entries"]]]
        assert [one["displayName"] for one in entries if "agent-card" in one["type"]] == [
            one.title() for one in names
        ]
        assert len({one["identifier"] for one in entries}) == len(entries)
        for page_number in ("0", "4", "x", "", "1" * 20):
            for path in ("/agents", "/.well-known/ai-catalog.json"):
                wrong = await http.get(f"{base(server)}{path}", params={"page": page_number})
                assert (wrong.status_code, "page" in wrong.text) == (400, True)


async def test_a_page_is_made_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(catalogue, "dumps", lambda tree: made.append(tree) or dumps(tree))
    paths = ("/agents", "/.well-known/ai-catalog.json")
    async with (
        serve_agents([entry(f"a{number}") for number in range(20)]) as server,
        httpx.AsyncClient(base_url=base(server)) as http,
    ):
        tags: dict[str, str] = {}

        async def changed() -> bool:
            """Whether both lists are other ones. The first reader makes them, and the others make none."""
            del made[:]
            known = dict(tags)
            for path in paths * 3:
                answer = await http.get(path, headers={"If-None-Match": known.get(path, "")})
                tags[path] = answer.headers["ETag"]
            assert len(made) in (0, len(paths))
            return bool(made) and known != tags

        assert await changed()
        assert not await changed()
        for path in paths:
            assert (await http.get(path, headers={"If-None-Match": tags[path]})).status_code == 304
        other = hub.AgentCard()
        shown = server._members["a7"].server
        assert shown is not None
        other.CopyFrom(shown.card)
        other.description = "is another one"
        shown.replace_card(other)
        assert await changed()
        await server.remove("a3", 0.0)
        assert await changed()
        await server.add(entry("a3"))
        assert await changed()
        assert not await changed()


async def test_the_root_of_several_agents_names_them_to_who_takes_it_for_one() -> None:
    async with serve_agents([entry("red"), entry("blue")]) as server:
        with pytest.raises(A2AError) as caught:
            await text_of(base(server))
    told = f"The agents of this server are at {base(server)}/agents/red, {base(server)}/agents/blue"
    assert str(caught.value).endswith(told)


async def test_agents_come_and_go_without_touching_others() -> None:
    slow = Naming("red")
    async with serve_agents([entry("red", slow), entry("blue")]) as server:
        async with asyncio.timeout(PATIENCE), connect(f"{base(server)}/agents/red") as peer:
            running = asyncio.create_task(peer.send("wait"))
            await slow.waiting.wait()
            await server.add(entry("green"))
            assert await text_of(f"{base(server)}/agents/green") == "green::hi"
            removing = asyncio.create_task(server.remove("red", PATIENCE))
            async with httpx.AsyncClient(base_url=base(server)) as http:
                while (await http.get("/agents/red/.well-known/agent-card.json")).status_code != 404:
                    pass
            assert await text_of(f"{base(server)}/agents/blue") == "blue::hi"
            assert not removing.done()
            slow.may_end.set()
            assert (await running).text == "red::wait"
            await removing
        assert set(server.cards) == {"blue", "green"}
        with pytest.raises(ValueError, match="two agents 'blue'"):
            await server.add(entry("blue"))
        with pytest.raises(LookupError):
            await server.remove("red", 0)


async def test_an_agent_is_listed_once_it_is_served() -> None:
    begun, may_open = asyncio.Event(), asyncio.Event()
    quick = entry("late")

    @asynccontextmanager
    async def opening(shared: Shared) -> AsyncIterator[Any]:
        begun.set()
        await may_open.wait()
        async with quick.opening(shared) as server:
            yield server

    late = AgentEntry("late", opening)
    async with (
        serve_agents([entry("red")]) as server,
        httpx.AsyncClient(base_url=base(server)) as http,
        asyncio.timeout(PATIENCE),
    ):
        adding = asyncio.create_task(server.add(late))
        await begun.wait()
        assert [one["name"] for one in (await http.get("/agents")).json()["agents"]] == ["red"]
        assert (await http.get("/agents/late/.well-known/agent-card.json")).status_code == 404
        with rejected(Reason.INVALID_PARAMS):
            await text_of(interface("GRPC", str(server.grpc), tenant="late"))
        may_open.set()
        await adding
        assert (await http.get("/agents/late/.well-known/agent-card.json")).status_code == 200
        assert await text_of(interface("GRPC", str(server.grpc), tenant="late")) == "late::hi"


async def test_an_agent_that_comes_while_the_server_stops_leaves_with_it() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def opening(_: Shared) -> AsyncIterator[Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
            yield None
        finally:
            left.set()

    async with serve_agents([entry("red")]) as server, asyncio.timeout(PATIENCE):
        adding = asyncio.create_task(server.add(AgentEntry("late", opening)))
        await begun.wait()
    assert left.is_set()
    with pytest.raises(asyncio.CancelledError):
        await adding


async def test_an_agent_is_replaced_without_a_gap() -> None:
    slow = Naming("old")
    async with serve_agents([entry("red", slow)]) as server:
        url = f"{base(server)}/agents/red"
        async with asyncio.timeout(PATIENCE), connect(url) as peer:
            running = asyncio.create_task(peer.send("wait"))
            await slow.waiting.wait()
            replacing = asyncio.create_task(server.replace(entry("red", Naming("new")), PATIENCE))
            while (text := await text_of(url)) == "old::hi":
                pass
            assert text == "new::hi"
            assert not replacing.done()
            slow.may_end.set()
            assert (await running).text == "old::wait"
            await replacing

        @asynccontextmanager
        async def broken(_: Shared) -> AsyncIterator[Any]:
            raise OSError("no such file")
            yield

        with pytest.raises(OSError, match="no such file"):
            await server.replace(AgentEntry("red", broken), 0)
        assert await text_of(url) == "new::hi"
        assert await text_of(server.cards["red"], "GRPC") == "new::hi"


async def test_an_agent_that_cannot_be_reached_at_the_start_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_bridge.agents.several._FIRST_PAUSE", 0.01)
    reachable = False

    @asynccontextmanager
    async def opening(shared: Shared) -> AsyncIterator[Any]:
        if not reachable:
            raise A2AError(Reason.UNAVAILABLE, "refused the connection")
        async with entry("late").opening(shared) as server:
            yield server

    async with serve_agents([AgentEntry("late", opening), entry("blue")]) as server:
        assert await text_of(f"{base(server)}/agents/blue") == "blue::hi"
        async with httpx.AsyncClient(base_url=base(server)) as http:
            assert (await http.get("/agents/late/.well-known/agent-card.json")).status_code == 503
            states = {one["name"]: one["state"] for one in (await http.get("/agents")).json()["agents"]}
            assert states == {"late": "unavailable", "blue": "available"}
            with rejected(Reason.UNAVAILABLE):
                await text_of(interface("GRPC", str(server.grpc), tenant="late"))
            reachable = True
            async with asyncio.timeout(PATIENCE):
                while (await http.get("/agents/late/.well-known/agent-card.json")).status_code != 200:
                    pass
        assert await text_of(f"{base(server)}/agents/late") == "late::hi"
    messages = [one.message for one in caplog.records if one.name == "a2a_bridge.agents"]
    assert messages == [
        "agent late cannot be reached, it is tried again: refused the connection (upstream of [agents.late])",
        "agent late can be reached now",
    ]


async def test_an_agent_that_is_still_tried_again_does_not_hold_its_removal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("a2a_bridge.agents.several._FIRST_PAUSE", 0.01)
    attempts, hanging = 0, asyncio.Event()

    @asynccontextmanager
    async def opening(_: Shared) -> AsyncIterator[Any]:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            hanging.set()
            await asyncio.Event().wait()
        raise A2AError(Reason.UNAVAILABLE, "refused the connection")
        yield

    async with asyncio.timeout(PATIENCE), serve_agents([AgentEntry("late", opening)]) as server:
        await hanging.wait()
        await server.remove("late", 0)


async def test_a_slow_agent_does_not_hold_the_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_bridge.agents.several._PATIENCE", 0.05)
    may_open, failing = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(shared: Shared) -> AsyncIterator[Any]:
        await may_open.wait()
        async with entry("slow").opening(shared) as server:
            yield server

    @asynccontextmanager
    async def faulty(_: Shared) -> AsyncIterator[Any]:
        await may_open.wait()
        failing.set()
        raise OSError("no such file")
        yield

    entries = [AgentEntry("slow", slow), AgentEntry("faulty", faulty), entry("blue")]
    async with asyncio.timeout(PATIENCE), serve_agents(entries) as server, httpx.AsyncClient() as http:
        assert await text_of(f"{base(server)}/agents/blue") == "blue::hi"
        may_open.set()
        while (await http.get(f"{base(server)}/agents/slow/.well-known/agent-card.json")).status_code != 200:
            pass
        assert await text_of(f"{base(server)}/agents/slow") == "slow::hi"
        await failing.wait()
    messages = [one.message for one in caplog.records if one.name == "a2a_bridge.agents"]
    assert "not open yet, the others are served: slow, faulty" in messages
    assert "agent faulty is not served: no such file" in messages


async def test_a_faulty_agent_ends_the_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        url = f"127.0.0.1:{taken.getsockname()[1]}"
        own = hosted("red", agent("red"), ServeOptions(), [interface("GRPC", url)])
        with pytest.raises(OSError, match="in use"):
            async with serve_agents([own, entry("blue")]):
                pass


@pytest.mark.parametrize("name", ["", "Red", "a/b", "-a", "a" * 64, "ä", "a.b"])
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an agent"):
        entry(name)


@pytest.mark.parametrize("listens", [True, False], ids=["listeners", "application"])
async def test_the_start_goes_on_while_agents_are_opened(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time counts from the agent that was opened last: of many agents, none is late for the others."""
    may_open = [asyncio.Event() for _ in range(5)]
    left = list(range(5))
    shown: list[tuple[int, int]] = []

    def held(number: int) -> AgentEntry:
        usual = entry(f"a{number}")

        @asynccontextmanager
        async def opening(shared: Shared) -> AsyncIterator[Any]:
            await may_open[number].wait()
            async with usual.opening(shared) as server:
                yield server

        return AgentEntry(usual.name, opening)

    async def pass_time(task: asyncio.Task[None], _seconds: float) -> bool:
        """The time of the start, in which one more agent is opened. The start waits for the last one of them."""
        if not left:
            await task
            return True
        may_open[left.pop()].set()
        await until(lambda: shown and shown[-1][0] == 5 - len(left))
        return False

    monkeypatch.setattr(several, "ends_within", pass_time)
    running: list[Agents] = []

    def show(opened: int, of: int) -> None:
        shown.append((opened, of))

    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        entries = [held(number) for number in range(5)]
        if listens:
            running.append(await stack.enter_async_context(serve_agents(entries, progress=show)))
        else:
            application = asgi_agents(entries, opened=running.append, progress=show)
            await stack.enter_async_context(uvicorn_running(application))
        assert len(running[0].cards) == 5
    # An agent is shown once for each of its hosts.
    assert list(dict.fromkeys(shown)) == [(number, 5) for number in range(1, 6)]
