"""Agents of the official SDKs, which give no ids, behind a gateway whose connections are cut on both sides."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.peers.processes import Agent
from tests.resume.bridged import reached, sending
from tests.resume.callers import Caller, found, resumed
from tests.resume.cutting import Cutter, cutting
from tests.resume.scene import BINDINGS, Seen, read_until_cut

pytestmark = pytest.mark.sdk

Agents = Callable[..., Agent]
upstreams = pytest.mark.parametrize("upstream", BINDINGS)


@asynccontextmanager
async def bridged(agent: Agent, upstream: str, version: str) -> AsyncIterator[tuple[Service, Cutter, Cutter]]:
    """A client side of a gateway to an agent, the proxy between them, and the one behind the gateway."""
    url = agent.url(upstream)
    host, _, port = (urlsplit(url).netloc if "://" in url else url).partition(":")
    async with (
        cutting(host, int(port)) as far,
        reached("JSONRPC", [far.address], upstream, agent=by_version(version) or V1_0) as (service, near),
    ):
        yield service, near, far


def telling(text: str) -> Call[Any, Any]:
    """A message that is answered at once."""
    message = hub.Message(message_id=uuid.uuid4().hex, role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    return Call(ops.SEND_MESSAGE, hub.SendMessageRequest(message=message), CallContext())


def folded(seen: list[Seen]) -> hub.Task:
    """The task as the sum of the events."""
    task = hub.Task()
    for one in seen:
        event = one.content
        if event.HasField("task"):
            task.CopyFrom(event.task)
        else:
            advance(task, getattr(event, event.WhichOneof("payload") or ""))
    return task


async def asked(service: Service, task_id: str) -> hub.Task:
    request = hub.GetTaskRequest(id=task_id)
    return await service.unary(Call(ops.GET_TASK, request, CallContext()))


def chunks(task: hub.Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts]


def check(seen: list[Seen], told: hub.Task, *, repeats: bool = False) -> None:
    """Nothing is missing or repeated (repeats: but what a snapshot of the agent contains); ids increase."""
    task = folded(seen)
    got = [text for text, _ in groupby(chunks(task))] if repeats else chunks(task)
    assert got == chunks(told) == ["a", "b", "c"]
    assert task.status.state == told.status.state == hub.TASK_STATE_COMPLETED
    numbers = [int(one.id.rpartition("-")[2]) for one in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(seen)))


@upstreams
@pytest.mark.parametrize("place", range(1, 5))
async def test_cut_behind_the_gateway_while_the_task_continues(
    peer_agents: Agents, upstream: str, place: int
) -> None:
    gate = uuid.uuid4().hex
    steps = ["open", "work", "chunk a", "chunk b", "last c", "done"]
    # Everything up to this event arrives before the cut; one more is lost with the connection; then the rest.
    script = [*steps[: place + 1], f"hold {gate}", *steps[place + 1 :]]
    async with bridged(peer_agents("1.3.0"), upstream, "1.0") as (service, _, far), asyncio.timeout(PATIENCE):
        far.hold_after(place)
        caller = Caller(service, sending("script:" + ";".join(script)))
        await caller.has(place)
        await far.held()
        far.cut()
        task_id = caller.seen[0].content.task.id
        # The present task replaces the lost events, once the agent is reachable again.
        await caller.has(place + 1)
        await found(service, telling(f"script:free {gate};say ok"))
        seen = await caller.end()
        check(seen, await asked(service, task_id), repeats=True)
        assert len(seen) == len(steps)


@upstreams
async def test_cut_behind_the_gateway_and_the_task_ends_meanwhile(peer_agents: Agents, upstream: str) -> None:
    script = "script:open;work;chunk a;chunk b;last c;done"
    async with bridged(peer_agents("1.3.0"), upstream, "1.0") as (service, _, far), asyncio.timeout(PATIENCE):
        for place in range(1, 6):
            far.hold_after(place)
            caller = Caller(service, sending(script))
            await caller.has(place)
            await far.held()
            far.cut()
            seen = await caller.end()
            check(seen, await asked(service, seen[0].content.task.id), repeats=True)


@upstreams
async def test_cut_before_the_gateway_at_each_event(peer_agents: Agents, upstream: str) -> None:
    steps = ["open", "work", "chunk a", "chunk b", "last c", "done"]
    async with (
        bridged(peer_agents("1.3.0"), upstream, "1.0") as (service, near, _),
        asyncio.timeout(PATIENCE),
    ):
        for place in range(1, len(steps) + 1):
            gate = uuid.uuid4().hex
            script = [*steps[:place], *([f"hold {gate}"] if place < len(steps) else []), *steps[place:]]
            seen = await read_until_cut(service, sending("script:" + ";".join(script)), near, place)
            task_id = seen[0].content.task.id
            await found(service, telling(f"script:free {gate};say ok"))
            seen += await resumed(service, task_id, seen[-1].id)
            check(seen, await asked(service, task_id))
            assert len(seen) == len(steps)


@pytest.mark.parametrize("upstream", ["JSONRPC", "GRPC"])
async def test_older_agents(peer_agents: Agents, upstream: str) -> None:
    """Some show their state with the next event only, repeat chunks or end early: none is lost."""
    async with (
        bridged(peer_agents("0.3.26"), upstream, "0.3") as (service, _, far),
        asyncio.timeout(PATIENCE),
    ):
        for place in range(2, 5):
            gate = uuid.uuid4().hex
            steps = ["open", "work", "chunk a", "chunk b", "last c"]
            script = [*steps[: place + 1], f"tick {gate}", *steps[place + 1 :], "done"]
            far.hold_after(place)
            caller = Caller(service, sending("script:" + ";".join(script)))
            await caller.has(place)
            await far.held()
            far.cut()
            await caller.has(place + 2)
            await found(service, telling(f"script:free {gate};say ok"))
            seen = await caller.end()
            task, told = folded(seen), await asked(service, seen[0].content.task.id)
            assert task.status.state == told.status.state == hub.TASK_STATE_COMPLETED
            assert set(chunks(task)) == {"a", "b", "c"}
            assert all(chunks(task).count(one) <= chunks(told).count(one) for one in "abc")
