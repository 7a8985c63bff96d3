"""A process with servers that measures itself between two commands of the process that loads it."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]


class Spent(NamedTuple):
    """The resources that a process used between two moments."""

    #: CPU seconds
    cpu: float
    #: the longest CPU time of the loop's thread between two of its turns, in seconds
    held: float
    #: by how many bytes its resident memory has grown
    memory: int


class Measured:
    """A child process in which a context is open.

    context: makes it from `given`; a function of a module, because the child is spawned. Its value must be
    one that can be pickled: the addresses of its servers.
    """

    def __init__(
        self,
        name: str,
        context: Callable[..., AbstractAsyncContextManager[Any]],
        *given: Any,
        patience: float = 60.0,
    ) -> None:
        """patience: seconds in which the child answers a command. Raises RuntimeError without an answer."""
        self._patience = patience
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_child, args=(theirs, context, given), name=name, daemon=True)
        self._process.start()
        # Otherwise the end of the child would not be the end of the pipe.
        theirs.close()
        self.addresses: Any
        #: the cost of opening the context
        self.opening: Spent
        self.addresses, self.opening = self._answer()

    def begin(self) -> None:
        """Starts a measurement."""
        self._pipe.send(True)
        self._answer()

    def end(self) -> Spent:
        """The resources used since `begin`."""
        self._pipe.send(True)
        return Spent(*self._answer())

    def _answer(self) -> Any:
        if not self._pipe.poll(self._patience):
            raise RuntimeError(f"{self._process.name} does not answer")
        try:
            return self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"{self._process.name} has ended, see its errors above") from None

    def stop(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self._process.join(self._patience)


def _child(pipe: Connection, context: Callable[..., Any], given: Sequence[Any]) -> None:
    asyncio.run(_measuring(pipe, context(*given)))


async def _measuring(pipe: Connection, context: AbstractAsyncContextManager[Any]) -> None:
    commands: asyncio.Queue[object] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(pipe.fileno(), lambda: commands.put_nowait(pipe.recv()))
    opening = _Span()
    async with context as addresses:
        pipe.send((addresses, opening.end()))
        while True:
            await commands.get()
            span = _Span()
            pipe.send(None)
            await commands.get()
            pipe.send(span.end())


class _Span:
    """Measures this process from here to `end`."""

    def __init__(self) -> None:
        gc.collect()
        self._process = psutil.Process()
        self._resident = self._process.memory_info().rss
        self._holds = Holds()
        self._begun = time.process_time()

    def end(self) -> Spent:
        cpu = time.process_time() - self._begun
        self._holds.stop()
        gc.collect()
        return Spent(cpu, self._holds.longest, self._process.memory_info().rss - self._resident)


class Holds:
    """The longest CPU time of this thread between two turns of the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.thread_time()
        self._loop = asyncio.get_running_loop()
        self._turn()

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self._handle: asyncio.Handle = self._loop.call_soon(self._pause)

    def _pause(self) -> None:
        # Not every turn: an idle loop would use CPU, which is measured.
        self._last = time.thread_time()
        self._handle = self._loop.call_later(0.001, self._turn)

    def stop(self) -> None:
        """Ends the measurement."""
        self._handle.cancel()
