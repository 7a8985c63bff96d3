"""Decodes and encodes large documents in threads, so that the event loop is not blocked. For bindings.

Rules:
1. Small documents stay on the loop: SMALL octets cannot hold enough values to block it.
2. Values are counted before decoding (codec.budget), and too many are refused. Encoding counts on the way
   (codec.meter).
3. All servers and clients of the process share a few threads. More would not be faster: Python runs one at a
   time, and the loop would wait longer.
4. Meanwhile Python's collector of cycles runs rarely: the values of a document are no cycles, but it would
   visit them again and again, which takes as long as to decode them.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec.budget import json_bound, json_values, protobuf_values
from a2a_bridge.codec.meter import ALLOWANCE, LengthyError, briefly
from a2a_bridge.core.errors import A2AError, Blame, Reason

T = TypeVar("T")

SMALL = 16 * 1024
"""Largest document, in octets, that is decoded on the loop without a count; it holds at most half as many
values.
"""
LARGE = 1024 * 1024
"""Documents above this size, in octets, are decoded in a thread regardless of their values."""
THREADS = 2

_threads = ThreadPoolExecutor(THREADS, "a2a-bridge-codec")


_COLLECTED = 100_000
"""Objects that are made between two collections, while large documents are in work."""
_QUIET = 1.0
"""Seconds after the last large document until the collector runs as usual: its values live longer than their
decoding.
"""


class _RareCollections:
    """A higher threshold of Python's collector, while large documents are in work.

    The collector itself asks whether the time is over: a timer would be lost with its event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents = 0
        self._until = 0.0
        self._usual: tuple[int, int, int] | None = None
        self._registered = False

    def begin(self) -> None:
        """A document begins."""
        with self._lock:
            self._documents += 1
            usual = gc.get_threshold()
            if 0 < usual[0] < _COLLECTED:  # 0: the application has switched the collector off
                if not self._registered:
                    self._registered = True
                    gc.callbacks.append(
                        self._on_collection
                    )  # never removed: other callbacks may run meanwhile
                self._usual = usual
                gc.set_threshold(_COLLECTED, *usual[1:])

    def end(self) -> None:
        """A document has ended."""
        with self._lock:
            self._documents -= 1
            self._until = monotonic() + _QUIET

    def _on_collection(self, _phase: str, _info: dict[str, int]) -> None:
        if self._usual is None or self._documents or monotonic() < self._until:
            return
        # Never waits for the lock: the collector may run in the thread that holds it.
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._usual is not None and not self._documents:
                if gc.get_threshold()[0] == _COLLECTED:  # else the application has changed it meanwhile
                    gc.set_threshold(*self._usual)
                self._usual = None
        finally:
            self._lock.release()


_rare_collections = _RareCollections()


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a long-running function in a thread."""
    _rare_collections.begin()
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, function, *arguments)
    finally:
        _rare_collections.end()


async def admitted(body: bytes, most: int, cls: type[Message] | None = None) -> bool:
    """Whether a document is decoded in a thread. cls: the message in protobuf bytes; None for JSON.

    most: largest number of values; 0: no limit. Raises REQUEST_TOO_LARGE.
    """
    if len(body) <= SMALL:
        return False
    count = json_values if cls is None else _counter(cls)
    if len(body) <= LARGE:
        bound = json_bound(body) if cls is None else count(body, ALLOWANCE)
        if bound <= ALLOWANCE and (not most or bound <= most):
            return False
    if most and await in_thread(count, body, most) > most:
        raise too_many_values(most)
    return True


async def admitted_answer(body: bytes, most: int, cls: type[Message] | None = None) -> bool:
    """As `admitted`, for the response of an agent. Raises INVALID_AGENT_RESPONSE."""
    try:
        return await admitted(body, most, cls)
    except A2AError:
        text = f"the agent's answer holds more than {most} values"
        error = A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        error.metadata["maxValues"] = str(most)
        raise error from None


async def run(write: Callable[..., T], *arguments: Any) -> T:
    """Encodes on the loop, or in a thread for a long message. `write` may be started twice."""
    try:
        return briefly(write, *arguments)
    except LengthyError:
        return await in_thread(write, *arguments)


async def written_apart(write: Callable[[Any], T], message: Message) -> T:
    """Encodes a long message in a thread, from a copy, because the message may change meanwhile."""
    copy = type(message)()
    copy.CopyFrom(message)
    return await in_thread(write, copy)


def too_many_values(most: int) -> A2AError:
    """REQUEST_TOO_LARGE with the limit on values."""
    text = f"the request holds more than {most} values"
    return A2AError(Reason.REQUEST_TOO_LARGE, text, metadata={"maxValues": str(most)})


def _counter(cls: type[Message]) -> Callable[[bytes, int], int]:
    return lambda body, most: protobuf_values(cls, body, most)
