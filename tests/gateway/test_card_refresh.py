"""Cards that change while a gateway runs: when they are read again, and what a change does to running calls."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import ref

import pytest

from a2a_bridge import connect, interface
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway, serve_service
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.cards.select import Candidate, select
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.gateway.cards import LEAST, MOST, CardReading, CardRefresh
from a2a_bridge.gateway.connections import Connections, UpstreamOptions
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding
from tests.gateway.sharing_scene import Shaky, sending
from tests.gateway.test_gateway import card
from tests.patience import PATIENCE
from tests.resume.scripted import Log, whole
from tests.runtime.scene import BINDINGS


def reading(shown: hub.AgentCard, fresh_for: float = 0.0) -> CardReading:
    return CardReading(shown, select(shown, known=BINDINGS), fresh_for)


@dataclass
class Source:
    """What the agent's URL has: a reading, or an error."""

    found: CardReading | Exception
    #: times of the readings
    read_at: list[float] = field(default_factory=list)
    applied: list[CardReading] = field(default_factory=list)
    #: raised by the next application
    rejection: Exception | None = None
    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)
    reads: asyncio.Condition = field(default_factory=asyncio.Condition)
    #: of the random share of a pause
    chance: float = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def read(self) -> CardReading:
        self.read_at.append(self.now)
        async with self.reads:
            self.reads.notify_all()
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def apply(self, found: CardReading) -> None:
        if self.rejection is not None:
            raise self.rejection
        self.applied.append(found)

    def refresh(self, known: CardReading, interval: float = 300.0) -> CardRefresh:
        return CardRefresh(
            self.read,
            known,
            self.apply,
            interval,
            clock=self.clock,
            sleep=self.sleep,
            chance=lambda: self.chance,
        )

    async def been_read(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE), self.reads:
            await self.reads.wait_for(lambda: len(self.read_at) >= count)


@asynccontextmanager
async def running(refresh: CardRefresh) -> AsyncIterator[None]:
    task = asyncio.create_task(refresh.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def shown(url: str = "http://a", **members: Any) -> hub.AgentCard:
    return card(supported_interfaces=[interface("JSONRPC", url)], **members)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_card_that_stays_the_same_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(reading(shown()))
    refresh = source.refresh(reading(shown()))
    for _ in range(3):
        await refresh.read()
    assert (len(source.read_at), source.applied, lines(caplog)) == (3, [], [])


async def test_bad_cards_and_unreachable_hosts_are_one_line_and_change_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = reading(shown())
    source = Source(A2AError(Reason.UNAVAILABLE, "no answer"))
    refresh = source.refresh(good)
    await refresh.read()
    for problem in (OSError("gone"), ValueError("nonsense"), A2AError(Reason.INVALID_AGENT_RESPONSE)):
        source.found = problem
        await refresh.read()
    source.found = reading(shown("http://b"))
    source.rejection = A2AError(Reason.UNSUPPORTED_OPERATION, "no interface can be used")
    await refresh.read()
    assert source.applied == []
    source.rejection = None
    await refresh.read()
    assert source.applied == [source.found]
    assert lines(caplog) == [
        "the agent's card cannot be read again, the last good one counts: no answer; try a2a-bridge card",
        "the card of the agent 'Probe' has changed, and is used",
        "the agent's card can be read again",
    ]


@pytest.mark.parametrize(
    ("fresh_for", "interval", "waits"),
    [(0, 300, 300), (60, 300, 60), (1, 300, 10), (3600, 300, 300), (60, 5, 5)],
)
def test_the_time_of_the_next_reading(fresh_for: float, interval: float, waits: float) -> None:
    source = Source(reading(shown()))
    refresh = source.refresh(reading(shown(), fresh_for), interval)
    assert refresh._wait() == waits
    source.chance = 1.0  # agents that were read together are not read together again
    assert refresh._wait() == waits * 0.75


async def test_doubts_cause_readings_at_a_bounded_rate() -> None:
    source = Source(reading(shown()))
    refresh = source.refresh(reading(shown()))
    async with running(refresh):
        for number in range(1, 4):
            for _ in range(50):
                refresh.doubt()
            await source.been_read(number)
    assert source.pauses == [LEAST, 2 * LEAST, 4 * LEAST]


@pytest.mark.parametrize("found", [A2AError(Reason.UNAVAILABLE), reading(shown())])
async def test_doubts_in_vain_cause_fewer_readings_until_something_changes(
    found: CardReading | Exception,
) -> None:
    source = Source(found)
    refresh = source.refresh(reading(shown()))
    async with running(refresh):
        for number in range(1, 7):
            refresh.doubt()
            await source.been_read(number)
        source.found = reading(shown("http://b"))
        for number in range(7, 10):
            refresh.doubt()
            await source.been_read(number)
    assert source.pauses == [5.0, 10.0, 20.0, 40.0, MOST, MOST, MOST, 5.0, 10.0]


class Upstreams:
    """Agents whose card a gateway reads again when the test says so."""

    def __init__(self, first: Server) -> None:
        self.found: CardReading | Exception = reading(first.card)
        self.reads = 0

    async def read(self) -> CardReading:
        self.reads += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@asynccontextmanager
async def agent(
    name: str, *bindings: str, version: str = "1.0", **members: Any
) -> AsyncIterator[tuple[Probe, Server]]:
    probe = Probe()
    message = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text=name)])
    probe.on_unary = answering(hub.SendMessageResponse(message=message))
    declared = [interface(one, version=version) for one in bindings or ("JSONRPC",)]
    options = ServeOptions(grace=0)
    shown = card(**members)
    shown.description = name
    async with serve_service(probe, shown, declared, options) as server:
        yield probe, server


