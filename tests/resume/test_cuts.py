"""Streams of hosted agents, cut after each event, over every binding and store: callers see the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.core.resume import gap_of, offers_resume
from a2a_bridge.dialects import KNOWN, V1_0, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore, open_store
from a2a_bridge.stores.ports import Store
from a2a_bridge.stores.store_base import Janitor
from tests.agents import ScriptedAgent
from tests.resume.cutting import PATIENCE
from tests.resume.hosted import EVENTS, answered_question, begun, ended, log_of, sending, served
from tests.resume.scene import (
    AGAIN,
    BINDINGS,
    OLDER,
    Seen,
    kind_of,
    numbered_on,
    read,
    read_on,
    read_until_cut,
    seen_of,
    subscribing,
)

bindings = pytest.mark.parametrize("binding", BINDINGS)
stores = pytest.mark.parametrize("kind", ["memory", "sqlite"])
older = pytest.mark.parametrize(
    ("binding", "dialect"),
    [
        pytest.param(binding, dialect, id=f"{binding}-{dialect.version}")
        for binding in BINDINGS
        for dialect in OLDER
        if dialect.version != "0.1" and dialect.form(kind_of(binding)) is not None
    ],
)


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    async with open_store("memory://" if kind == "memory" else f"sqlite:///{folder}/tasks.db") as store:
        yield store


def folded(seen: list[Seen]) -> hub.Task:
    """The task as the sum of events."""
    task = hub.Task()
    for one in seen:
        event = one.content
        which: Any = event.WhichOneof("payload")
        if which == "task":
            task.CopyFrom(event.task)
        else:
            advance(task, getattr(event, which))
    return task


@stores
@bindings
async def test_the_task_has_ended_when_the_caller_is_back(kind: str, binding: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, served(store) as scene, scene.dial(binding, V1_0) as service:
        for place in range(1, EVENTS + 1):
            scene.steps.hold_after(place)
            call = sending(f"cut after {place}")
            seen = await read_until_cut(service, call, scene.cutter(binding), place)
            scene.steps.allow(EVENTS)
            task_id = seen[0].content.task.id
            task = await ended(service, task_id)
            seen += await read_on(service, task_id, seen[-1].id)
            assert seen == await log_of(service, task_id)
            assert folded(seen) == task


@stores
@bindings
async def test_the_task_continues_while_the_caller_is_away(kind: str, binding: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, served(store) as scene, scene.dial(binding, V1_0) as service:
        for place in range(EVENTS):
            scene.steps.hold_after(place)
            task_id = await begun(service)
            seen = await read_until_cut(service, subscribing(task_id, "0"), scene.cutter(binding), place)
            scene.steps.allow(1)  # which happens without a reader, or right after
            start = seen[-1].id if seen else "0"
            async with aclosing(numbered_on(service, task_id, start)) as stream:
                async for one in stream:
                    seen.append(one)
                    scene.steps.allow(1)
            assert seen == await log_of(service, task_id)


@stores
@bindings
async def test_cut_after_every_event_and_followed(kind: str, binding: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, served(store) as scene, scene.dial(binding, V1_0) as service:
        card = scene.server.card
        assert offers_resume(card)
        peer, cutter = Peer(service, card), scene.cutter(binding)
        seen: list[Seen] = []
        cutter.hold_after(1)
        async with asyncio.timeout(PATIENCE), aclosing(peer.events(request_of(["go"]), AGAIN)) as events:
            async for event in events:
                seen.append(seen_of(event))
                cutter.cut()
                cutter.hold_after(1)
        cutter.cut()
        assert seen == await log_of(service, seen[0].content.task.id)


@older
async def test_callers_of_older_versions(binding: str, dialect: Dialect) -> None:
    async with served(MemoryStore(), KNOWN) as scene, scene.dial(binding, dialect) as service:
        for place in range(1, EVENTS + 1):
            scene.steps.hold_after(place)
            seen = await read_until_cut(service, sending(), scene.cutter(binding), place)
            scene.steps.allow(EVENTS)
            task_id = seen[0].content.task.id
            await ended(service, task_id)
            seen += await read_on(service, task_id, seen[-1].id)
            assert seen == await log_of(service, task_id)


def states(seen: list[Seen]) -> list[tuple[str, int]]:
    """The ids of events, each with the state of the task after it; 0 for an artifact."""
    found = []
    for one in seen:
        content = one.content
        status = content.task.status if content.HasField("task") else content.status_update.status
        found.append((one.id, status.state))
    return found


@stores
async def test_a_question_that_was_answered_ends_no_resumed_stream(kind: str, tmp_path: Path) -> None:
    expected = [
        ("1", hub.TASK_STATE_SUBMITTED),
        ("2", hub.TASK_STATE_WORKING),
        ("3", hub.TASK_STATE_INPUT_REQUIRED),
        ("4", hub.TASK_STATE_WORKING),
        ("5", hub.TASK_STATE_UNSPECIFIED),
        ("6", hub.TASK_STATE_COMPLETED),
    ]
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(kind, tmp_path))
        scene = await stack.enter_async_context(served(store, KNOWN, ScriptedAgent()))
        dialled = [(binding, V1_0) for binding in BINDINGS]
        dialled += [mark.values for mark in older.args[1]]
        for binding, dialect in dialled:
            service = await stack.enter_async_context(scene.dial(binding, dialect))
            task_id = await answered_question(service)
            for after in (0, 2, 3):
                seen = await read(service, subscribing(task_id, str(after)))
                assert states(seen) == expected[after:], (binding, dialect)


@bindings
async def test_a_question_that_is_open_ends_a_resumed_stream(binding: str) -> None:
    asking = ScriptedAgent()
    async with served(MemoryStore(), agent=asking) as scene, scene.dial(binding, V1_0) as service:
        seen = await read(service, sending("input name?"))
        assert await read(service, subscribing(seen[0].content.task.id, "1")) == seen[1:]


@bindings
async def test_dropped_events_are_a_gap(binding: str) -> None:
    store = MemoryStore(window=2, window_bytes=400)
    async with served(store) as scene, scene.dial(binding, V1_0) as service:
        task_id = await begun(service)
        task = await ended(service, task_id)
        (only,) = await read(service, subscribing(task_id, "1"))
        mark = gap_of(only.content)
        assert mark is not None
        assert (mark.after, mark.id, only.id) == ("1", str(EVENTS), str(EVENTS))
        assert only.content.task.artifacts == task.artifacts
        last = await read(service, subscribing(task_id, str(EVENTS - 1)))
        assert [one.id for one in last] == [str(EVENTS)]


@bindings
async def test_events_that_were_swept_away_are_a_gap(binding: str, tmp_path: Path) -> None:
    async with (
        opened("sqlite", tmp_path) as store,
        served(store) as scene,
        scene.dial(binding, V1_0) as service,
    ):
        task_id = await begun(service)
        task = await ended(service, task_id)
        await Janitor(store.delete_expired, StoreOptions(events_kept=-5.0)).round()
        (only,) = await read(service, subscribing(task_id, "3"))
        assert gap_of(only.content) == ("3", str(EVENTS))
        assert only.content.task.artifacts == task.artifacts
        assert await read(service, subscribing(task_id, str(EVENTS))) == []


@stores
@bindings
async def test_ids_that_never_were_are_a_gap(kind: str, binding: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, served(store) as scene, scene.dial(binding, V1_0) as service:
        task_id = await begun(service)
        task = await ended(service, task_id)
        for after in (str(EVENTS + 1), "run-1", "nine"):
            (only,) = await read(service, subscribing(task_id, after))
            assert gap_of(only.content) == (after, str(EVENTS))
            assert only.content.task.status == task.status
        assert await read(service, subscribing(task_id, str(EVENTS))) == []


@bindings
async def test_a_reopened_store_continues_the_log(binding: str, tmp_path: Path) -> None:
    async with (
        opened("sqlite", tmp_path) as store,
        served(store) as scene,
        scene.dial(binding, V1_0) as service,
    ):
        seen = await read_until_cut(service, sending(), scene.cutter(binding), 3)
        task_id = seen[0].content.task.id
        await ended(service, task_id)
    async with (
        opened("sqlite", tmp_path) as store,
        served(store) as scene,
        scene.dial(binding, V1_0) as service,
    ):
        seen += await read_on(service, task_id, seen[-1].id)
        assert seen == await log_of(service, task_id)
