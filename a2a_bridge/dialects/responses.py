"""Responses that a row alone does not read or write. Version-independent, and pure.

Rules:
1. In a list of tasks a task that cannot be encoded or decoded is left out, and the others are delivered. JSON
   has no NaN, and receivers reject free JSON that is nested too deeply. Requests with such content are
   rejected, but stores and agents may still hold it.
2. An agent may answer in another version than it declares: LangGraph's server (langgraph-api 0.16) takes the
   methods of 1.0 and answers streams with events in the shape of 0.3 (`kind`, not wrapped), in which states
   and roles have the names of 1.0.
"""

from collections.abc import Iterator
from typing import Any

from a2a_bridge.codec import Json
from a2a_bridge.codec.free_json import may_be_deep, too_deep
from a2a_bridge.codec.values import read_varint
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import Operation
from a2a_bridge.dialects import KNOWN, BindingKind, Dialect, Row
from a2a_bridge.pb import lf_a2a_v1 as hub

_TASKS = hub.ListTasksResponse.DESCRIPTOR.fields_by_name["tasks"].number << 3 | 2


def is_list(row: Row[Any, Any]) -> bool:
    """Whether a row answers with a list of tasks."""
    return row.operation is ops.LIST_TASKS


def encode_list(row: Row[Any, Any], response: hub.ListTasksResponse) -> tuple[Any, list[str]]:
    """A list on the wire, and the ids of the tasks that were left out because they cannot be encoded. Raises
    INVALID_AGENT_RESPONSE if the cause is not in a task.
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
    """A list that `row.decode_response` has rejected, and the number of tasks left out because they cannot be
    decoded. Raises the same errors if the cause is not in a task.
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


_KINDS = ("task", "message", "status-update", "artifact-update")
_WRAPPERS = frozenset({"task", "message", "statusUpdate", "artifactUpdate"})
_STATE, _ROLE = "TASK_STATE_", "ROLE_"
#: members with user content
_FREE = frozenset({"metadata", "data"})


def other_rows(
    claimed: Dialect, kind: BindingKind[Any, Any], operation: Operation[Any, Any], wire: Json
) -> list[Row[Any, Any]]:
    """The rows of other known versions, newest first, that may read a response of this shape. Empty for a
    response of the declared shape, or of neither shape: the declared version reports the error.
    """
    older = _is_older(wire)
    if older is None or older is not claimed.declares:
        return []
    forms = [one.form(kind) for one in KNOWN if one is not claimed and one.declares is not older]
    return [row for form in forms if form is not None and (row := form.row(operation)) is not None]


def _is_older(wire: Json) -> bool | None:
    """Whether a response has the shape of 0.x over JSON-RPC (True) or of 1.0 (False); None for neither."""
    if not isinstance(wire, dict):
        return None
    if wire.get("kind") in _KINDS:
        return True
    status = wire.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    wrapped = len(wire) == 1 and not _WRAPPERS.isdisjoint(wire)
    return False if wrapped or (isinstance(state, str) and state.startswith(_STATE)) else None


def with_older_names(wire: Json) -> Json:
    """A copy of a tree with the names of 0.x for the 1.0 names of states and roles. Iterative."""
    top: list[Any] = [wire]
    rest: list[Any] = [top]
    while rest:
        place = rest.pop()
        for key, value in place.items() if isinstance(place, dict) else enumerate(place):
            if key in _FREE:
                continue
            if isinstance(value, dict | list):
                place[key] = value.copy()
                rest.append(place[key])
            elif key == "state" and isinstance(value, str) and value.startswith(_STATE):
                place[key] = value.removeprefix(_STATE).lower().replace("_", "-")
            elif key == "role" and isinstance(value, str) and value.startswith(_ROLE):
                place[key] = value.removeprefix(_ROLE).lower()
    made: Json = top[0]
    return made
