"""Decodes and encodes large documents in threads, so that the event loop is not blocked. For bindings.

Rules:
1. Small documents stay on the loop: SMALL octets cannot hold enough values to block it.
2. Values are counted before decoding (codec.budget), and too many are refused. Encoding counts on the way
   (codec.meter).
3. All servers and clients of the process share a few threads. More would not be faster: Python runs one at a
   time, and the loop would wait longer.
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
"""Largest document, in octets, that is decoded on the loop without a count; it holds at most half as many
values.
"""
LARGE = 1024 * 1024
"""Documents above this size, in octets, are decoded in a thread regardless of their values."""
THREADS = 2

_threads = ThreadPoolExecutor(THREADS, "a2a-bridge-codec")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a long-running function in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *arguments)


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
