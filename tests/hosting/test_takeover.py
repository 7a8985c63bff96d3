"""Calls about a task that comes from a dead process, while it is being taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from a2a_bridge.core.errors import Reason
from a2a_bridge.hosting import Event, Run
from a2a_bridge.stores.ports import Scope
from tests.agents import ScriptedAgent
from tests.hosting.late import LateStore
from tests.hosting.scene import COMPLETED, Talk, agent_of, rejected
from tests.hosting.test_recovery import Lasting, killed


async def test_a_call_that_comes_while_a_task_is_taken_over_has_the_same_lease() -> None:
    store = LateStore()
    lasting = Lasting("input-required")
    task = await killed(lasting, store, resumes=False)
    lasting.gate.open()
    talk = Talk(ScriptedAgent(), store=store)
    known = await store.get(Scope(), task.id)
    taking = asyncio.create_task(talk.engine._sending.recover(Scope(), task.id, known))
    await asyncio.sleep(0)  # it opens the task
    assert (await talk.send("go on", task_id=task.id, message_id="m-2")).status.state == COMPLETED
    assert await taking
    await talk.rest()


async def test_a_task_that_a_takeover_has_failed_is_not_canceled_after_that() -> None:
    store = LateStore()
    lasting, cleaned = Lasting(), []
    task = await killed(lasting, store, resumes=False)
    lasting.gate.open()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        cleaned.append(run.task_id)
        yield run.status("canceled")

    talk = Talk(agent_of(lasting.execute, cancel), store=store)
    known = await store.get(Scope(), task.id)
    taking = asyncio.create_task(talk.engine._sending.recover(Scope(), task.id, known))
    await asyncio.sleep(0)  # it opens the task
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert await taking
    assert cleaned == []
    await talk.rest()
