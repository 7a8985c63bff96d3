"""Lists of tasks without those that cannot be encoded or decoded. For every transport; see
dialects.listing.
"""

from __future__ import annotations

import logging
from typing import Any

from a2a_bridge.core.call import left_out
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import Row
from a2a_bridge.dialects.listing import decode_list, encode_list, is_list
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.lists")


def encoded(row: Row[Any, Any], answer: Any, reply: dict[str, str]) -> Any:
    """An answer on the wire. Notes in `reply` how many tasks of a list were left out."""
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
    """The readable part of a list that was refused with `error`, and the number of tasks left out; None for
    an answer that is no list, or whose rest is unreadable, too.
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
