"""The replay buffer of one stream: its bounds, and that buffer and task together are always complete."""

from __future__ import annotations

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event import Event
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.gateway.replay_buffer import ReplayBuffer, ReplayOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.resume.scripted import TASK, became, begun, chunk

OPTIONS = ReplayOptions(events=40, size=1 << 20, window=16)


def log(options: ReplayOptions = OPTIONS, **members: object) -> ReplayBuffer:
    return ReplayBuffer(TASK, begun().task, options, epoch="e", **members)  # type: ignore[arg-type]


def test_log_and_task_tell_the_whole_however_little_is_kept() -> None:
    expected = hub.Task()
    expected.CopyFrom(begun().task)
    made = log()
    first = made.task
    for number in range(300):
        event = chunk(str(number)) if number % 7 else became(hub.TASK_STATE_WORKING)
        made.append(Event(event))
        advance(expected, getattr(event, event.WhichOneof("payload") or ""))
        assert made.last == number + 1
        assert len(made.events) <= 40 + 16
    assert made.snapshot() == expected
    assert made.base > 200
    # Readers get the first event, too.
    assert first == begun().task


def test_the_generation_of_a_snapshot_is_that_of_its_last_event() -> None:
    made = log()
    for generation in (5, 7):
        event = chunk("a")
        event.artifact_update.generation = generation
        made.append(Event(event))
    whole = made.snapshot()
    assert whole is not None
    assert whole.generation == 7
    made.append(Event(became(hub.TASK_STATE_WORKING)))  # without a number
    whole = made.snapshot()
    assert whole is not None
    assert whole.generation == 0


def test_ids_name_places() -> None:
    made = log(base=5)
    made.append(Event(chunk("a")))
    assert (made.id(5), made.id(6)) == ("e-5", "e-6")
    assert [made.place(f"e-{number}") for number in (4, 5, 6, 7)] == [None, 5, 6, None]
    assert made.place("5") is None
    assert made.place("f-5") is None


def test_a_large_event_makes_room_for_itself() -> None:
    made = log(ReplayOptions(size=100_000))
    for _ in range(5):
        made.append(Event(chunk("x" * 90_000)))
        assert made.size < 100_000 + 2 * 100_000 + made.task_size
    assert len(made.events) <= 2
    whole = made.snapshot()
    assert whole is not None
    assert len(whole.artifacts[0].parts) == 5


def test_a_task_beyond_its_bound_is_forgotten() -> None:
    made = log(ReplayOptions(size=10_000, task_size=100_000))
    for _ in range(300):
        made.append(Event(chunk("x" * 1000)))
    assert made.task is None
    assert made.snapshot() is None
    assert not made.whole
    assert made.regular


@pytest.mark.parametrize("stray", ["another task", "a message"])
def test_events_of_another_task_make_the_buffer_unusable(stray: str) -> None:
    event = chunk("x")
    event.artifact_update.task_id = "other"
    made = log()
    made.append(
        Event(event if stray == "another task" else hub.StreamResponse(message=hub.Message(message_id="m")))
    )
    assert not made.regular
    assert made.snapshot() is None


async def test_unread_events_are_not_dropped() -> None:
    made = log()
    reader = made.reader(made.last)
    for number in range(100):
        made.append(Event(chunk(str(number))))
    assert made.full
    got = []
    while len(got) < 100:
        events = reader.ready()
        reader.position += len(events)
        got += events
    assert [one.message.artifact_update.artifact.parts[0].text for one in got] == [str(n) for n in range(100)]
    assert not made.full


async def test_readers_end_with_the_feed_once_they_have_read_it_all() -> None:
    made = log()
    for error in (None, A2AError(Reason.INTERNAL_ERROR)):
        made.live = True
        reader = made.reader(made.last)
        made.append(Event(chunk("a")))
        made.stop(error)
        assert len(reader.ready()) == 1
        reader.position += 1
        if error is None:
            assert reader.ready() == []
        else:
            with pytest.raises(A2AError):
                reader.ready()
        made.leave(reader)
