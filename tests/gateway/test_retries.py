"""Repetitions: only of what is safe, within the deadline and a share of the calls; circuits that open."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.app.runtime import ServeOptions, connect, serve_gateway, serve_service
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.failover import (
    FIRST,
    LONGEST,
    LONGEST_WISH,
    Failover,
    Retries,
    RetryBudget,
    UnreachableError,
    circuits,
)
from a2a_bridge.gateway.upstream import Upstream
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe
from tests.gateway.test_gateway import card
from tests.gateway.test_upstream import Agent, agents_by_url, ids, no_connection
from tests.patience import PATIENCE
from tests.runtime.scene import BINDINGS

READ = Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())
SEND = Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), CallContext())
STREAM = Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(), CallContext())


def busy(retry_after: float | None = None, reason: Reason = Reason.UNAVAILABLE) -> A2AError:
    return A2AError(reason, blame=Blame.PEER, retry_after=retry_after)


def unreachable(*, tried: bool = True) -> A2AError:
    return UnreachableError("gone", tried=tried, blame=Blame.PEER)


def retries(
    most: int = 2, *, chance: float = 1.0, clock: Any = time.monotonic, burst: float = 1e9
) -> Retries:
    return Retries(most, RetryBudget(0.2, burst), clock=clock, chance=lambda: chance)


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 20), st.integers(1, 10))
def test_the_budget_is_a_share_of_the_calls(calls: list[bool], burst: int, one_in: int) -> None:
    """Against a model that counts in whole numbers: each call is worth 1 of `one_in`."""
    budget = RetryBudget(1 / one_in, burst)
    model = burst * one_in
    for is_call in calls:
        if is_call:
            budget.earn()
            model = min(burst * one_in, model + 1)
        else:
            allowed = model >= one_in
            assert budget.spend() == allowed
            model -= one_in if allowed else 0


@each(
    ("call", "error", "repeated"),
    [
        (READ, busy(), True),
        (READ, unreachable(), True),
        (SEND, unreachable(), True),
        (STREAM, unreachable(), True),
        (SEND, busy(), False),
        (STREAM, busy(), False),
        (SEND, busy(0.1), False),
        (SEND, unreachable(tried=False), False),
        (READ, unreachable(tried=False), False),
        (READ, busy(0.1, Reason.RESOURCE_EXHAUSTED), True),
        (READ, busy(None, Reason.RESOURCE_EXHAUSTED), False),
        (READ, busy(reason=Reason.INTERNAL_ERROR), False),
        (READ, busy(reason=Reason.TASK_NOT_FOUND), False),
        (READ, busy(reason=Reason.DEADLINE_EXCEEDED), False),
        (READ, A2AError(Reason.UNAVAILABLE, blame=Blame.SELF), False),
        (READ, busy(LONGEST_WISH + 1), False),
    ],
)
def test_only_what_is_safe_is_repeated(call: Call[Any, Any], error: A2AError, repeated: bool) -> None:
    assert (retries().pause(call, error, 1) is not None) == repeated


def test_pauses_are_random_below_a_bound_that_doubles() -> None:
    most = retries(20)
    found = [most.pause(READ, busy(), number) for number in range(1, 22)]
    assert (found[:4], found[19]) == ([FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST], LONGEST)
    assert found[20] is None
    assert retries(chance=0.0).pause(READ, busy(), 1) == 0.0
    assert retries(chance=0.5).pause(READ, busy(), 2) == FIRST
    assert retries(chance=0.5).pause(READ, busy(3.0), 1) == 3.0 + FIRST / 2


def test_nothing_is_repeated_after_the_deadline() -> None:
    for deadline, repeated in ((100.0 + FIRST, False), (100.01 + FIRST, True)):
        call = Call(ops.GET_TASK, hub.GetTaskRequest(), CallContext(deadline=deadline))
        assert (retries(clock=lambda: 100.0).pause(call, busy(), 1) is not None) == repeated


class Waits:
    """Takes the place of sleeping."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.now = 1000.0

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def failover(agents: Sequence[Agent], waits: Waits, **members: Any) -> Failover:
    dial = agents_by_url(*agents)
    upstreams = [
        Upstream(
            Candidate(interface("JSONRPC", one.name), V1_0),
            DialOptions(),
            dial=dial,
            clock=waits.clock,
            rank=rank,
        )
        for rank, one in enumerate(agents)
    ]
    return Failover(upstreams, discreet=True, clock=waits.clock, sleep=waits, **members)


async def test_an_outage_costs_a_fifth_more_calls_and_not_three_times_as_many() -> None:
    agent, waits = Agent("a", busy()), Waits()
    service = failover([agent], waits, retries=retries(burst=10))
    for _ in range(200):
        with pytest.raises(A2AError):
            await service.unary(READ)
    # A full bucket of 10, and a fifth of the calls: 200 of them earn 40, but the first ones find it full.
    assert len(agent.calls) == 200 + 10 + 39
    assert len(waits.pauses) == 49


