"""What the bridge writes into metadata of its own accord, so that others can tell. Not unmapped content: see
there.

Rules:
1. `final` is a member of status events in 0.x only, and follows from the state nearly always. Where it does
   not, FINAL stands in the event's metadata in the hub and says what it was. It never reaches a 0.x wire,
   which has the member itself.
2. SYNTHESISED stands in what the bridge made up: the closing event a 0.x stream needs, the snapshot a 1.0
   stream begins with, the task that a 1.0 agent did not begin its stream with. It is ordinary metadata on
   every wire, so that a bridge further on can drop what its own caller has no use for, instead of taking it
   for the agent's word.
3. The events of a stream have several readers: a marked event is a new one, never a changed one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.dialects.dialect import JSONRPC, Dialect
from a2a_bridge.pb import a2a_v1
from a2a_bridge.pb import lf_a2a_v1 as hub

#: a bool in the metadata of a TaskStatusUpdateEvent: whether it is final, where the state says otherwise
FINAL = "urn:a2a-bridge:final:1"
#: in the metadata of what the bridge made up: CLOSING, SNAPSHOT or BEGINNING
SYNTHESISED = "urn:a2a-bridge:synthesised:1"
CLOSING = "closing"
SNAPSHOT = "snapshot"
#: of a task for callers of every version; a snapshot is dropped again for callers of 0.x
BEGINNING = "beginning"

#: whether a status event ends the stream it is in
Finality = Callable[[hub.TaskStatusUpdateEvent], bool]

_FINAL_STATES = TERMINAL | {hub.TASK_STATE_INPUT_REQUIRED}


def say_final(update: hub.TaskStatusUpdateEvent, final: bool) -> None:
    """Notes in place that an event is final, or is not, although its state says otherwise."""
    update.metadata.fields[FINAL].bool_value = final


def final_said(update: hub.TaskStatusUpdateEvent) -> bool | None:
    """What was noted about an event; None when nothing was, so that its state tells."""
    if not update.HasField("metadata"):
        return None
    fields = update.metadata.fields
    if FINAL not in fields:
        return None
    value = fields[FINAL]
    return value.bool_value if value.WhichOneof("kind") == "bool_value" else None


def without_final(update: hub.TaskStatusUpdateEvent) -> hub.TaskStatusUpdateEvent:
    """The event without that note: a copy when there is one."""
    if not update.HasField("metadata") or FINAL not in update.metadata.fields:
        return update
    copy = hub.TaskStatusUpdateEvent()
    copy.CopyFrom(update)
    del copy.metadata.fields[FINAL]
    if not copy.metadata.fields:
        copy.ClearField("metadata")
    return copy


def synthesise(message: hub.Task | hub.TaskStatusUpdateEvent, what: str) -> None:
    """Marks in place what the bridge made up. what: CLOSING, SNAPSHOT or BEGINNING."""
    message.metadata.fields[SYNTHESISED].string_value = what


def synthesised(message: hub.Task | hub.TaskStatusUpdateEvent) -> str:
    """CLOSING, SNAPSHOT or BEGINNING for what a bridge made up, else empty."""
    if not message.HasField("metadata"):
        return ""
    fields = message.metadata.fields
    return fields[SYNTHESISED].string_value if SYNTHESISED in fields else ""


def by_state(update: hub.TaskStatusUpdateEvent) -> bool:
    """The rule of 0.3, for those who have no spelling of their own."""
    said = final_said(update)
    return update.status.state in _FINAL_STATES if said is None else said


def finality(dialect: Dialect, binding: str = JSONRPC.name) -> Finality:
    """How to tell which status event is final in a dialect: by its note, else as the dialect itself spells
    it.

    binding: of which the spelling is, because versions are not the same in all of theirs.
    """
    states = _final_states(dialect, binding)

    def is_final(update: hub.TaskStatusUpdateEvent) -> bool:
        said = final_said(update)
        return update.status.state in states if said is None else said

    return is_final


def _final_states(dialect: Dialect, binding: str) -> frozenset[int]:
    """The states that a dialect calls final, asked of the dialect: 0.2 has one more than 0.3."""
    form = next((form for kind, form in dialect.forms.items() if kind.name == binding), None)
    row = next((one for one in form.rows if one.streaming), None) if form is not None else None
    found = set()
    for state in hub.TaskState.values() if row is not None and dialect.final_events else ():
        update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c")
        update.status.state = cast("hub.TaskState", state)
        if row is not None and _says_final(row.encode_response(hub.StreamResponse(status_update=update))):
            found.add(state)
    return frozenset(found or _FINAL_STATES)


def _says_final(wire: Any) -> bool:
    if isinstance(wire, bytes):
        return a2a_v1.StreamResponse.FromString(wire).status_update.final
    return wire.get("statusUpdate", wire).get("final") is True
