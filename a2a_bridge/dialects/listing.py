"""Lists of tasks with a task that cannot be encoded or decoded: that task is left out and the others are
delivered. Version-independent.

JSON has no NaN, and receivers reject free JSON that is nested too deeply. Requests with such content are
rejected, but stores and agents may still hold it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from a2a_bridge.codec.depth import may_be_deep, too_deep
from a2a_bridge.codec.wire import read_varint
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.pb import lf_a2a_v1 as hub

_TASKS = hub.ListTasksResponse.DESCRIPTOR.fields_by_name["tasks"].number << 3 | 2


def is_list(row: Row[Any, Any]) -> bool:
    """Whether a row answers with a list of tasks."""
    return row.operation is ops.LIST_TASKS


def encode_list(row: Row[Any, Any], response: hub.ListTasksResponse) -> tuple[Any, list[str]]:
    """A list on the wire, and the ids of the tasks that were left out.

    Raises INVALID_AGENT_RESPONSE if the cause is not in a task.
    """
    try:
        return _encode(row, response), []
    except A2AError as error:
        if error.reason is not Reason.INVALID_AGENT_RESPONSE:
            raise
    rest = hub.ListTasksResponse()
    rest.CopyFrom(response)
    rest.ClearField("tasks")
    left_out = []
    for task in response.tasks:
        try:
            _encode(row, hub.ListTasksResponse(tasks=[task]))
        except A2AError:
            left_out.append(task.id)
        else:
            rest.tasks.append(task)
    rest.page_size = len(rest.tasks)
    return _encode(row, rest), left_out


def decode_list(row: Row[Any, Any], wire: Any) -> tuple[hub.ListTasksResponse, int]:
    """A list from the wire, and the number of tasks left out because they cannot be decoded.

    For a response that `row.decode_response` has rejected. Raises the same errors if the cause is not in a
    task.
    """
    rows, rest = _split(wire)
    response: hub.ListTasksResponse = row.decode_response(rest)
    left_out = 0
    for one in rows:
        try:
            response.tasks.extend(row.decode_response(one).tasks)
        except A2AError as error:
            if error.reason is not Reason.INVALID_AGENT_RESPONSE:
                raise
            left_out += 1
    response.page_size = len(response.tasks)
    if type(wire) is list:  # a bare array: its length is the only known size
        response.total_size = len(wire)
    return response, left_out


def _encode(row: Row[Any, Any], response: hub.ListTasksResponse) -> Any:
    wire = row.encode_response(response)
    if type(wire) is bytes and may_be_deep(wire) and too_deep(response):
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "a task is nested too deeply", blame=Blame.PEER)
    return wire


def _split(wire: Any) -> tuple[Iterator[Any], Any]:
    """The tasks of a list, each as a list with one task, and the list without tasks."""
    if type(wire) is bytes:
        rows, rest = _fields(wire)
        return iter(rows), rest
    if type(wire) is list:
        return ([one] for one in wire), []
    tasks = wire.get("tasks") if type(wire) is dict else None
    if type(tasks) is not list:
        return iter(()), wire
    return ({"tasks": [one]} for one in tasks), {**wire, "tasks": []}


def _fields(wire: bytes) -> tuple[list[bytes], bytes]:
    """The fields of a message that hold tasks, and all the others."""
    rows, rest, at = [], b"", 0
    while at < len(wire):
        begun = at
        tag, at = read_varint(wire, at, len(wire))
        match tag & 7:
            case 0:
                _, at = read_varint(wire, at, len(wire))
            case 1:
                at += 8
            case 2:
                size, at = read_varint(wire, at, len(wire))
                at += size
            case 5:
                at += 4
            case _:
                return [], wire  # not decodable: the decoder reports the error
        if tag == _TASKS:
            rows.append(wire[begun:at])
        else:
            rest += wire[begun:at]
    return rows, rest
