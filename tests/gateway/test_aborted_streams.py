"""Streams that callers break off leave nothing behind, in an agent and in a gateway in front of it: after twice as
many of them, this process has as many objects as before.

Objects are counted and not bytes, because allocators keep memory. `make soak` measures the latter.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import BuiltinMethodType
from typing import Any
from weakref import ReferenceType

import pytest

from a2a_bridge import Agent, Run, connect, serve
from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.cards import select
from a2a_bridge.core.option_classes import ReplayOptions, StoreOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: streams that are broken off between two looks, by each binding
MANY = 40
#: bytes of tasks that the agent keeps
MEMORY = 300_000
#: objects more after 2 * MANY * len(BINDINGS) streams: caches of the interpreter, and what a timer still holds
SPARE = 100


class Waiting:
    """Works until the end of the test, or as long as it has a reader."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        if run.text == "wait":
            await asyncio.Event().wait()
        for number in range(20):
            yield run.artifact(f"{number}", append=number > 0, last=number == 19)
            await asyncio.sleep(0)
        yield run.status("completed")


@pytest.mark.parametrize("kind", ["joined", "begun"])
@pytest.mark.parametrize("gateway", [False, True], ids=["hosted", "gateway"])
async def test_aborted_streams_leave_nothing(gateway: bool, kind: str) -> None:
    async with AsyncExitStack() as stack:
        # The memory that tasks may fill is full before the first look.
        few = ServeOptions(
            store_options=StoreOptions(max_memory=MEMORY),
            store="memory://",
            replay=ReplayOptions(tasks=10, linger=0),
            grace=0,
        )
        far = await stack.enter_async_context(serve(Agent(Waiting(), name="waiting"), options=few))
        card = far.card
        if gateway:
            found = select(card, known=names(), version="1.0")
            near = await stack.enter_async_context(serve_gateway(card, found, options=few))
            card = near.card
        dial = DialOptions(timeout=PATIENCE)
        peers = [
            await stack.enter_async_context(connect(card, binding=binding, version="1.0", options=dial))
            for binding in BINDINGS
        ]
        request = request_of("wait")
        request.configuration.return_immediately = True
        task_id = (await peers[0].send_message(request)).task.id

        async def wave() -> None:
            for peer in peers:
                for _ in range(MANY):
                    joins = hub.SubscribeToTaskRequest(id=task_id)
                    await _aborted(peer, joins if kind == "joined" else request_of("short"))

        async with asyncio.timeout(4 * PATIENCE):
            # What is remembered of callers and tasks, in bounded tables, fills first.
            await wave()
            await wave()
            await wave()
            before = await _objects()
            await wave()
            await wave()
            after = await _objects()
    # A loop keeps up to 100 timers that are cancelled. A gateway remembers the contexts of many tasks, each an
    # entry and its key: they would fill only in `make soak`.
    grown = {
        kind: count for kind, count in (after - before).items() if kind not in ("TimerHandle", "Context")
    }
    named = 2 * MANY * len(BINDINGS) if gateway and kind == "begun" else 0
    for one in ("tuple", "Known"):
        grown[one] = max(0, grown.get(one, 0) - named)
    assert sum(grown.values()) < SPARE, grown


async def _aborted(peer: Peer, request: Any) -> None:
    """A stream of which one event is read."""
    events = peer.events(request)
    await anext(events)
    await events.aclose()


async def _objects() -> Counter[str]:
    """The objects of this process by type, once nothing goes on that the streams have begun."""
    count = -1
    async with asyncio.timeout(PATIENCE):
        while True:
            for _ in range(50):
                await asyncio.sleep(0.002)
            gc.collect()
            found = len(gc.get_objects())
            if found == count:
                break
            count = found
    return Counter(type(one).__qualname__ for one in gc.get_objects() if not _is_cached_by_abc(one))


def _is_cached_by_abc(one: object) -> bool:
    """Abstract classes cache the answer for each type. The first look at a type makes an entry, a reference and
    its callback, in each subclass: more than a hundred, once.
    """
    callback = one.__callback__ if isinstance(one, ReferenceType) else one
    return isinstance(callback, BuiltinMethodType) and callback.__name__ == "_destroy"
