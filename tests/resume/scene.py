"""A service on all bindings behind a network that a test can cut, with callers of each version."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.bindings.following import Following, follow_stream
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext, ResponseParameters
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import KNOWN, V1_0, BindingKind, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.resume.cutting import PATIENCE, Cutter, cutting
from tests.sites import listening

Subscribing = Call[hub.SubscribeToTaskRequest, hub.StreamResponse]

AGAIN = Following(attempts=20, first=0.01)
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


@dataclass(frozen=True)
class Seen:
    """An event as a caller saw it. id: empty without an id."""

    id: str
    event: bytes
    gap: bool = field(default=False, compare=False)

    @property
    def content(self) -> hub.StreamResponse:
        return hub.StreamResponse.FromString(self.event)


def kind_of(binding: str) -> BindingKind[Any, Any]:
    return find(binding).kind


@asynccontextmanager
async def dialling(
    address: object, binding: str, dialect: Dialect = V1_0, options: DialOptions | None = None
) -> AsyncIterator[Service]:
    """A client side of ours."""
    url = str(address) if binding == "GRPC" else f"http://{address}"
    interface = hub.AgentInterface(url=url, protocol_binding=binding, protocol_version=dialect.version)
    async with find(binding).dial(interface, dialect, options or DialOptions()) as service:
        yield service


@asynccontextmanager
async def through_a_cutter(
    service: Service, binding: str, dialect: Dialect = V1_0
) -> AsyncIterator[tuple[Service, Cutter]]:
    """A client side of a served service, and the proxy between them."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(service, binding, [dialect]))
        cutter = await stack.enter_async_context(cutting(address.host, address.port))
        yield await stack.enter_async_context(dialling(cutter.address, binding, dialect)), cutter


def subscribing(task_id: str, after: str = "", *, extensions: str = "") -> Subscribing:
    """A call of SubscribeToTask."""
    parameters = {LAST_EVENT_PARAMETER: after, "a2a-extensions": extensions}
    context = CallContext(parameters={name: value for name, value in parameters.items() if value})
    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), context)


def seen_of(event: Event) -> Seen:
    """An event in the form that is compared."""
    return Seen(event.id, event.message.SerializeToString(deterministic=True), event.gap)


async def numbered(service: Service, call: Subscribing) -> AsyncGenerator[Seen, None]:
    async with aclosing(service.stream(call)) as events:
        async for event in events:
            yield seen_of(event)


async def read(service: Service, call: Subscribing) -> list[Seen]:
    async with asyncio.timeout(PATIENCE), aclosing(numbered(service, call)) as events:
        return [one async for one in events]


async def numbered_on(service: Service, task_id: str, after: str) -> AsyncGenerator[Seen, None]:
    """The events after an event, right after a cut: a call may still be sent on the broken connection."""
    call = subscribing(task_id, after)
    async with aclosing(follow_stream(service, call, AGAIN)) as events:
        async for event in events:
            yield seen_of(event)


async def read_on(service: Service, task_id: str, after: str) -> list[Seen]:
    """All events after an event, right after a cut."""
    async with asyncio.timeout(PATIENCE), aclosing(numbered_on(service, task_id, after)) as events:
        return [one async for one in events]


async def answered(service: Service, call: Call[Any, Any]) -> Any:
    """The answer of a unary call, right after a possible cut."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await service.unary(call)
            except A2AError as error:
                assert error.reason is Reason.UNAVAILABLE  # noqa: PT017
            await asyncio.sleep(0.01)


async def read_until_cut(service: Service, call: Call[Any, Any], cutter: Cutter, events: int) -> list[Seen]:
    """Reads so many events of a call, has the connection cut, and checks that the reader gets an error."""
    seen: list[Seen] = []
    cutter.hold_after(events)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        if not events:
            tasks.create_task(_cut_once_held(cutter))
        with pytest.raises(A2AError) as broken:
            await _read_and_cut(service, call, cutter, events, seen)
    assert broken.value.reason is Reason.UNAVAILABLE
    assert len(seen) == events
    return seen


async def _read_and_cut(
    service: Service, call: Call[Any, Any], cutter: Cutter, events: int, seen: list[Seen]
) -> None:
    try:
        async with aclosing(numbered(service, call)) as stream:
            async for one in stream:
                seen.append(one)
                if len(seen) == events:
                    cutter.cut()
    except A2AError:
        if seen or not cutter.holds:
            raise
    else:
        return
    # The cut before: this call was still sent on the broken connection.
    await asyncio.sleep(0.01)
    again = Call(call.operation, call.request, call.context.replace(reply=ResponseParameters()))
    await _read_and_cut(service, again, cutter, events, seen)


async def _cut_once_held(cutter: Cutter) -> None:
    await cutter.held()
    cutter.cut()


OLDER = tuple(dialect for dialect in KNOWN if dialect is not V1_0)
