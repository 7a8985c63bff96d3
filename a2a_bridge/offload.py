"""Reading and writing of large documents in threads, so that the event loop is never held for long. For bindings.

Rules:
1. Small documents stay on the loop and pay nothing: a document of SMALL octets cannot hold enough to matter.
2. What is read is counted before (codec.budget) and refused when it holds too many values. What is written is counted
   on the way (codec.meter).
3. The threads are few and shared by all servers and clients of the process. More of them would not be faster, because
   Python runs one at a time, and the loop would wait longer for its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec.budget import json_bound, json_values, protobuf_values
from a2a_bridge.codec.meter import ALLOWANCE, LengthyError, briefly
from a2a_bridge.core.errors import A2AError, Blame, Reason

T = TypeVar("T")

SMALL = 16 * 1024
"""Octets of a document that is read on the loop unseen. It holds at most half as many values."""
LARGE = 1024 * 1024
"""Octets of a document that is read in a thread, however few values it holds."""
THREADS = 2

_threads = ThreadPoolExecutor(THREADS, "a2a-bridge-codec")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns that may take long. Raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *arguments)


async def admitted(body: bytes, most: int, cls: type[Message] | None = None) -> bool:
    """Whether a document belongs in a thread. cls: the message in protobuf bytes; None for JSON.

    most: values that it may hold; 0 for no limit. Raises REQUEST_TOO_LARGE.
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
    """As `admitted`, for what an agent answers. Raises INVALID_AGENT_RESPONSE."""
    try:
        return await admitted(body, most, cls)
    except A2AError:
        text = f"the agent's answer holds more than {most} values"
        error = A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        error.metadata["maxValues"] = str(most)
        raise error from None


async def run(write: Callable[..., T], *arguments: Any) -> T:
    """What `write` returns: at once, or from a thread when it meets a message that is long. It may begin twice."""
    try:
        return briefly(write, *arguments)
    except LengthyError:
        return await in_thread(write, *arguments)


async def written_apart(write: Callable[[Any], T], message: Message) -> T:
    """What `write` makes of a long message in a thread. It gets a copy, because others may change the message."""
    copy = type(message)()
    copy.CopyFrom(message)
    return await in_thread(write, copy)


def too_many_values(most: int) -> A2AError:
    """REQUEST_TOO_LARGE that says how many values a request may hold."""
    text = f"the request holds more than {most} values"
    return A2AError(Reason.REQUEST_TOO_LARGE, text, metadata={"maxValues": str(most)})


def _counter(cls: type[Message]) -> Callable[[bytes, int], int]:
    return lambda body, most: protobuf_values(cls, body, most)
