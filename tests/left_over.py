"""Nothing is left when a thing is closed: one check, at the end of each test, of everything that it closed.

An owner of accounts, queues, leases, streams, timers or tasks has a row in `ROWS`, with the method that closes it and
what has to be empty after that. What only a whole process shares is checked in any case: bytes of requests and
responses in work. A fault of this kind shows in no answer of a call; it fills the memory of a server in weeks.
"""

from __future__ import annotations

import asyncio
from asyncio import runners
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, NamedTuple
from weakref import WeakSet, ref

from a2a_bridge.bindings.memory import MemoryAccount, in_work
from a2a_bridge.cluster.bus import PollingBus
from a2a_bridge.cluster.tails import Tails
from a2a_bridge.gateway.streams import StreamRegistry
from a2a_bridge.hosting.engine import Engine
from a2a_bridge.middleware.limits import _Limits
from a2a_bridge.push.delivery_worker import DeliveryWorker
from a2a_bridge.stores.groups import GroupWriter
from a2a_bridge_adapters.fronts.turn import Upstream
from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports.grpc.client import _Client


class Row(NamedTuple):
    """An owner, and what it holds. close: the name of its method; "" if it is never closed, and has to be empty
    at the end of each test.
    """

    owner: type
    close: str
    held: Callable[[Any], dict[str, object]]


def _engine(engine: Engine) -> dict[str, object]:
    runs = engine._runs
    held: dict[str, object] = {
        "runs": list(runs),
        "tasks of callers": runs._of_callers,
        "tasks of tenants": runs._of_tenants,
    }
    repeats = engine._idempotency
    if repeats is not None:
        held |= {"messages in work": repeats._firsts, "results that are being stored": repeats._storing}
    return held


def _writer(writer: GroupWriter) -> dict[str, object]:
    # A test that writes without an engine may keep its leases.
    of_leases = sum(lease.batch.size for lease in writer.leases.values() if lease.batch is not None)
    return {"queued bytes of no lease": writer.queued - of_leases, "jobs": writer._jobs}


def _streams(streams: StreamRegistry) -> dict[str, object]:
    return {
        "streams": list(streams),
        "bytes": streams._held,
        "tasks": streams._tasks,
    }


def _account(account: MemoryAccount) -> dict[str, object]:
    return {"responses that arrive": account._arriving}


ROWS = (
    Row(Engine, "close", _engine),
    Row(GroupWriter, "close", _writer),
    Row(StreamRegistry, "aclose", _streams),
    Row(DeliveryWorker, "close", lambda worker: {"deliveries": worker._active}),
    Row(PollingBus, "close", lambda bus: {"requests": bus._waiting, "answers": bus._answering}),
    Row(Tails, "close", lambda tails: {"tasks": tails._followed}),
    Row(Upstream, "close", lambda front: {"background work": front._background}),
    Row(HttpHost, "drain", lambda host: {"connections": host.connections, "applications": host.answering}),
    Row(_Client, "close", lambda client: {"calls": client._running}),
    Row(MemoryAccount, "", _account),
    Row(_Limits, "", lambda one: {"calls": one._calls._running, "streams": one._streams._running}),
)


class LeftOver:
    """What the tests have closed or made since the last check."""

    def __init__(self) -> None:
        #: not their owners: tests look at the lives of such objects, too
        self._closed: list[tuple[Row, ref[Any]]] = []
        self._made: list[tuple[Row, WeakSet[Any]]] = []
        self._at_loop_end: list[str] = []
        self._note_loops()
        for row in ROWS:
            if row.close:
                self._note_closed(row)
            else:
                self._note_made(row)

    def _note_loops(self) -> None:
        """The tasks and timers of the product that a loop of a test has when it ends."""
        cancel_all = runners._cancel_all_tasks  # type: ignore[attr-defined]
        noted = self._at_loop_end

        def ending(loop: asyncio.AbstractEventLoop) -> None:
            noted.extend(
                f"task: {one!r}" for one in asyncio.all_tasks(loop) if one.get_name().startswith("a2a ")
            )
            for timer in getattr(loop, "_scheduled", ()):
                if not timer.cancelled() and "a2a_bridge" in repr(timer):
                    noted.append(f"timer: {timer!r}")
            cancel_all(loop)

        runners._cancel_all_tasks = ending  # type: ignore[attr-defined]

    def _note_closed(self, row: Row) -> None:
        close = getattr(row.owner, row.close)
        noted = self._closed

        if iscoroutinefunction(close):

            @wraps(close)
            async def closing(one: Any, *values: Any, **named: Any) -> Any:
                result = await close(one, *values, **named)
                noted.append((row, ref(one)))
                return result

        else:

            @wraps(close)
            def closing(one: Any, *values: Any, **named: Any) -> Any:
                noted.append((row, ref(one)))
                return close(one, *values, **named)

        setattr(row.owner, row.close, closing)

    def _note_made(self, row: Row) -> None:
        begin = row.owner.__init__  # type: ignore[misc]
        made: WeakSet[Any] = WeakSet()
        self._made.append((row, made))

        @wraps(begin)
        def beginning(one: Any, *values: Any, **named: Any) -> None:
            begin(one, *values, **named)
            made.add(one)

        row.owner.__init__ = beginning  # type: ignore[misc]

    def found(self) -> list[str]:
        """What is left, in words; and begins anew."""
        closed, self._closed[:] = self._closed[:], []
        everything = [(row, one()) for row, one in closed]
        everything += [(row, one) for row, made in self._made for one in made]
        for _, made in self._made:
            made.clear()
        left, self._at_loop_end[:] = self._at_loop_end[:], []
        left += [
            f"{row.owner.__name__}: {name}: {what!r}"
            for row, one in everything
            if one is not None
            for name, what in row.held(one).items()
            if what
        ]
        if in_work.held:
            left.append(f"bytes in work: {in_work.held}")
            in_work.held = 0
        return left