@asynccontextmanager
async def gateway(upstreams: Upstreams) -> AsyncIterator[Server]:
    found = upstreams.found
    assert isinstance(found, CardReading)
    # Often, because these tests have no clock of their own; a change shows after a few readings.
    upstream = UpstreamOptions(read_card=upstreams.read, card_refresh=0.02, retries=0)
    async with serve_gateway(
        found.card,
        found.candidates,
        options=ServeOptions(grace=0, upstream=upstream, replay=ReplayOptions(linger=0)),
        dial_options=DialOptions(timeout=None),
    ) as server:
        yield server


async def shows(server: Server, description: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while server.card.description != description:  # noqa: ASYNC110  nothing tells that
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_another_address_or_version_is_used_while_streams_go_on(binding: str, version: str) -> None:
    status = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
    working = hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=status))
    async with agent("old", "JSONRPC") as (old, first), agent("new", binding, version=version) as (_, second):
        old.on_stream = holding(working)
        upstreams = Upstreams(first)
        async with gateway(upstreams) as server, connect(server.card) as peer:
            assert (await peer.send("hi")).text == "old"
            request = hub.SendMessageRequest(
                message=hub.Message(message_id="1", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
            )
            async with aclosing(peer.send_streaming_message(request)) as stream:
                assert (await anext(stream)).task.id == "t"
                upstreams.found = reading(second.card)
                await shows(server, "new")
                assert (await peer.send("hi")).text == "new"
                assert old.cancelled == 0
            # The last stream of the old connection has ended: it is closed.
            async with asyncio.timeout(PATIENCE):
                while old.cancelled == 0:
                    await old.wait_changed()
            assert (await peer.send("hi")).text == "new"


async def test_what_the_card_shows_and_asks_for_follows_the_agents() -> None:
    extension = hub.AgentExtension(uri="https://e.example", required=True)
    capabilities = hub.AgentCapabilities(streaming=True, extensions=[extension])
    async with agent("old") as (_, first), agent("new", skills=[hub.AgentSkill(id="s")]) as (_, second):
        upstreams = Upstreams(first)
        async with gateway(upstreams) as server, connect(server.card) as peer:
            await peer.send("hi")
            changed = hub.AgentCard()
            changed.CopyFrom(second.card)
            changed.capabilities.CopyFrom(capabilities)
            upstreams.found = reading(changed)
            await shows(server, "new")
            assert [one.id for one in server.card.skills] == ["s"]
            # The addresses are still those of the gateway.
            assert f"{second.http}" not in str(server.card.supported_interfaces)
            with pytest.raises(A2AError) as failed:
                await peer.send("hi")
            assert failed.value.reason is Reason.EXTENSION_SUPPORT_REQUIRED


async def test_a_card_without_usable_interfaces_keeps_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    async with agent("old") as (_, first):
        upstreams = Upstreams(first)
        async with gateway(upstreams) as server, connect(server.card) as peer:
            bad = card(supported_interfaces=[interface("GRPC", "127.0.0.1:1/path")])
            bad.description = "bad"
            upstreams.found = reading(bad)
            before = upstreams.reads
            async with asyncio.timeout(PATIENCE):
                while upstreams.reads < before + 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await peer.send("hi")).text == "old"
            assert server.card.description == "old"
    assert len([line for line in lines(caplog) if "cannot be read again" in line]) == 1


