"""The replay log of one stream: its bounds, and that log and task together are always complete."""

import asyncio

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import advance
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.service import Event
from a2a_bridge.gateway.replay_log import ReplayLog, log_rules
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.resume.scripted import TASK, became, begun, chunk

OPTIONS = ReplayOptions(events=40, size=1 << 20, window=16)


def log(options: ReplayOptions = OPTIONS, **members: object) -> ReplayLog:
    rules, most = log_rules(options), options.task_size
    return ReplayLog(rules, TASK, begun().task, epoch="e", most_task=most, **members)  # type: ignore[arg-type]


def test_log_and_task_tell_the_whole_however_little_is_kept() -> None:
    expected = hub.Task()
    expected.CopyFrom(begun().task)
    made = log()
    first = made.task
    for number in range(300):
        event = chunk(str(number)) if number % 7 else became(hub.TASK_STATE_WORKING)
        made.add(Event(event))
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
        made.add(Event(event))
    whole = made.snapshot()
    assert whole is not None
    assert whole.generation == 7
    made.add(Event(became(hub.TASK_STATE_WORKING)))  # without a number
    whole = made.snapshot()
    assert whole is not None
    assert whole.generation == 0


def test_ids_name_places() -> None:
    made = log(base=5)
    made.add(Event(chunk("a")))
    assert (made.id(5), made.id(6)) == ("e-5", "e-6")
    assert [made.place(f"e-{number}") for number in (4, 5, 6, 7)] == [None, 5, 6, None]
    assert made.place("5") is None
    assert made.place("f-5") is None


def test_a_large_event_makes_room_for_itself() -> None:
    made = log(ReplayOptions(size=100_000))
    for _ in range(5):
        made.add(Event(chunk("x" * 90_000)))
        assert made.held < 100_000 + 2 * 100_000 + made.task_size
    assert len(made.events) <= 2
    whole = made.snapshot()
    assert whole is not None
    assert len(whole.artifacts[0].parts) == 5


def test_a_task_beyond_its_bound_is_forgotten() -> None:
    made = log(ReplayOptions(size=10_000, task_size=100_000))
    for _ in range(300):
        made.add(Event(chunk("x" * 1000)))
    assert made.task is None
    assert made.snapshot() is None
    assert not made.whole
    assert made.regular


@pytest.mark.parametrize("stray", ["another task", "a message"])
def test_a_log_with_events_of_another_task_is_irregular(stray: str) -> None:
    event = chunk("x")
    event.artifact_update.task_id = "other"
    made = log()
    made.add(
        Event(event if stray == "another task" else hub.StreamResponse(message=hub.Message(message_id="m")))
    )
    assert not made.regular
    assert made.snapshot() is None


async def test_unread_events_are_not_dropped() -> None:
    made = log()
    reader = made.reader(made.last)
    for number in range(100):
        made.add(Event(chunk(str(number))))
    assert made.full()
    got: list[Event] = []
    while len(got) < 100:
        got += await reader.take()
    assert [one.message.artifact_update.artifact.parts[0].text for one in got] == [str(n) for n in range(100)]
    made.reopen()
    asyncio.get_running_loop().call_soon(made.end)
    assert not await reader.take()
    assert not made.full()


async def test_readers_end_with_the_log_once_they_have_read_it_all() -> None:
    made = log()
    for error in (None, A2AError(Reason.INTERNAL_ERROR)):
        made.reopen()
        reader = made.reader(made.last)
        made.add(Event(chunk("a")))
        if error is not None:
            made.break_off(error)
        made.end()
        assert len(await reader.take()) == 1
        if error is None:
            assert not await reader.take()
        else:
            with pytest.raises(A2AError):
                await reader.take()
        reader.close()
