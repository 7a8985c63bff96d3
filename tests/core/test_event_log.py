"""The one log against one model, under random interleavings of writers, readers and processes, by hand."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event_log import BATCH, EventLog, GapError, LogReader, LogRules, Pace

#: an event: its number; the size is a function of it
Event = int


class Waiting:
    """A future without an event loop."""

    def __init__(self) -> None:
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, _result: None, /) -> None:
        assert not self._done
        self._done = True

    def __await__(self) -> Generator[Any, Any, None]:
        while not self._done:
            yield self


class Step:
    """A coroutine in the middle of its work."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.waits: Waiting | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self.over = False
        self.go()

    def go(self) -> None:
        """Runs as far as possible."""
        while not self.over and (self.waits is None or self.waits.done()):
            try:
                self.waits = self._work.send(None)
            except StopIteration as end:
                self.result, self.over = end.value, True
            except (GapError, A2AError) as error:
                self.error, self.over = error, True

    def cancel(self) -> None:
        self._work.close()
        self.over = True


@dataclass(eq=False)
class Reading:
    """What the model knows about one reader."""

    reader: LogReader[Event]
    #: the number of the last event that it was handed out, and that counts as read
    got: int
    read: int
    step: Step | None = None
    #: set once it must get this error after this event
    error: Exception | None = None
    limit: int = 0
    #: it may find that its events are lost
    may_lapse: bool = False
    #: it has to
    lapsed: bool = False
    closed: bool = False
    fetched: list[Waiting] = field(default_factory=list)


class Timer:
    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Archived(EventLog[Event]):
    """A log whose older events are in an archive, which other processes may write."""

    __slots__ = ("archive", "deleted", "fetching", "gone", "machine", "slow")

    def __init__(self, rules: LogRules, last: int, machine: Machine) -> None:
        super().__init__(rules, last)
        self.machine = machine
        #: the number of the last event in the archive, and of the last that was deleted from it
        self.archive, self.deleted = last, 0
        self.gone: list[Event] = []
        self.slow = False
        self.fetching: list[Waiting] = []

    async def older(self, after: int, /) -> Sequence[Event]:
        if self.slow:
            waiter = Waiting()
            self.fetching.append(waiter)
            await waiter
        if self.rules.pace is not Pace.FREE or after < self.deleted:
            return ()
        return list(range(after + 1, min(self.archive, after + 50) + 1))

    def on_drop(self, events: Sequence[Event], size: int, /) -> None:
        assert size == sum(map(size_of, events))
        self.gone += events
        # Nothing is dropped that the reader that sets the pace has not read.
        machine = self.machine
        assert machine.pace is Pace.FREE or not machine.open() or self.base <= machine.pace_of()


def size_of(number: Event) -> int:
    """Mostly small; some are larger than a whole log may be."""
    return 700 if number % 23 == 0 else number % 7


