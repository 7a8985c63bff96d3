"""The queue that an executor of a2a-sdk 1.x gets, and what executors do with it and with their exceptions."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import TaskUpdater
from a2a.types import a2a_pb2 as sdk
from a2a.utils import errors

from a2a_bridge import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.interop.test_executor_contract import Script, Scripted, begin, sent, status_text

pytestmark = pytest.mark.sdk

EVENTS = 500


async def add_many(updater: TaskUpdater) -> None:
    for number in range(EVENTS):
        await updater.add_artifact([sdk.Part(text=f"{number} ")], artifact_id="a", append=number > 0)


async def another_loop(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    await asyncio.to_thread(lambda: asyncio.run(add_many(updater)))
    await updater.complete()


async def another_thread(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(add_many(updater), loop).result())
    await updater.complete()


async def with_queue(context: RequestContext, updater: TaskUpdater) -> None:
    async with updater.event_queue as queue:  # type: ignore[attr-defined]  the server's queue has it
        await begin(context, updater)
        await add_many(updater)
        await updater.complete()
    assert queue.is_closed()


@each("script", [another_loop, another_thread, with_queue])
async def test_events_arrive_from_every_thread_once_and_in_order(script: Script) -> None:
    task = await sent(Scripted(script))
    assert task.status.state == hub.TASK_STATE_COMPLETED
    texts = [part.text for part in task.artifacts[0].parts]
    assert texts == [f"{number} " for number in range(EVENTS)]


async def test_another_loop_waits_for_the_reader_and_not_for_ever() -> None:
    """The queue is closed while an event loop of another thread may wait for room."""
    ended: list[BaseException | None] = []

    async def leaves(context: RequestContext, updater: TaskUpdater) -> None:
        await begin(context, updater)

        async def work() -> None:
            try:
                await add_many(updater)
            except BaseException as error:
                ended.append(error)
                raise
            ended.append(None)

        adding = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(work()))
        await updater.event_queue.close()  # type: ignore[attr-defined]
        await adding

    task = await sent(Scripted(leaves))
    assert task.status.state == hub.TASK_STATE_FAILED
    assert ended == [None]


async def late_error(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    raise errors.InvalidParamsError("a secret")


async def late_group(context: RequestContext, updater: TaskUpdater) -> None:
    await begin(context, updater)
    raise BaseExceptionGroup("a secret", [SystemExit("a secret")])


async def early_group(context: RequestContext, updater: TaskUpdater) -> None:
    raise BaseExceptionGroup("a secret", [SystemExit("a secret")])


@each(
    "script, options, text",
    [
        (late_error, {"mask_errors": True}, "the agent failed while working on the task"),
        (late_error, {}, "a secret"),
        (late_group, {}, "the agent failed while working on the task"),
        (early_group, {}, "Internal error"),
    ],
)
async def test_an_exception_ends_the_run_and_is_masked(
    script: Script, options: dict[str, Any], text: str
) -> None:
    found = await sent(Scripted(script), **options)
    if isinstance(found, hub.Task):
        assert (found.status.state, status_text(found)) == (hub.TASK_STATE_FAILED, text)
    else:
        assert (found.reason, found.message) == (Reason.INTERNAL_ERROR, text)


async def test_an_error_that_rejects_the_message_is_for_the_caller_also_if_errors_are_masked() -> None:
    async def reject(context: RequestContext, updater: TaskUpdater) -> None:
        raise errors.InvalidParamsError("no city")

    found = await sent(Scripted(reject), mask_errors=True)
    assert (found.reason, found.message) == (Reason.INVALID_PARAMS, "no city")