@asynccontextmanager
async def connections(agent: Any, upstream: UpstreamOptions | None = None) -> AsyncIterator[Connections]:
    @asynccontextmanager
    async def dial(_candidate: Any, _options: DialOptions) -> AsyncIterator[Any]:
        yield agent

    replay = ReplayOptions(attempts=10**6, pause=0.001, longest_pause=0.001)
    made = Connections(
        DialOptions(), upstream or UpstreamOptions(), replay, dial=dial, memory=MemoryAccount(), tasks=Tasks()
    )
    await made.open(reading(shown()).candidates, resumes=False)
    try:
        yield made
    finally:
        await made.aclose_streams()
        await made.aclose()


async def test_a_stream_that_is_being_resumed_finishes_where_it_began() -> None:
    """The card changes while the agent is not there, as it is when it is installed anew."""
    events = whole(2)
    agent = Shaky(Log(*events, numbered=False), 2)
    async with connections(agent) as service, asyncio.timeout(PATIENCE):
        stream = service.stream(sending())
        seen = [(await anext(stream)).message]
        agent.rejected = 10**6
        seen.append((await anext(stream)).message)
        while len(agent.streams) < 3:  # noqa: ASYNC110  nothing tells that
            await asyncio.sleep(0)
        await service.replace(reading(shown("http://b")).candidates, resumes=True)
        agent.rejected = 0
        seen += [event.message async for event in stream]
    assert (seen[:2], seen[-1].task.status.state) == (events[:2], hub.TASK_STATE_COMPLETED)


async def test_a_call_that_is_to_be_repeated_finishes_where_it_began() -> None:
    failures = [A2AError(Reason.UNAVAILABLE, blame=Blame.PEER, retry_after=0.05)]
    asked = asyncio.Event()

    class Starting(Probe):
        async def unary(self, call: Any, /) -> Any:
            if failures:
                asked.set()
                raise failures.pop()
            return hub.Task(id=call.request.id)

    async with connections(Starting()) as service, asyncio.timeout(PATIENCE):
        call = Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())
        reads = asyncio.create_task(service.unary(call))
        await asked.wait()
        await service.replace(reading(shown("http://b")).candidates, resumes=True)
        assert (await reads).id == "t"


async def test_cards_that_change_leave_nothing() -> None:
    holders: list[ref[Any]] = []

    class Account(MemoryAccount):
        def holds(self, idle: Any) -> None:
            holders.append(ref(idle))
            super().holds(idle)

    connections = Connections(
        DialOptions(), UpstreamOptions(), ReplayOptions(), dial=dial, memory=Account(), tasks=Tasks()
    )
    await connections.open(reading(shown()).candidates, resumes=False)
    for number in range(6):
        found = reading(shown(f"http://{number}")).candidates
        await connections.replace(found, resumes=number > 3)
    async with asyncio.timeout(PATIENCE):
        while connections._closing:  # noqa: ASYNC110  nothing tells that
            await asyncio.sleep(0)
    gc.collect()
    assert len([one for one in holders if one() is not None]) == 1
    await connections.aclose()


