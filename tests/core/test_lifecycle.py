"""The task state machine: the table, and the effect of events on a task."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.lifecycle import (
    TRANSITIONS,
    IllegalTransitionError,
    add_artifact,
    advance,
    advance_to,
    check_transition,
    join,
)
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

STATES = list(hub.TaskState.values())

#: the life cycle of a task in the project's starting document; `unknown` is unspecified in 1.0
DIAGRAM = """
[*] --> submitted
submitted --> working
submitted --> rejected
submitted --> auth_required
working --> completed
working --> failed
working --> input_required
working --> canceled
input_required --> working
input_required --> canceled
auth_required --> working
auth_required --> rejected
completed --> [*]
failed --> [*]
canceled --> [*]
rejected --> [*]
unknown --> working
unknown --> failed
"""


def arrows() -> list[tuple[str, str]]:
    return re.findall(r"(\S+) --> (\S+)", DIAGRAM)


def state(name: str) -> hub.TaskState:
    if name in ("unknown", "[*]"):
        return hub.TASK_STATE_UNSPECIFIED
    return hub.TaskState.Value(f"TASK_STATE_{name.upper()}")


@each(("before", "after"), [arrow for arrow in arrows() if arrow[1] != "[*]"])
def test_transitions_in_the_diagram_are_allowed(before: str, after: str) -> None:
    check_transition(state(before), state(after))


@pytest.mark.parametrize("last", [before for before, after in arrows() if after == "[*]"])
def test_end_states_in_the_diagram_are_final(last: str) -> None:
    assert TRANSITIONS[state(last)] == frozenset()


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(STATES)
    assert TERMINAL | INTERRUPTED | RUNNING | {hub.TASK_STATE_UNSPECIFIED} == set(STATES)
    assert not (TERMINAL & INTERRUPTED)
    assert not (TERMINAL & RUNNING)
    assert not (INTERRUPTED & RUNNING)


def test_the_rule_behind_the_table() -> None:
    beginnings = {hub.TASK_STATE_UNSPECIFIED, hub.TASK_STATE_SUBMITTED}
    for before in STATES:
        for after in STATES:
            allowed = (
                before not in TERMINAL
                and after != hub.TASK_STATE_UNSPECIFIED
                and (after != hub.TASK_STATE_SUBMITTED or before in beginnings)
            )
            assert (after in TRANSITIONS[before]) is allowed, (before, after)


@given(st.lists(st.sampled_from(STATES), max_size=12))
def test_nothing_leaves_a_terminal_state_or_returns_to_the_beginning(path: list[hub.TaskState]) -> None:
    task = hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED))
    for wanted in path:
        before = task.SerializeToString(deterministic=True)
        ended = task.status.state in TERMINAL
        began = task.status.state == hub.TASK_STATE_SUBMITTED
        try:
            advance(task, update(wanted))
        except IllegalTransitionError:
            assert task.SerializeToString(deterministic=True) == before
        else:
            assert not ended
            assert task.status.state == wanted
            assert began or wanted != hub.TASK_STATE_SUBMITTED


def test_an_illegal_step_names_both_states_and_nothing_else() -> None:
    with pytest.raises(IllegalTransitionError, match="COMPLETED to WORKING"):
        check_transition(hub.TASK_STATE_COMPLETED, hub.TASK_STATE_WORKING)
    with pytest.raises(IllegalTransitionError, match="99"):
        check_transition(99, hub.TASK_STATE_WORKING)


def update(wanted: hub.TaskState, text: str = "", **members: object) -> hub.TaskStatusUpdateEvent:
    event = hub.TaskStatusUpdateEvent(status=hub.TaskStatus(state=wanted), **members)
    if text:
        event.status.message.CopyFrom(said(text))
    return event


def said(text: str) -> hub.Message:
    return hub.Message(message_id=f"m-{text}", role=hub.ROLE_AGENT, parts=[hub.Part(text=text)])


def working(**members: object) -> hub.Task:
    return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING), **members)


def history(task: hub.Task) -> list[str]:
    return [one.message_id for one in task.history]


def test_a_replaced_status_message_moves_to_the_history() -> None:
    task = working()
    for text in ("a", "b", ""):
        advance(task, update(hub.TASK_STATE_WORKING, text))
    assert history(task) == ["m-a", "m-b"]
    assert not task.status.HasField("message")


def test_metadata_of_a_status_is_merged() -> None:
    task = working(metadata={"a": 1, "b": 1})
    advance(task, update(hub.TASK_STATE_COMPLETED, metadata={"b": 2, "c": 3}))
    assert dict(task.metadata) == {"a": 1, "b": 2, "c": 3}


def piece(
    text: str, artifact_id: str = "a", *, append: bool = False, **members: object
) -> hub.TaskArtifactUpdateEvent:
    artifact = hub.Artifact(artifact_id=artifact_id, parts=[hub.Part(text=text)], **members)
    return hub.TaskArtifactUpdateEvent(artifact=artifact, append=append)


def texts(task: hub.Task) -> dict[str, list[str]]:
    return {one.artifact_id: [part.text for part in one.parts] for one in task.artifacts}


def test_artifacts_are_added_replaced_and_extended() -> None:
    task = working()
    for event in (piece("1"), piece("2", append=True), piece("x", "b"), piece("3", append=True)):
        advance(task, event)
    assert texts(task) == {"a": ["1", "2", "3"], "b": ["x"]}
    advance(task, piece("new"))
    assert texts(task) == {"a": ["new"], "b": ["x"]}


def test_appending_to_an_unknown_artifact_begins_it() -> None:
    task = working()
    advance(task, piece("1", append=True))
    assert texts(task) == {"a": ["1"]}


def test_a_piece_may_add_to_the_rest_of_an_artifact() -> None:
    task = working()
    first = {"name": "N", "description": "D", "metadata": {"a": 1}, "extensions": ["x"]}
    advance(task, piece("1", **first))
    advance(task, piece("2", append=True, metadata={"b": 2}, extensions=["x", "y"]))
    advance(task, piece("3", append=True, name="M"))
    (artifact,) = task.artifacts
    assert (artifact.name, artifact.description) == ("M", "D")
    assert (dict(artifact.metadata), list(artifact.extensions)) == ({"a": 1, "b": 2}, ["x", "y"])


@pytest.mark.parametrize("ended", sorted(TERMINAL))
def test_a_task_that_has_ended_takes_nothing_more(ended: hub.TaskState) -> None:
    task = hub.Task(id="t", status=hub.TaskStatus(state=ended))
    before = task.SerializeToString()
    with pytest.raises(IllegalTransitionError):
        advance(task, piece("1"))
    with pytest.raises(IllegalTransitionError):
        advance_to(task, hub.Task(id="t", status=hub.TaskStatus(state=ended)))
    with pytest.raises(IllegalTransitionError):
        join(task, said("x"))
    assert task.SerializeToString() == before
    add_artifact(task, piece("1"))
    assert texts(task) == {"a": ["1"]}


def test_a_snapshot_adds_and_removes_nothing() -> None:
    task = working(history=[said("1")], metadata={"a": 1})
    advance(task, piece("old"))
    advance(task, update(hub.TASK_STATE_WORKING, "2"))
    snapshot = working(history=[said("1"), said("3")], metadata={"b": 2})
    snapshot.artifacts.add(artifact_id="b").parts.add(text="new")
    snapshot.status.state = hub.TASK_STATE_INPUT_REQUIRED
    advance_to(task, snapshot)
    assert task.status.state == hub.TASK_STATE_INPUT_REQUIRED
    assert (history(task), texts(task)) == (["m-1", "m-2", "m-3"], {"a": ["old"], "b": ["new"]})
    assert dict(task.metadata) == {"a": 1, "b": 2}


def test_a_snapshot_with_the_same_status_changes_nothing() -> None:
    task = working()
    advance(task, update(hub.TASK_STATE_WORKING, "1"))
    same = hub.Task()
    same.CopyFrom(task)
    advance_to(task, same)
    assert task == same


def test_a_message_joins_after_the_message_that_it_answers() -> None:
    task = working(history=[said("1")])
    advance(task, update(hub.TASK_STATE_INPUT_REQUIRED, "which?"))
    message = hub.Message(message_id="m-2", role=hub.ROLE_USER)
    join(task, message)
    assert history(task) == ["m-1", "m-which?", "m-2"]
    assert (task.history[2].task_id, task.history[2].context_id) == ("t", "c")
    assert (message.task_id, task.status.state) == ("", hub.TASK_STATE_INPUT_REQUIRED)
    assert not task.status.HasField("message")


def test_a_snapshot_hands_on_every_member_of_a_task() -> None:
    """A member that a later version adds is not lost because no code names it."""
    task = hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    snapshot = hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED), generation=7)
    snapshot.metadata["k"] = "v"
    snapshot.artifacts.add(artifact_id="a").parts.add(text="x")
    snapshot.history.add(message_id="m")
    advance_to(task, snapshot)
    assert {field.name for field, _ in task.ListFields()} == {
        field.name for field, _ in snapshot.ListFields()
    }
    assert task == snapshot
