"""Hosted agents behind a gateway, cut at every event: the caller sees the log, with its ids."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.stores import MemoryStore, open_store
from tests.agents import ScriptedAgent
from tests.patience import PATIENCE
from tests.resume.bridged import reached
from tests.resume.callers import Caller, resumed
from tests.resume.cutting import Cutter
from tests.resume.hosted import EVENTS, Scene, answered_question, log_of, sending, served
from tests.resume.scene import BINDINGS, dialling, read, read_until_cut, subscribing

stores = pytest.mark.parametrize("kind", ["memory", "sqlite"])
upstreams = pytest.mark.parametrize("upstream", BINDINGS)


@asynccontextmanager
async def bridged(
    kind: str, folder: Path, front: str, upstream: str
) -> AsyncIterator[tuple[Scene, Service, Cutter, Service]]:
    """The agent, a client side of a gateway to it, the proxies between them, and a client side of the agent."""
    url = "memory://" if kind == "memory" else f"sqlite:///{folder}/tasks.db"
    async with open_store(url) as store, served(store) as scene:
        far, there = scene.cutter(upstream), scene.server.grpc
        async with (
            reached(front, [far.address], upstream) as (service, near),
            dialling(str(there), "GRPC", V1_0) as direct,
        ):
            yield scene, service, near, direct


@stores
@upstreams
async def test_cut_behind_the_gateway(tmp_path: Path, kind: str, upstream: str) -> None:
    async with bridged(kind, tmp_path, "JSONRPC", upstream) as (scene, service, _, direct):
        far = scene.cutter(upstream)
        for place in range(1, EVENTS + 1):
            async with asyncio.timeout(PATIENCE):
                far.hold_after(place)
                caller = Caller(service, sending(f"{place}"))
                await caller.has(place)
                await far.held()
                far.cut()
                seen = await caller.end()
                assert seen == await log_of(direct, seen[0].content.task.id)


@stores
@pytest.mark.parametrize("front", BINDINGS)
async def test_cut_before_the_gateway(tmp_path: Path, kind: str, front: str) -> None:
    async with bridged(kind, tmp_path, front, "GRPC") as (_, service, near, direct):
        for place in range(1, EVENTS + 1):
            async with asyncio.timeout(PATIENCE):
                seen = await read_until_cut(service, sending(f"{place}"), near, place)
                task_id = seen[0].content.task.id
                seen += await resumed(service, task_id, seen[-1].id)
                assert seen == await log_of(direct, task_id)


@stores
async def test_cut_on_both_sides_while_the_task_continues(tmp_path: Path, kind: str) -> None:
    async with bridged(kind, tmp_path, "GRPC", "HTTP+JSON") as (scene, service, near, direct):
        far = scene.cutter("HTTP+JSON")
        scene.steps.hold_after(3)
        async with asyncio.timeout(PATIENCE):
            seen = await read_until_cut(service, sending(), near, 3)
            task_id = seen[0].content.task.id
            while len(seen) < EVENTS:
                scene.steps.allow(1)
                far.cut()
                seen += await resumed(service, task_id, seen[-1].id, most=1, cutter=near)
            assert await resumed(service, task_id, seen[-1].id) == []
            assert seen == await log_of(direct, task_id)


async def test_a_question_that_was_answered_ends_no_resumed_stream() -> None:
    async with (
        served(MemoryStore(), agent=ScriptedAgent()) as scene,
        reached("JSONRPC", [scene.cutter("GRPC").address], "GRPC") as (service, _),
    ):
        task_id = await answered_question(service)
        whole = await read(service, subscribing(task_id, "0"))
        assert [one.id for one in whole] == ["1", "2", "3", "4", "5", "6"]
        assert await read(service, subscribing(task_id, "1")) == whole[1:]
