"""Coroutines of frameworks that block: each has a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

#: seconds that a cancelled coroutine has; code that blocks cannot be stopped, and is left to itself
GRACE = 5.0

Result = TypeVar("Result")

log = logging.getLogger("a2a_bridge.adapters.own_loop")


async def in_own_loop(make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """The result of a coroutine, which is made and runs in a thread with an event loop of its own.

    A cancellation reaches it. After GRACE nobody waits for its end.
    """
    here = asyncio.get_running_loop()
    ended: asyncio.Future[Result] = here.create_future()
    #: the task, once it runs
    inner: list[asyncio.Task[Result]] = []
    cancelled = threading.Event()

    def settle(result: Any, error: Exception | None) -> None:
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    async def main() -> Result:
        task = asyncio.create_task(make())
        inner.append(task)
        if cancelled.is_set():
            task.cancel()
        return await task

    def work() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = asyncio.run(main())
        except Exception as raised:  # noqa: BLE001  told to the caller of this function
            error = raised
        except BaseException as raised:  # noqa: BLE001  also `sys.exit`, which must not end the thread silently
            error = RuntimeError(repr(raised))
        try:
            here.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            log.debug("a turn has ended after its event loop")

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        cancelled.set()
        for task in inner:
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        await asyncio.wait([ended], timeout=GRACE)
        if ended.done():
            ended.exception()  # that of the cancellation
        else:
            ended.add_done_callback(lambda late: late.exception())  # nobody waits for it
            log.warning("a cancelled turn still runs: it blocks its thread")
        raise