async def test_a_call_that_finds_nobody_has_the_card_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_bridge.app.gateway.CardRefresh", partial(CardRefresh, least=0.01))
    async with agent("new") as (_, second):
        async with agent("old") as (_, first):
            upstreams = Upstreams(first)
            found = upstreams.found
            assert isinstance(found, CardReading)
        # The agent has moved, and the interval is far away.
        upstreams.found = reading(second.card)
        upstream = UpstreamOptions(read_card=upstreams.read, retries=0)
        async with (
            serve_gateway(
                found.card, found.candidates, options=ServeOptions(grace=0, upstream=upstream)
            ) as server,
            connect(server.card) as peer,
        ):
            assert upstreams.reads == 0
            with pytest.raises(A2AError):
                await peer.send("hi")
            await shows(server, "new")
            assert (await peer.send("hi")).text == "new"


async def test_an_interface_that_stays_in_the_card_stays_connected() -> None:
    dialled: list[Probe] = []
    closed: list[Probe] = []

    @asynccontextmanager
    async def dial(_candidate: Candidate, _options: DialOptions) -> AsyncIterator[Any]:
        probe = Probe()
        probe.on_unary = answering(hub.Task(id="t"))
        dialled.append(probe)
        yield probe
        closed.append(probe)

    connections = Connections(
        DialOptions(), UpstreamOptions(), ReplayOptions(), dial=dial, memory=MemoryAccount(), tasks=Tasks()
    )
    stays, comes = (interface("JSONRPC", f"http://{host}") for host in ("stays", "comes"))
    read_task = Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())
    await connections.open(reading(card(supported_interfaces=[stays])).candidates, resumes=False)
    first = dialled[0]
    offered = reading(card(supported_interfaces=[stays, comes])).candidates
    for resumes in (False, True):
        await connections.replace(offered, resumes=resumes)
        async with asyncio.timeout(PATIENCE):
            while connections._closing:  # noqa: ASYNC110  nothing tells that
                await asyncio.sleep(0)
        await connections.unary(read_task)
        # Another capability needs other services, and those have connections of their own.
        assert (first in closed, len(first.calls)) == (resumes, 1)
    await connections.aclose()
    assert len(closed) == len(dialled)


async def test_an_interface_that_cannot_be_used_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Not one at each change of the card; but again once it could be used meanwhile."""

    @asynccontextmanager
    async def dial(candidate: Candidate, options: DialOptions) -> AsyncIterator[Any]:
        if candidate.interface.url == "http://bad":
            raise ValueError("nonsense")
        yield Probe()

    connections = Connections(
        DialOptions(), UpstreamOptions(), ReplayOptions(), dial=dial, memory=MemoryAccount(), tasks=Tasks()
    )
    good, bad = ([interface("JSONRPC", f"http://{host}")] for host in ("good", "bad"))
    both = select(card(supported_interfaces=[*good, *bad]), known=BINDINGS)
    await connections.open(both, resumes=False)
    for version in range(3):
        other = [interface("HTTP+JSON", f"http://other{version}")]
        offered = card(supported_interfaces=[*good, *bad, *other])
        await connections.replace(select(offered, known=BINDINGS), resumes=False)
    text = "is not used: this interface cannot be used: nonsense"
    assert [line.endswith(text) for line in lines(caplog)] == [True]
    await connections.replace(select(card(supported_interfaces=good), known=BINDINGS), resumes=False)
    await connections.replace(both, resumes=False)
    assert [line.endswith(text) for line in lines(caplog)] == [True, True]
    await connections.aclose()
