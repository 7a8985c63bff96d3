"""Decodes and encodes large documents in threads, so that the event loop is not blocked. For bindings.

Rules:
1. Small documents stay on the loop: SMALL bytes cannot hold enough values to block it.
2. Values are counted before decoding (codec.budget), and too many are rejected. Encoding counts on the way
   (codec.budget).
3. All servers and clients of the process share a few threads. More would not be faster: Python runs one at a
   time, and the loop would wait longer.
4. `CallContext.large` and `ResponseParameters.large` say that a message was decoded in a thread. Later
   passes through this message are made in a thread, too, without a first attempt on the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec.budget import (
    ALLOWANCE,
    METER,
    LengthyError,
    json_bound,
    json_values,
    protobuf_values,
    within_budget,
)
from a2a_bridge.core.errors import A2AError, Blame, Reason

T = TypeVar("T")

SMALL = 16 * 1024
"""Largest document, in bytes, that is decoded on the loop without a count; it holds at most half as many
values.
"""
LARGE = 1024 * 1024
"""Documents above this size, in bytes, are decoded in a thread regardless of their values."""
MUCH = 256 * 1024
"""Size in bytes from which stores parse in a thread, and serialize tasks there that no longer change."""
THREADS = 2

_threads = ThreadPoolExecutor(THREADS, "a2a-bridge-codec")


async def run_in_worker(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a long-running function in a thread."""
    return await start_in_worker(function, *arguments)


def start_in_worker(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """As `run_in_worker`, for callers that do not wait."""
    return asyncio.get_running_loop().run_in_executor(_threads, function, *arguments)


async def needs_worker(body: bytes, most: int, cls: type[Message] | None = None) -> bool:
    """Whether a document is decoded in a thread. cls: the message in protobuf bytes; None for JSON. most:
    largest number of values; 0: no limit. Raises REQUEST_TOO_LARGE.
    """
    if len(body) <= SMALL:
        return False
    count = json_values if cls is None else partial(protobuf_values, cls)
    if len(body) <= LARGE:
        bound = json_bound(body) if cls is None else count(body, ALLOWANCE)
        if bound <= ALLOWANCE and (not most or bound <= most):
            return False
    if most and await run_in_worker(count, body, most) > most:
        raise too_many_values(most)
    return True


async def response_needs_worker(body: bytes, most: int, cls: type[Message] | None = None) -> bool:
    """As `needs_worker`, for the response of an agent. Raises INVALID_AGENT_RESPONSE."""
    try:
        return await needs_worker(body, most, cls)
    except A2AError:
        text = f"the agent's answer holds more than {most} values"
        error = A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        error.metadata["maxValues"] = str(most)
        raise error from None


async def run(write: Callable[..., T], *arguments: Any, large: bool) -> T:
    """Encodes on the loop, or in a worker for a long message. `write` may be started twice. large: whether
    the message is known to be long.
    """
    if large:
        return await run_in_worker(write, *arguments)
    try:
        return within_budget(write, *arguments)
    except LengthyError:
        return await run_in_worker(write, *arguments)


def encode(write: Callable[..., bytes], *arguments: Any, large: bool = False) -> bytes | Awaitable[bytes]:
    """The encoded message, or for a long one an awaitable of it. `write` may be started twice. large: whether
    the message is known to be large. Nobody changes the message meanwhile: see `core.service`.
    """
    if large:
        return run_in_worker(write, *arguments)
    METER.left = ALLOWANCE  # as `within_budget`, without another call for each event
    try:
        return write(*arguments)
    except LengthyError:
        return run_in_worker(write, *arguments)
    finally:
        METER.left = inf


def too_many_values(most: int) -> A2AError:
    """REQUEST_TOO_LARGE with the limit on values."""
    text = f"the request holds more than {most} values"
    return A2AError(Reason.REQUEST_TOO_LARGE, text, metadata={"maxValues": str(most)})
