"""What happened between two looks at a task: adding it to the first gives the second, and chunks come once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.lifecycle import advance
from a2a_bridge.gateway.differences import missed
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Timestamp

RUNNING = (hub.TASK_STATE_WORKING, hub.TASK_STATE_AUTH_REQUIRED, hub.TASK_STATE_INPUT_REQUIRED)
ENDS = (hub.TASK_STATE_COMPLETED, hub.TASK_STATE_FAILED, hub.TASK_STATE_CANCELED)

texts = st.text(st.sampled_from("ab"), max_size=3)
said = st.none() | st.integers(0, 5).map(lambda n: hub.Message(message_id=f"m{n}", role=hub.ROLE_AGENT))


@st.composite
def artifact_updates(draw: Any) -> hub.StreamResponse:
    made = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=draw(st.booleans()))
    made.artifact.artifact_id = draw(st.sampled_from("xyz"))
    made.artifact.name = draw(texts)
    made.artifact.parts.extend(hub.Part(text=text) for text in draw(st.lists(texts, max_size=2)))
    made.artifact.extensions.extend(draw(st.lists(st.sampled_from(["urn:a", "urn:b"]), max_size=2)))
    for name in draw(st.lists(st.sampled_from("pq"), max_size=2)):
        made.artifact.metadata.fields[name].number_value = draw(st.integers(0, 3))
    return hub.StreamResponse(artifact_update=made)


@st.composite
def status_updates(draw: Any, states: tuple[hub.TaskState, ...] = RUNNING) -> hub.StreamResponse:
    made = hub.TaskStatusUpdateEvent(task_id="t", context_id="c")
    made.status.state = draw(st.sampled_from(states))
    message = draw(said)
    if message is not None:
        made.status.message.CopyFrom(message)
    made.status.timestamp.CopyFrom(Timestamp(seconds=draw(st.integers(1, 5))))
    for name in draw(st.lists(st.sampled_from("pq"), max_size=2)):
        made.metadata.fields[name].number_value = draw(st.integers(0, 3))
    return hub.StreamResponse(status_update=made)


histories = st.tuples(
    st.lists(artifact_updates() | status_updates(), max_size=8), st.none() | status_updates(ENDS)
).map(lambda pair: [*pair[0], *([pair[1]] if pair[1] is not None else [])])


def task() -> hub.Task:
    return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED))


def add(made: hub.Task, events: list[hub.StreamResponse]) -> hub.Task:
    copy = hub.Task()
    copy.CopyFrom(made)
    for event in events:
        advance(copy, getattr(event, event.WhichOneof("payload") or ""))
    return copy


@given(histories, st.integers(0, 9))
def test_what_was_missed_makes_up_the_difference(events: list[hub.StreamResponse], place: int) -> None:
    before = add(task(), events[:place])
    now = add(before, events[place:])
    found = missed(before, now)
    made = add(before, found)
    assert made.artifacts == now.artifacts
    if events[place:]:
        assert (made.status.state, made.status.message) == (now.status.state, now.status.message)
    # Nothing is told again, however often one looks.
    assert missed(made, now) == []
    spoken = {message.message_id for message in now.history} | {now.status.message.message_id}
    told = {message.message_id for message in made.history} | {made.status.message.message_id}
    assert told == spoken


@given(st.lists(texts, max_size=5), st.integers(0, 5))
def test_an_artifact_that_grew_is_told_by_what_was_added(parts: list[str], place: int) -> None:
    whole = hub.Task(id="t")
    whole.artifacts.add(artifact_id="x", parts=[hub.Part(text=one) for one in parts])
    begun = hub.Task(id="t")
    begun.artifacts.add(artifact_id="x", parts=[hub.Part(text=one) for one in parts[:place]])
    found = missed(begun, whole)
    assert [part.text for one in found for part in one.artifact_update.artifact.parts] == parts[place:]
    assert all(one.artifact_update.append for one in found)


def test_what_the_caller_said_is_no_event() -> None:
    now = task()
    now.history.add(message_id="u", role=hub.ROLE_USER)
    assert missed(task(), now) == []


def test_a_history_that_was_cut_tells_nothing_new() -> None:
    now = task()
    now.history.add(message_id="a", role=hub.ROLE_AGENT)
    assert missed(task(), now, history=False) == []
    assert len(missed(task(), now)) == 2  # what was said, and the status after it


def test_a_status_that_is_again_what_it_was_is_told_after_what_was_said() -> None:
    """It asked, worked and said something, and asks again, all within one second of the agent's clock."""
    before = task()
    before.status.state = hub.TASK_STATE_AUTH_REQUIRED
    now = hub.Task()
    now.CopyFrom(before)
    now.history.add(message_id="a", role=hub.ROLE_AGENT)
    said, again = missed(before, now)
    assert said.status_update.status.message.message_id == "a"
    assert again.status_update.status == now.status
    assert missed(add(before, [said, again]), now) == []


def test_the_last_piece_of_a_task_that_ended_is_the_last() -> None:
    now = task()
    now.artifacts.add(artifact_id="x", parts=[hub.Part(text="a")])
    assert not missed(task(), now)[0].artifact_update.last_chunk
    now.status.state = hub.TASK_STATE_COMPLETED
    piece, end = missed(task(), now)
    assert piece.artifact_update.last_chunk
    assert end.status_update.status.state == hub.TASK_STATE_COMPLETED
