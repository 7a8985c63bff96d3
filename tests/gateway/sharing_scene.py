"""An agent whose streams a test can break and count, behind a gateway's stream sharing. No sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext, Principal
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import RESUME_URI, gap_of
from a2a_bridge.core.service import Events, Service
from a2a_bridge.dialects.annotation import Finality
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.resume.scripted import TASK

#: short times: tests do not wait for them
QUICK = ReplayOptions(pause=0.001, longest_pause=0.002)

Seen = tuple[str, hub.StreamResponse]


def broken() -> A2AError:
    """The error of a client side after a broken connection."""
    return A2AError(
        Reason.UNAVAILABLE, "the connection broke", metadata={"phase": "stream"}, blame=Blame.PEER
    )


class Shaky:
    """Implements Service: a service whose streams break.

    breaks: the number of events after which each of the next streams breaks; None for one that does not.
    rejected: the number of attempts to open a stream that fail before any event. open: streams that run now.
    streams, gets: calls so far. service: may be replaced by another.
    """

    def __init__(self, service: Service, *breaks: int | None) -> None:
        self.service = service
        self.breaks = list(breaks)
        self.rejected = 0
        self.open = 0
        self.streams: list[Call[Any, Any]] = []
        self.gets = 0
        self._changed = asyncio.Event()
        self._hang_up = asyncio.Event()

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.gets += 1
        return await self.service.unary(call)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.streams.append(call)
        if self.rejected:
            self.rejected -= 1
            raise broken()
        left = self.breaks.pop(0) if self.breaks else None
        self._count(1)
        try:
            async with aclosing(self.service.stream(call)) as events:
                if left == 0:
                    raise broken()
                async for event in events:
                    yield event
                    if left is not None:
                        left -= 1
                        if not left:
                            raise broken()
        finally:
            self._count(-1)

    async def until_open(self, number: int, *, begun: int = 0) -> None:
        """Waits until so many streams run, and so many have begun."""
        async with asyncio.timeout(PATIENCE):
            while self.open != number or len(self.streams) < begun:
                await self._changed.wait()

    def _count(self, change: int) -> None:
        self.open += change
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@asynccontextmanager
async def sharing(
    service: Service,
    options: ReplayOptions = QUICK,
    *,
    forward: Iterable[str] = ("authorization",),
    resumes: bool = True,
    is_final: Finality | None = None,
) -> AsyncIterator[StreamSharing]:
    """The stream sharing of a gateway; afterwards nothing of it is left."""
    before = asyncio.all_tasks()
    made = StreamSharing(service, options, forward=forward, resumes=resumes, is_final=is_final)
    try:
        yield made
    finally:
        await made.streams.aclose()
    assert asyncio.all_tasks() <= before
    assert len(made.streams) == 0


def context(after: str = "", *, tenant: str = "", owner: str = "", **parameters: str) -> CallContext:
    """The context of a caller. parameters: with underscores for dashes."""
    given = {name.replace("_", "-"): value for name, value in parameters.items()}
    if after:
        given[LAST_EVENT_PARAMETER] = after
    return CallContext(tenant=tenant, parameters=given, principal=Principal(owner) if owner else None)


def sending(called: CallContext | None = None, **message: Any) -> Call[Any, Any]:
    made = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="go")], **message)
    return Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(message=made), called or context())


def subscribing(after: str = "", called: CallContext | None = None) -> Call[Any, Any]:
    request = hub.SubscribeToTaskRequest(id=TASK, tenant=called.tenant if called else "")
    return Call(ops.SUBSCRIBE_TO_TASK, request, called or context(after))


async def numbered(service: Service, call: Call[Any, Any]) -> AsyncGenerator[Seen, None]:
    """The events of a call with their ids, as a binding reads them."""
    async with asyncio.timeout(PATIENCE), aclosing(service.stream(call)) as events:
        async for event in events:
            copy = hub.StreamResponse()
            copy.CopyFrom(event.message)
            assert event.gap or gap_of(copy) is None
            yield event.id, copy


async def read(service: Service, call: Call[Any, Any], most: int | None = None) -> list[Seen]:
    """Reads the events of a call, to the end or so many; then the caller leaves."""
    seen: list[Seen] = []
    if most == 0:
        return seen
    async with aclosing(numbered(service, call)) as events:
        async for one in events:
            seen.append(one)
            if len(seen) == most:
                break
    return seen


async def into(seen: list[Seen], stream: AsyncGenerator[Seen, None]) -> None:
    """Reads to the end, or to the error."""
    async for one in stream:
        seen.append(one)  # noqa: PERF401  events before an error count


def contents(seen: Iterable[Seen]) -> list[hub.StreamResponse]:
    return [event for _, event in seen]


def folded(events: Iterable[hub.StreamResponse]) -> hub.Task:
    """The task that events add up to. A snapshot for a gap counts as the task."""
    task = hub.Task()
    for event in events:
        which = event.WhichOneof("payload")
        if which == "task":
            task.CopyFrom(event.task)
            if RESUME_URI in task.metadata.fields:
                del task.metadata.fields[RESUME_URI]
            if not task.metadata.fields:
                task.ClearField("metadata")
        else:
            advance(task, getattr(event, which or ""))
    return task


def gaps(events: Iterable[hub.StreamResponse]) -> int:
    """The number of snapshots for gaps in the events."""
    return sum(gap_of(event) is not None for event in events)
