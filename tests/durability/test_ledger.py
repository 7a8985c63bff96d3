"""The comparison after a crash notices lost, repeated, changed and reordered events. No process is killed."""

import pytest

from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Shown
from tests.durability.ledger import Ledger, illogical, missing

TASK = "t"


def status(state: int, **members: object) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id=TASK, **members)
    update.status.state = state
    return hub.StreamResponse(status_update=update)


def piece(text: str, *, append: bool) -> hub.StreamResponse:
    update = hub.TaskArtifactUpdateEvent(task_id=TASK, append=append)
    update.artifact.artifact_id = "a"
    update.artifact.parts.append(hub.Part(text=text))
    return hub.StreamResponse(artifact_update=update)


LOG = [
    hub.StreamResponse(task=hub.Task(id=TASK, status=hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED))),
    status(hub.TASK_STATE_WORKING),
    piece("one", append=False),
    piece("two", append=True),
    status(hub.TASK_STATE_COMPLETED),
]


def done() -> hub.Task:
    """The sum of the log."""
    task = hub.Task(id=TASK, status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
    artifact = task.artifacts.add(artifact_id="a")
    artifact.parts.add(text="one")
    artifact.parts.add(text="two")
    return task


def watched(*, numbers: bool = True, first: int = 1) -> Ledger:
    """A ledger of a caller that saw the log from an event on, and the task at its end."""
    ledger = Ledger()
    stream = ledger.stream(TASK, first - 1)
    for number, event in enumerate(LOG[first - 1 :], first):
        stream.show(Shown(event, number if numbers else 0))
    ledger.acknowledged(done())
    return ledger


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("first", [1, 3])
def test_nothing_is_missing(numbers: bool, first: int) -> None:
    ledger = watched(numbers=numbers, first=first)
    assert ledger.wrong == []
    assert (missing(TASK, ledger.seen[TASK], LOG), illogical(TASK, LOG, done())) == ([], [])


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("index", range(len(LOG)))
def test_an_event_that_is_gone_is_missed(numbers: bool, index: int) -> None:
    seen = watched(numbers=numbers).seen[TASK]
    assert missing(TASK, seen, LOG[:index] + LOG[index + 1 :])


@pytest.mark.parametrize("numbers", [True, False])
def test_an_event_that_changed_or_came_twice_is_noticed(numbers: bool) -> None:
    seen = watched(numbers=numbers).seen[TASK]
    assert missing(TASK, seen, [*LOG[:2], piece("other", append=False), *LOG[3:]])
    assert missing(TASK, seen, [*LOG[:4], LOG[3], *LOG[4:]])
    assert missing(TASK, seen, [LOG[0], LOG[2], LOG[1], *LOG[3:]])


def test_a_snapshot_that_never_was_is_noticed() -> None:
    ledger = Ledger()
    ledger.acknowledged(done())
    assert missing(TASK, ledger.seen[TASK], LOG[:4])
    ledger.stream(TASK).show(Shown(hub.StreamResponse(task=done()), 4))
    assert len(missing(TASK, ledger.seen[TASK], LOG)) == 1


def test_events_missing_in_streams_are_noticed() -> None:
    ledger = Ledger()
    ledger.stream(TASK, 1).show(Shown(LOG[2], 3))
    assert ledger.wrong
    ledger = Ledger()
    ledger.stream(TASK, 1).show(Shown(LOG[1], 2))
    ledger.stream(TASK, 1).show(Shown(LOG[2], 2))
    assert ledger.wrong


def test_a_second_end_is_noticed() -> None:
    ledger, other = watched(), done()
    other.status.state = hub.TASK_STATE_FAILED
    ledger.acknowledged(other)
    assert ledger.wrong
    assert illogical(TASK, LOG, other)
    assert illogical(TASK, [*LOG, LOG[1]], done())
    assert illogical(TASK, LOG[1:], done())