async def test_a_read_that_the_agent_was_not_ready_for_is_repeated_until_it_is() -> None:
    class Starting(Agent):
        async def unary(self, call: Call[Any, Any], /) -> Any:
            self.failure = busy(0.5) if len(self.calls) < 2 else None
            return await super().unary(call)

    agent, waits = Starting("a"), Waits()
    service = failover([agent], waits, retries=retries())
    assert (await service.unary(READ)).id == "a"
    assert waits.pauses == [0.5 + FIRST, 0.5 + 2 * FIRST]
    agent.calls.clear()
    with pytest.raises(A2AError):
        await service.unary(SEND)
    assert len(agent.calls) == 1


async def test_a_send_is_repeated_if_no_connection_was_made() -> None:
    one, two, waits = Agent("one", no_connection()), Agent("two", no_connection()), Waits()
    service = failover([one, two], waits, retries=retries())
    for failing in (service.unary(SEND), ids(service.stream(STREAM))):
        with pytest.raises(A2AError, match="cannot be reached"):
            await failing
    assert len(one.calls) == len(two.calls) == 6
    two.failure = None
    assert (await service.unary(SEND)).id == "two"


async def test_a_circuit_opens_lets_one_call_try_and_closes(caplog: pytest.LogCaptureFixture) -> None:
    agent, waits = Agent("a", no_connection()), Waits()
    service = failover([agent], waits, circuits=circuits(5, 1.0, 30.0, clock=waits.clock))
    for _ in range(20):
        with pytest.raises(A2AError) as failed:
            await service.unary(SEND)
    assert len(agent.calls) == 5
    assert failed.value.reason is Reason.UNAVAILABLE
    assert failed.value.retry_after is not None
    assert 0.5 <= failed.value.retry_after <= 1.0
    waits.now += 1.0
    for _ in range(5):
        with pytest.raises(A2AError) as failed:
            await ids(service.stream(STREAM))
    assert len(agent.calls) == 6  # one that shows that it is not back
    assert failed.value.retry_after is not None
    assert 1.0 <= failed.value.retry_after <= 2.0  # a longer pause
    agent.failure = None
    waits.now += 2.0
    for _ in range(10):
        assert (await service.unary(SEND)).id == "a"
    assert len(agent.calls) == 16
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines] == [
        "the agent cannot be reached",
        "the agent can be reached again",
    ]


async def test_a_long_call_that_tries_an_open_circuit_does_not_hold_others_up() -> None:
    class Working(Agent):
        def __init__(self) -> None:
            super().__init__("a", no_connection())
            self.began = asyncio.Event()
            self.done = asyncio.Event()

        async def unary(self, call: Call[Any, Any], /) -> Any:
            if call is SEND:
                self.began.set()
                await self.done.wait()
            return await super().unary(call)

    agent, waits = Working(), Waits()
    service = failover([agent], waits, circuits=circuits(1, 1.0, 10.0, clock=waits.clock))
    with pytest.raises(A2AError):
        await service.unary(READ)
    agent.failure = None
    waits.now += 1.0
    long = asyncio.create_task(service.unary(SEND))
    async with asyncio.timeout(PATIENCE):
        await agent.began.wait()
    with pytest.raises(A2AError):
        await service.unary(READ)
    waits.now += 10.0
    for _ in range(2):
        assert (await service.unary(READ)).id == "a"
    agent.done.set()
    assert (await long).id == "a"


async def test_errors_of_the_agent_open_no_circuit() -> None:
    agent, waits = Agent("a", busy()), Waits()
    service = failover([agent], waits, circuits=circuits(5, 1.0, 30.0, clock=waits.clock))
    for _ in range(20):
        with pytest.raises(A2AError):
            await service.unary(SEND)
    assert len(agent.calls) == 20


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_the_time_that_an_agent_asks_for_is_honoured_on_each_binding(upstream: str) -> None:
    probe = Probe()

    async def unary(_: Any) -> Any:
        if len(probe.calls) == 1:
            raise A2AError(Reason.UNAVAILABLE, "not yet", retry_after=0.05)
        return hub.Task(id="t")

    probe.on_unary = unary
    async with (
        serve_service(probe, card(), [interface(upstream)], ServeOptions(grace=0)) as agent,
        serve_gateway(
            card(),
            [Candidate(one, V1_0) for one in agent.card.supported_interfaces],
            options=ServeOptions(grace=0),
        ) as gateway,
        connect(gateway.card) as peer,
    ):
        began = time.monotonic()
        assert (await peer.get_task(hub.GetTaskRequest(id="t"))).id == "t"
        assert time.monotonic() - began >= 0.05
    assert len(probe.calls) == 2


@pytest.mark.parametrize("front", BINDINGS)
async def test_an_open_circuit_is_told_with_the_time_to_come_back(front: str) -> None:
    options = ServeOptions(grace=0)
    gone = Candidate(interface("JSONRPC", "http://127.0.0.1:1"), V1_0)
    async with (
        serve_gateway(card(), [gone], options=options) as gateway,
        connect(gateway.card, binding=front) as peer,
    ):
        for _ in range(6):
            with pytest.raises(A2AError) as failed:
                await peer.send("hi")
    assert failed.value.reason is Reason.UNAVAILABLE
    assert failed.value.message == "the agent behind this address cannot be reached"
    assert failed.value.retry_after is not None