class Machine(RuleBasedStateMachine):
    """Everything that may happen to a log, in any order."""

    @initialize(
        pace=strategies.sampled_from(Pace),
        events=strategies.integers(1, 80),
        size=strategies.sampled_from([60, 600, 100_000]),
        lead=strategies.sampled_from([None, 3, 10]),
        begin=strategies.integers(0, 3),
    )
    def begin(self, pace: Pace, events: int, size: int, lead: int | None, begin: int) -> None:
        self.pace = pace
        self.timers: list[Timer] = []
        self.rules = LogRules(
            events,
            size,
            pace,
            waiter=Waiting,
            lead=None if lead is None else min(lead, events),
            stall=1.0 if pace is Pace.SLOWEST else 0.0,
            call_later=self.call_later,
        )
        self.log = Archived(self.rules, begin, self)
        self.first = self.last = begin
        self.skipped: set[int] = set()
        self.ended = False
        self.readings: list[Reading] = []
        self.writer: Step | None = None

    def call_later(self, _seconds: float, callback: Any) -> Timer:
        timer = Timer(callback)
        self.timers.append(timer)
        return timer

    # ------------------------------------------------------------------ the writing side

    @rule(count=strategies.integers(1, 70))
    def append(self, count: int) -> None:
        """Without regard to `crowded`: a writer may be late to see it."""
        if self.ended or self.log.last != self.last:
            return
        for _ in range(count):
            self.last += 1
            self.log.append(self.last, size_of(self.last))
            assert not self.open() or self.log.crowded == self.full()
            self.check_bounds()
        self.log.archive = self.last

    @rule()
    def room(self) -> None:
        if self.writer is None:
            self.writer = Step(self.log.room())

    @rule()
    def end(self) -> None:
        self.ended = True
        self.log.end()

    @rule()
    def reopen(self) -> None:
        self.ended = False
        self.log.reopen()

    @rule()
    def break_off(self) -> None:
        error = A2AError(Reason.INTERNAL_ERROR)
        for one in self.open():
            one.error, one.limit = error, self.log.last
        self.log.break_off(error)

    @rule()
    def drop_read(self) -> None:
        self.log.drop_read()
        if self.pace is not Pace.FASTEST:
            assert all(one.read >= self.log.base or self.pace is Pace.FREE for one in self.open())

    @precondition(lambda self: any(not timer.cancelled for timer in self.timers))
    @rule()
    def stall(self) -> None:
        timer = next(timer for timer in self.timers if not timer.cancelled)
        slowest = min(one.read for one in self.open())
        timer.cancelled = True
        timer.callback()
        for one in self.open():
            if one.read == slowest:
                one.closed, one.error, one.limit = True, A2AError(Reason.UNAVAILABLE), one.got

    # ------------------------------------------------------------------ another process

    @precondition(lambda self: self.pace is Pace.FREE and not self.ended)
    @rule(count=strategies.integers(1, 40), known=strategies.booleans())
    def written_elsewhere(self, count: int, known: bool) -> None:
        self.last += count
        self.log.archive = self.last
        if known:
            self.log.skip_to(self.last)
        else:
            self.log.look_again()

    @precondition(lambda self: self.pace is Pace.FREE)
    @rule()
    def catch_up(self) -> None:
        self.log.skip_to(self.last)

    @precondition(lambda self: self.pace is Pace.FREE)
    @rule()
    def deleted(self) -> None:
        self.log.deleted = self.log.base
        for one in self.open():
            one.may_lapse = True

    @rule(slow=strategies.booleans())
    def slow_archive(self, slow: bool) -> None:
        self.log.slow = slow
        for waiter in self.log.fetching:
            waiter.set_result(None)
        self.log.fetching.clear()

    # ------------------------------------------------------------------ the reading side

    @rule(back=strategies.integers(-1, 90))
    def join(self, back: int) -> None:
        if len(self.readings) >= 4:
            return
        after = max(self.log.last - back, 0)
        known = self.log.base <= after <= self.log.last
        one = Reading(self.log.reader(after), after, after)
        if self.pace is not Pace.FREE:
            one.lapsed = one.closed = not known
        else:
            one.may_lapse = after < self.log.deleted or after > self.log.last
        self.readings.append(one)

    @rule(which=strategies.integers(0, 3))
    def take(self, which: int) -> None:
        if which < len(self.readings) and self.readings[which].step is None:
            one = self.readings[which]
            one.read = one.got
            one.step = Step(one.reader.take())

    @rule(which=strategies.integers(0, 3), cancel=strategies.booleans())
    def leave(self, which: int, cancel: bool) -> None:
        """A caller goes; it may be in the middle of a read."""
        if which < len(self.readings):
            one = self.readings.pop(which)
            if cancel and one.step is not None:
                one.step.cancel()
            one.reader.close()
            if one.step is not None:
                one.step.go()
                assert one.step.over or one.step.waits in self.log.fetching
                one.step.cancel()

    # ------------------------------------------------------------------ what must hold

    def open(self) -> list[Reading]:
        return [one for one in self.readings if not one.closed]

    def pace_of(self) -> int:
        which = max if self.pace is Pace.FASTEST else min
        return which(one.read for one in self.open())

    def full(self) -> bool:
        """From the definition, not from sums kept along."""
        if self.pace is Pace.FREE or not self.open():
            return False
        unread = range(max(self.pace_of(), self.log.base) + 1, self.last + 1)
        return bool(unread) and (
            len(unread) >= self.rules.lead or sum(map(size_of, unread)) >= self.rules.lead_size
        )

    def check_bounds(self) -> None:
        """Bounds are exceeded for the reader that sets the pace only."""
        log = self.log
        held = self.open() and self.pace is not Pace.FREE and log.base >= self.pace_of()
        if not held:
            assert len(log.events) < self.rules.most
            assert log.size <= self.rules.size or (len(log.events) == 1 and self.pace is Pace.FREE)

    @invariant()
    def memory_is_the_end_of_the_stream(self) -> None:
        log = self.log
        assert log.last <= self.last
        assert log.events == list(range(log.base + 1, log.last + 1))
        assert log.size == sum(map(size_of, log.events))
        # Nothing leaves without a word, and in order.
        assert log.gone == sorted(set(log.gone))
        if self.pace is not Pace.FREE:
            assert (log.last, log.gone) == (self.last, list(range(self.first + 1, log.base + 1)))

    @invariant()
    def writer_waits_for_the_pace_and_for_nothing_else(self) -> None:
        if self.writer is not None:
            self.writer.go()
            assert self.writer.over == (self.ended or not self.full())
            if self.writer.over:
                self.writer = None
        assert self.writer is not None or all(timer.cancelled for timer in self.timers)

    @invariant()
    def readers_get_each_event_once_and_in_order(self) -> None:
        for one in tuple(self.readings):
            if one.step is None:
                continue
            one.step.go()
            if not one.step.over:
                self.check_waiting(one)
                continue
            step, one.step = one.step, None
            if step.error is not None:
                self.check_error(one, step.error)
                self.readings.remove(one)
                one.reader.close()
                continue
            assert len(step.result) <= BATCH
            assert list(step.result) == list(range(one.got + 1, one.got + len(step.result) + 1))
            assert one.got + len(step.result) <= self.last
            assert one.reader.position == one.read
            one.got += len(step.result)
            if one.error is not None:
                assert one.got <= one.limit
            if not step.result:
                assert self.ended
                assert one.got == self.log.last

    def check_waiting(self, one: Reading) -> None:
        assert one.step is not None
        if one.step.waits in self.log.fetching:
            return
        # It waits for an event that is not there, and for no error.
        assert one.error is None or one.got < one.limit
        assert one.got >= self.log.last
        assert not self.log.stale
        assert not one.lapsed
        assert not self.ended or one.got > self.log.last

    def check_error(self, one: Reading, error: Exception) -> None:
        if isinstance(error, GapError):
            fell_behind = self.pace is Pace.FASTEST and one.got < self.log.base
            assert one.lapsed or one.may_lapse or fell_behind
        else:
            assert one.error is not None
            assert error.reason is one.error.reason  # type: ignore[attr-defined]
            # A reader that began beyond the last event has not read any.
            assert one.got == one.limit or (one.may_lapse and one.got > one.limit)


