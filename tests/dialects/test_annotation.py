"""The annotations of the bridge in metadata: final events, per version, and generated events."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.dialects import KNOWN, Dialect
from a2a_bridge.dialects.annotation import (
    CLOSING,
    FINAL,
    SNAPSHOT,
    annotate_final,
    finality,
    read_final,
    synthesise,
    synthetic_kind,
    without_final,
)
from a2a_bridge.pb import a2a_v1
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

OLDER = [dialect for dialect in KNOWN if dialect.final_events]
FINAL_STATES = TERMINAL | {hub.TASK_STATE_INPUT_REQUIRED}


def update(state: Any = hub.TASK_STATE_WORKING) -> hub.TaskStatusUpdateEvent:
    return hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))


@each("dialect", KNOWN)
@each("state", hub.TaskState.values())
def test_the_state_decides_whether_an_event_is_final(dialect: Dialect, state: Any) -> None:
    expected = state in FINAL_STATES or (dialect.version == "0.2.5" and state == hub.TASK_STATE_UNSPECIFIED)
    assert finality(dialect)(update(state)) is expected


@each(("dialect", "binding"), [(one, kind.name) for one in OLDER for kind in one.forms])
@each("state", hub.TaskState.values())
def test_final_is_the_value_on_the_wire(dialect: Dialect, binding: str, state: Any) -> None:
    form = next(form for kind, form in dialect.forms.items() if kind.name == binding)
    row = next(row for row in form.rows if row.streaming)
    wire = row.encode_response(hub.StreamResponse(status_update=update(state)))
    if isinstance(wire, bytes):
        final = a2a_v1.StreamResponse.FromString(wire).status_update.final
    else:
        final = wire.get("statusUpdate", wire).get("final", False)
    assert finality(dialect, binding)(update(state)) is final


@each("dialect", OLDER)
@each("said", [True, False])
@each("state", [hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED])
def test_an_explicit_value_has_priority(dialect: Dialect, said: bool, state: Any) -> None:
    event = update(state)
    annotate_final(event, said)
    assert read_final(event) is said
    assert finality(dialect)(event) is said


def test_no_annotation_by_default_and_non_booleans_are_ignored() -> None:
    event = update()
    assert read_final(event) is None
    assert without_final(event) is event
    event.metadata["own"] = 1
    assert read_final(event) is None
    event.metadata[FINAL] = "yes"
    assert read_final(event) is None


@pytest.mark.parametrize("own", [{}, {"own": 1.0}])
def test_the_note_can_be_taken_off(own: dict[str, Any]) -> None:
    event = update()
    event.metadata.update(own)
    before = hub.TaskStatusUpdateEvent()
    before.CopyFrom(event)
    if not own:
        before.ClearField("metadata")
    annotate_final(event, True)
    assert without_final(event) == before
    assert read_final(event) is True  # a copy, since events have several readers


@pytest.mark.parametrize("message", [update(), hub.Task()])
@pytest.mark.parametrize("what", [CLOSING, SNAPSHOT])
def test_generated_events_are_marked(message: Any, what: str) -> None:
    made = type(message)()
    made.CopyFrom(message)
    assert synthetic_kind(made) == ""
    made.metadata["own"] = "x"
    assert synthetic_kind(made) == ""
    synthesise(made, what)
    assert synthetic_kind(made) == what
    assert made.metadata["own"] == "x"


@pytest.mark.parametrize("dialect", OLDER, ids=repr)
def test_the_mark_is_ordinary_metadata_on_every_wire(dialect: Dialect) -> None:
    for form in dialect.forms.values():
        row = next(row for row in form.rows if row.streaming)
        event = update()
        annotate_final(event, True)
        synthesise(event, CLOSING)
        back = row.decode_response(row.encode_response(hub.StreamResponse(status_update=event)))
        assert synthetic_kind(back.status_update) == CLOSING
        assert read_final(back.status_update) is True
