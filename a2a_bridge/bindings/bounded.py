"""Waiting for a service no longer than a limit: for a response, and for each event of a stream. It sets no
limit.

Rules:
1. Of a stream only the waits for events are bounded, so that the time of its reader does not count.
2. A timeout that is the service's own is passed on as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, ResponseParameters
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub

T = TypeVar("T")

#: seconds to wait for GetTask where a call needs a look at its task
PATIENCE = 10.0


async def fetch_task(
    service: Service, call: Call[Any, Any], task_id: str, *, seconds: float | None = PATIENCE, **members: Any
) -> hub.Task:
    """A task as the caller of a call gets it. members: further ones of the request.

    Raises the errors of GetTask, and UNAVAILABLE after so many seconds; None for no limit.
    """
    request = hub.GetTaskRequest(id=task_id, tenant=call.request.tenant, **members)
    asking = Call(ops.GET_TASK, request, call.context.replace(reply=ResponseParameters()))
    try:
        async with asyncio.timeout(seconds):
            return await service.unary(asking)
    except TimeoutError:
        raise A2AError(Reason.UNAVAILABLE, "the agent does not answer", blame=Blame.PEER) from None


async def bound_result(
    answer: Awaitable[T], bound: asyncio.Timeout, late: Callable[[BaseException], A2AError]
) -> T:
    """The result of an awaitable. Raises `late(…)` of its cancellation if the bound passes first."""
    try:
        async with bound:
            return await answer
    except TimeoutError as error:
        if bound.expired():
            raise late(error.__cause__ or error) from None
        raise


async def bound_stream(
    events: AsyncGenerator[T, None],
    bound: Callable[[], asyncio.Timeout],
    late: Callable[[BaseException], A2AError],
) -> AsyncGenerator[T, None]:
    """The events of a stream, each awaited within a new `bound()`. Raises `late(…)` when one has passed."""
    async with aclosing(events):
        while True:
            # A timeout around the yield would cancel the reader.
            limit = bound()
            try:
                async with limit:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if limit.expired():
                    raise late(error.__cause__ or error) from None
                raise
            yield event