TestLog = Machine.TestCase
TestLog.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_the_last_reader_that_leaves_is_told() -> None:
    left = []

    class Told(EventLog[Event]):
        __slots__ = ()

        def left(self) -> None:
            left.append(self.readers)

    log = Told(LogRules(1, 1, Pace.SLOWEST, waiter=Waiting))
    first, second = log.reader(0), log.reader(0)
    first.close()
    assert not left
    second.close()
    second.close()
    assert left == [set()]


def test_a_position_that_was_given_but_is_not_stored_yet_is_no_gap() -> None:
    class Given(EventLog[Event]):
        __slots__ = ()

        def last_given(self) -> int:
            return 5

    log = Given(LogRules(8, 1000, Pace.FREE, waiter=Waiting))
    step, beyond = Step(log.reader(5).take()), Step(log.reader(6).take())
    assert isinstance(beyond.error, GapError)
    for number in range(1, 7):
        assert not step.over
        log.append(number, 1)
        step.go()
    assert step.result == [6]


def test_a_reader_that_fails_does_not_keep_its_waiter() -> None:
    log = EventLog[Event](LogRules(8, 1000, Pace.FREE, waiter=Waiting))
    reader = log.reader(0)
    for _ in range(3):
        Step(reader.take()).cancel()
    assert not log.readers_waiting


@pytest.mark.parametrize("pace", Pace)
def test_an_empty_log_that_has_ended_is_over(pace: Pace) -> None:
    log = EventLog[Event](LogRules(8, 1000, pace, waiter=Waiting), 7)
    log.end()
    assert Step(log.reader(7).take()).result == ()


@pytest.mark.parametrize("sizes", [[1, 1, 1], [29, 1]])
def test_a_writer_is_held_by_events_and_by_bytes(sizes: list[int]) -> None:
    log = EventLog[Event](LogRules(100, 1000, Pace.SLOWEST, waiter=Waiting, lead=3, lead_size=30))
    reader = log.reader(0)
    for number, size in enumerate(sizes, 1):
        assert (log.crowded, log.full()) == (False, False)
        log.append(number, size)
    assert (log.crowded, log.full()) == (True, True)
    reader.close()
