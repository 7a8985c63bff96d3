"""What a snapshot has told is known again when the stream tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from a2a_bridge.core.lifecycle import advance
from a2a_bridge.gateway.differences import missed
from a2a_bridge.gateway.overlap import Overlap
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.resume.scripted import CONTEXT, TASK, begun, chunk

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKING, AUTH = hub.TASK_STATE_WORKING, hub.TASK_STATE_AUTH_REQUIRED


def became(state: Any, seconds: float | None = None, message: str = "") -> hub.StreamResponse:
    status = hub.TaskStatus(state=state)
    if seconds is not None:
        status.timestamp.FromDatetime(START + timedelta(seconds=seconds))
    if message:
        status.message.CopyFrom(hub.Message(message_id=message, role=hub.ROLE_AGENT))
    update = hub.TaskStatusUpdateEvent(task_id=TASK, context_id=CONTEXT, status=status)
    return hub.StreamResponse(status_update=update)


def after(*events: hub.StreamResponse) -> hub.Task:
    task = hub.Task()
    task.CopyFrom(begun().task)
    for event in events:
        advance(task, getattr(event, event.WhichOneof("payload") or ""))
    return task


def told(known: list[hub.StreamResponse], lost: list[hub.StreamResponse]) -> tuple[Overlap, hub.Task]:
    """What is there when a stream broke after some events and was taken up after some more."""
    before, now = after(*known), after(*known, *lost)
    return Overlap(missed(before, now), now), now


def is_told(overlap: Overlap, event: hub.StreamResponse, now: hub.Task) -> bool:
    return overlap.may_tell(event) and overlap.tells(event, now)


@pytest.mark.parametrize(
    "lost",
    [
        [chunk("b"), became(WORKING, 2), chunk("c")],
        [became(WORKING, 2), chunk("b"), became(WORKING, 3), chunk("c")],
        [became(WORKING, 2, "m2"), chunk("b"), became(WORKING, 3, "m3"), chunk("b")],
        [became(WORKING, 2), became(AUTH, 3, "m3")],
    ],
)
def test_all_that_was_lost_is_known_again_from_each_event_on(lost: list[hub.StreamResponse]) -> None:
    for start in range(len(lost)):
        overlap, now = told([became(WORKING, 1), chunk("a")], lost)
        assert all(is_told(overlap, event, now) for event in lost[start:])


def test_what_was_told_once_is_known_again_once() -> None:
    overlap, now = told([], [became(WORKING)])
    assert is_told(overlap, became(WORKING), now)
    assert not overlap.may_tell(became(WORKING))
    overlap, now = told([], [became(WORKING, 1, "m1")])
    marked = became(WORKING, 1, "m1")
    marked.status_update.metadata["progress"] = 2
    assert not overlap.may_tell(marked)
    assert is_told(overlap, became(WORKING, 1, "m1"), now)
    assert not overlap.may_tell(became(WORKING, 1, "m1"))


def test_what_comes_after_the_snapshot_is_new() -> None:
    known, lost = [became(WORKING, 1), chunk("a")], [chunk("b"), became(WORKING, 3, "m3")]
    for new in (
        became(WORKING, 4),
        became(AUTH, 4, "m3"),
        became(WORKING, None),
        became(hub.TASK_STATE_COMPLETED, 2),  # an end is never dropped, whatever the clocks say
        chunk("c"),
        begun(),
    ):
        overlap, _ = told(known, lost)
        assert not overlap.may_tell(new), new


def test_a_piece_that_stands_behind_the_snapshot_is_new() -> None:
    overlap, now = told([chunk("a")], [chunk("b")])
    assert overlap.may_tell(chunk("b"))
    assert not overlap.tells(chunk("b"), after(chunk("a"), chunk("b"), chunk("b")))
    assert not overlap.tells(chunk("b"), None)
    assert overlap.tells(chunk("b"), now)
    assert not overlap.may_tell(chunk("b")), "the snapshot told one"


def test_an_artifact_that_is_told_whole() -> None:
    first = chunk("a")
    first.artifact_update.append = False
    overlap, now = told([], [first, chunk("b")])
    assert is_told(overlap, first, now)
    assert not overlap.may_tell(first)
    assert is_told(overlap, chunk("b"), now)
    assert not overlap.may_tell(chunk("b"))
