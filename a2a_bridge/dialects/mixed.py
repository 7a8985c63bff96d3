"""Answers in another version than the agent declares: the rows that may read them, and mixed names. Pure.

LangGraph's server (langgraph-api 0.16) takes the methods of 1.0 and answers streams with events in the
shape of 0.3 (`kind`, not wrapped), in which states and roles have the names of 1.0.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.codec import Json
from a2a_bridge.core.operations import Operation
from a2a_bridge.dialects import KNOWN, BindingKind, Dialect, Row

_KINDS = ("task", "message", "status-update", "artifact-update")
_WRAPPERS = frozenset({"task", "message", "statusUpdate", "artifactUpdate"})
_STATE, _ROLE = "TASK_STATE_", "ROLE_"
#: members with user content
_FREE = frozenset({"metadata", "data"})


def other_rows(
    claimed: Dialect, kind: BindingKind[Any, Any], operation: Operation[Any, Any], wire: Json
) -> list[Row[Any, Any]]:
    """The rows of other known versions, newest first, that may read a response of this shape.

    None for a response that has neither shape, or the declared one: the declared version reports the error.
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
    """A copy of a tree in which the 1.0 names of states and roles are replaced by those of 0.x. Iterative."""
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
