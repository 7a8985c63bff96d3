"""Waiting for a service no longer than a limit: for a response, and for each event of a stream. It sets no
limit.

Rules:
1. Of a stream only the waits for events are bounded, so that the time of its reader does not count.
2. A timeout that is the service's own is passed on as it is.
3. An agent is silent only after it has got the request. The layers that know about the sending of a call say
   so (`unsent`, `Sending`), and the limit of its `Silence` begins anew. A call without such a limit pays
   nothing.
"""

import asyncio
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, ResponseParameters
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub

T = TypeVar("T")

#: seconds to wait for GetTask where a call needs a look at its task
PATIENCE = 10.0


class Silence:
    """The limit of one wait for an agent, in seconds; used like `asyncio.timeout`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)
        self._outer: Silence | None = None
        #: the one that waits; the tasks that it starts inherit its context, but are not the call
        self.task: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> None:
        self._outer = _SILENCE.get()
        self.task = asyncio.current_task()
        await self._timeout.__aenter__()
        _SILENCE.set(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _SILENCE.set(self._outer)
        self.task = None
        await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        """Whether the limit has passed."""
        return self._timeout.expired()

    def suspend(self) -> None:
        """Lets no time count until `restart`."""
        self._timeout.reschedule(None)

    def restart(self) -> None:
        """Lets the limit begin now, if the wait has not ended."""
        if self.task is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)


_SILENCE: ContextVar[Silence | None] = ContextVar("silence", default=None)


def _running() -> Silence | None:
    silence = _SILENCE.get()
    return silence if silence is not None and silence.task is asyncio.current_task() else None


@contextmanager
def unsent() -> Iterator[None]:
    """Around a wait of a call of which nothing has been sent: for a connection, credentials or a repetition.
    The limit for the agent's silence does not bound the wait.
    """
    silence = _running()
    if silence is None:
        yield
        return
    silence.suspend()
    try:
        yield
    finally:
        silence.restart()


class Sending(io.BytesIO):
    """The body of a large request. Its reader sends it; the silence begins anew with each part."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._silence = _running()

    def read(self, size: int | None = -1, /) -> bytes:
        """The next part, when the one before has been sent."""
        if self._silence is not None:
            self._silence.restart()
        return super().read(size)


async def fetch_task(
    service: Service, call: Call[Any, Any], task_id: str, *, seconds: float | None = PATIENCE, **members: Any
) -> hub.Task:
    """A task as the caller of a call gets it. members: further members of the request. seconds: the limit;
    None for no limit. Raises the errors of GetTask, and UNAVAILABLE after the limit.
    """
    request = hub.GetTaskRequest(id=task_id, tenant=call.request.tenant, **members)
    asking = Call(ops.GET_TASK, request, call.context.replace(reply=ResponseParameters()))
    try:
        async with asyncio.timeout(seconds):
            return await service.unary(asking)
    except TimeoutError:
        raise A2AError(Reason.UNAVAILABLE, "the agent does not answer", blame=Blame.PEER) from None


async def bound_result(
    answer: Awaitable[T], bound: asyncio.Timeout | Silence, late: Callable[[BaseException], A2AError]
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
    bound: Callable[[], asyncio.Timeout | Silence],
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
