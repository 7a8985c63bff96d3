"""What all transports do with the rows of a call: requests and responses with the content beside them, lists
of tasks without those that cannot be read (see dialects.responses), and large responses.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.bindings.memory import in_work
from a2a_bridge.bindings.offload import response_needs_worker, run_in_worker
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    SIDE_CHANNEL,
    Call,
    CallContext,
    ResponseParameters,
    left_out,
    relayable,
    with_side_channel,
)
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import Row
from a2a_bridge.dialects.responses import decode_list, encode_list, is_list
from a2a_bridge.dialects.signed_extras import open_side_channel
from a2a_bridge.pb import lf_a2a_v1 as hub

T = TypeVar("T")

_log = logging.getLogger("a2a_bridge.lists")


def read_request(row: Row[Any, Any], wire: Any) -> tuple[Any, Mapping[str, str] | None]:
    """The request on the wire, and the content beside its message."""
    return row.decode_request(wire), None if row.extras.request is None else row.extras.request.extract(wire)


def write_response(
    row: Row[Any, Any], reply: ResponseParameters, answer: Any, finish: Callable[..., bytes], *given: Any
) -> bytes:
    """A response, with the content beside its message if the row has a place for that. finish: makes the
    bytes of the wire shape, its last argument; the arguments before it are `given`.
    """
    wire = _list(row, answer, reply) if row.operation is ops.LIST_TASKS else row.encode_response(answer)
    if row.extras.response is not None:
        wire = row.extras.response.restore(wire, with_side_channel(reply, reply.side_channel))
    return finish(*given, wire)


def add_tenant(request: Any, tenant: str) -> Any:
    """The request with the tenant of an interface, if it has none (spec 4.4.6)."""
    if request.tenant:
        return request
    copy = type(request)()
    copy.CopyFrom(request)
    copy.tenant = tenant
    return copy


async def read_large(
    data: bytes,
    most: int,
    reply: ResponseParameters,
    read: Callable[..., T],
    *arguments: Any,
    cls: type[Message] | None = None,
) -> T:
    """Runs `read`, which parses `data`, without blocking the loop for long. cls: of a message; None for JSON.
    reply: notes whether the response is large. Raises INVALID_AGENT_RESPONSE for more than `most` values.
    """
    in_work.add(len(data))
    try:
        if await response_needs_worker(data, most, cls):
            reply.large = True
            return await run_in_worker(read, *arguments)
        return read(*arguments)
    finally:
        in_work.add(-len(data))


def remaining_time(context: CallContext, default: float | None) -> float | None:
    """Seconds until the deadline; `default` without one. Raises DEADLINE_EXCEEDED if it has passed."""
    if context.deadline is None:
        return default
    left = context.deadline - time.monotonic()
    if left <= 0:
        raise A2AError(Reason.DEADLINE_EXCEEDED)
    return left


def take_parameters(call: Call[Any, Any], found: dict[str, str], log: logging.Logger) -> None:
    """Adds the parameters of a response to `reply`, without those that other bindings cannot carry."""
    found, lossy = relayable(found)
    for name in lossy:
        log.warning("the agent's parameter %s is no printable ASCII; it is not passed on whole", name)
    if (given := found.pop(SIDE_CHANNEL, None)) and (text := open_side_channel(given, call.request)):
        call.context.reply.side_channel = text
    call.context.reply.update(found)


def _list(row: Row[Any, Any], answer: Any, reply: dict[str, str]) -> Any:
    """A list on the wire. Notes in `reply` how many tasks were left out."""
    if not is_list(row):
        return row.encode_response(answer)
    wire, omitted = encode_list(row, answer)
    if omitted:
        _log.warning(
            "left out of a list, because they cannot be encoded: tasks %s", ", ".join(omitted)[:1000]
        )
        left_out(reply, len(omitted))
    return wire


def partly(row: Row[Any, Any], wire: Any, error: A2AError) -> tuple[hub.ListTasksResponse, int] | None:
    """The readable part of a list that was rejected with `error`, and the number of tasks left out; None for
    a response that is no list, or whose rest is unreadable, too.
    """
    if error.reason is not Reason.INVALID_AGENT_RESPONSE or not is_list(row):
        return None
    try:
        return decode_list(row, wire)
    except A2AError:
        return None


def without(
    found: tuple[hub.ListTasksResponse, int], error: A2AError, reply: dict[str, str]
) -> hub.ListTasksResponse:
    """A partly readable list, with a note of the missing tasks in `reply`."""
    response, omitted = found
    _log.warning(
        "left out of an agent's list, because they cannot be decoded: %d tasks; %s", omitted, error.message
    )
    left_out(reply, omitted)
    return response
