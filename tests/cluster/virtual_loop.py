"""An event loop with a clock of its own, and processes in it that can be stopped and killed.

Time passes only when nothing can run. Whatever a process has scheduled has its owner in its context;
callbacks of a stopped process are kept until it goes on, those of a killed one until the schedule is over.
"""

import asyncio
import contextvars
import heapq
from asyncio import events
from typing import Any


class Owner:
    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = False
        self.killed = False
        self.parked: list[Any] = []


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


def _runs(handle: Any) -> bool:
    owner = handle._context.get(OWNER)
    if owner is None or not owner.frozen:
        return True
    owner.parked.append(handle)
    return False


class _Handle(events.Handle):
    def _run(self) -> None:
        if _runs(self):
            super()._run()


class _TimerHandle(events.TimerHandle):
    def _run(self) -> None:
        if _runs(self):
            super()._run()


class _Selector:
    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits for nothing")
        if timeout > 0:
            self.now += timeout
        return []

    def close(self) -> None:
        pass

    def register(self, *_: Any) -> None:
        pass

    def unregister(self, *_: Any) -> None:
        pass

    def get_map(self) -> dict[Any, Any]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self.set_exception_handler(self._note)
        self.problems: list[dict[str, Any]] = []

    def _note(self, _: Any, context: dict[str, Any]) -> None:
        self.problems.append(context)

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def time(self) -> float:
        return self._virtual.now

    def _call_soon(self, callback: Any, args: Any, context: Any) -> Any:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def freeze(self, owner: Owner) -> None:
        owner.frozen = True

    def thaw(self, owner: Owner) -> None:
        owner.frozen = False
        self._ready.extend(owner.parked)
        owner.parked.clear()

    def spawn(self, owner: Owner, work: Any) -> asyncio.Task[Any]:
        """Starts a coroutine in a process."""
        context = contextvars.copy_context()
        context.run(OWNER.set, owner)
        return self.create_task(work, context=context)
