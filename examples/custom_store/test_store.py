"""The store in a journal passes the contract of stores, also across a restart."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a_journal import JournalStore

from a2a_bridge import Run, agent
from a2a_bridge.ext import A2AError, CallContext, Engine, Scope, Sent, Store, StoreOptions, hub
from a2a_bridge.testing.contracts import DurableStoreContract


class TestJournalStore(DurableStoreContract):
    """The contract of stores that outlive their process."""

    keeps_push = False

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "journal"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = JournalStore(self.path)
        yield store
        await store.close()

    @asynccontextmanager
    async def survivor(self, store: Store) -> AsyncIterator[Store]:  # noqa: ARG002  its file is known
        copy = self.path.with_name("survivor")
        shutil.copy(self.path, copy)
        other = JournalStore(copy)
        yield other
        await other.close()


@agent
async def asks(run: Run) -> AsyncIterator[object]:
    """Asks once, and answers then."""
    if run.task is None:
        yield run.status("input-required", "which city?")
    else:
        yield run.status("completed", f"it rains in {run.text}")


def message(text: str, task_id: str = "") -> hub.SendMessageRequest:
    body = hub.Message(message_id=text, task_id=task_id, role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    return hub.SendMessageRequest(message=body)


async def test_a_task_continues_after_a_restart(tmp_path: Path) -> None:
    first = JournalStore(tmp_path / "journal")
    engine = Engine(asks, store=first)
    question = (await engine.send_message(message("weather?"), CallContext())).task
    await engine.close()
    await first.close()

    second = JournalStore(tmp_path / "journal")
    engine = Engine(asks, store=second)
    task = (await engine.send_message(message("Oslo", question.id), CallContext())).task
    assert task.status.state == hub.TASK_STATE_COMPLETED
    assert [one.message_id for one in task.history if one.role == hub.ROLE_USER] == ["weather?", "Oslo"]
    await engine.close()
    await second.close()


async def test_a_task_of_a_dead_process_is_an_orphan(tmp_path: Path) -> None:
    scope = Scope("", "ann")
    store = JournalStore(tmp_path / "journal")
    task = hub.Task(id="t", context_id="c")
    task.status.state = hub.TASK_STATE_WORKING
    writer = store.create(scope, "t", lambda: None)
    writer.append(hub.StreamResponse(task=task), task)
    await writer.sync()
    await store.sends.reserve(scope, "m", b"digest", "t")
    assert await store.orphans(10) == []

    later = JournalStore(tmp_path / "journal")  # the first one was not closed: its process has died
    assert await later.orphans(10) == [(scope, "t")]
    stored = await later.get(scope, "t")
    assert stored is not None
    assert (stored.task, stored.last) == (task, 1)
    assert await later.sends.reserve(scope, "m", b"digest", "u") == Sent(b"digest", "t")


async def test_a_failing_disk_delays_answers_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JournalStore(tmp_path / "journal")
    task = hub.Task(id="t", context_id="c")
    writer = store.create(Scope("", ""), "t", lambda: None)
    attempts = 0
    write = store.records.write

    async def failing(changes: object) -> object:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise OSError("no space left on device")
        return await write(changes)  # type: ignore[arg-type]

    monkeypatch.setattr(store.records, "write", failing)
    writer.append(hub.StreamResponse(task=task), task)
    assert writer.pending
    await writer.sync()
    assert (attempts, writer.pending, store.rejection()) == (3, False, None)
    await store.close()


async def test_readers_of_a_lost_disk_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JournalStore(tmp_path / "journal", StoreOptions(ack_timeout=0.05))
    task = hub.Task(id="t", context_id="c")
    writer = store.create(Scope("", ""), "t", lambda: None)
    writer.append(hub.StreamResponse(task=task), task)
    await writer.sync()

    async def failing(_: object) -> object:
        raise OSError("no such device")

    write = store.records.write
    monkeypatch.setattr(store.records, "write", failing)
    reader = store.subscribe("t", 1)
    writer.append(hub.StreamResponse(task=task), task)
    async with asyncio.timeout(30):
        with pytest.raises(A2AError, match="is not available"):
            await reader.take()
    reader.close()
    monkeypatch.setattr(store.records, "write", write)
    await store.close()
