"""Circuit breakers: when a target gets no attempts, when it is tried, when it is given up."""

from typing import Any

import pytest

from a2a_bridge.core.circuit import MOST, SLACK, Circuits
from a2a_bridge.push.delivery_worker import PushOptions
from tests.docs.pages import DOCS
from tests.push.test_fair_queue import Clock


def circuits(clock: Clock, **members: Any) -> Circuits:
    return Circuits(
        now=clock, chance=lambda: 1.0, **({"each": 4, "trip": 3, "pause": 10.0, "patience": 1000.0} | members)
    )


def fail(ours: Circuits, times: int = 1) -> None:
    for _ in range(times):
        ours.begin("x")
        ours.end("x", target_works=False)


def test_a_target_has_so_much_room() -> None:
    ours = circuits(Clock())
    assert ours.capacity_of("x") == 4
    ours.begin("x")
    assert (ours.capacity_of("x"), ours.capacity_of("y")) == (3, 4)
    ours.end("x", target_works=True)
    assert (ours.capacity_of("x"), len(ours)) == (4, 0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_opens_after_failures_in_a_row_and_is_tried_with_one(clock: Clock) -> None:
    ours = circuits(clock)
    fail(ours, 2)
    assert ours.capacity_of("x") == 4
    ours.begin("x")
    assert ours.end("x", target_works=False)  # it has just opened
    assert (ours.capacity_of("x"), ours.wait()) == (0, pytest.approx(10))
    clock.time += 10
    assert ours.capacity_of("x") == 1
    ours.begin("x")
    assert ours.capacity_of("x") == 0
    assert not ours.end("x", target_works=False)
    assert ours.wait() == pytest.approx(20)
    clock.time += 20
    ours.begin("x")
    ours.end("x", target_works=True)
    assert (ours.capacity_of("x"), len(ours)) == (4, 0)


def test_a_success_in_between_closes_it() -> None:
    ours = circuits(Clock())
    for _ in range(5):
        fail(ours, 2)
        ours.begin("x")
        ours.end("x", target_works=True)
    assert ours.capacity_of("x") == 4


def test_inconclusive_results_change_nothing() -> None:
    ours = circuits(Clock())
    fail(ours, 2)
    ours.begin("x")
    ours.end("x", target_works=None)
    fail(ours, 1)
    assert ours.capacity_of("x") == 0


def test_the_pause_has_an_end(clock: Clock) -> None:
    ours = circuits(clock, longest=60.0)
    fail(ours, 3)
    for _ in range(50):
        wait = ours.wait()
        assert wait is not None
        assert wait <= 60
        clock.time += wait
        fail(ours)


def test_a_target_that_failed_for_too_long_gets_each_notification_once(clock: Clock) -> None:
    ours = circuits(clock)
    fail(ours, 3)
    assert not ours.is_given_up("x")
    clock.time += 2000
    assert ours.is_given_up("x")
    assert ours.capacity_of("x") == 4
    fail(ours)
    assert ours.is_given_up("x")
    assert ours.capacity_of("x") == 4
    ours.begin("x")
    ours.end("x", target_works=True)
    assert not ours.is_given_up("x")
    assert len(ours) == 0


@pytest.mark.parametrize("failures", [2, 3])
def test_a_target_without_recent_attempts_starts_anew(failures: int, clock: Clock) -> None:
    ours = circuits(clock, patience=24 * 3600.0)
    fail(ours, failures)
    clock.time += 25 * 3600
    assert not ours.is_given_up("x")
    assert ours.capacity_of("x") > 0
    for _ in range(2):
        fail(ours)
        assert not ours.is_given_up("x")
        assert ours.capacity_of("x") == 4
    ours.begin("x")
    assert ours.end("x", target_works=False)  # opened for the first time again, so its pause is the first
    assert not ours.is_given_up("x")
    assert ours.wait() == pytest.approx(10)


@pytest.mark.parametrize("between", [PushOptions().longest, PushOptions().longest_retry_after, 300.0 + SLACK])
def test_a_target_with_continuous_failures_stays_given_up(between: float, clock: Clock) -> None:
    ours = circuits(clock, patience=24 * 3600.0)
    fail(ours, 3)
    while clock.time <= 1000 + 24 * 3600:
        assert not ours.is_given_up("x")
        clock.time += between
        fail(ours)
    assert ours.is_given_up("x")
    assert ours.capacity_of("x") == 4


def test_inconclusive_results_do_not_give_up_an_untried_target(clock: Clock) -> None:
    ours = circuits(clock)
    fail(ours, 3)
    clock.time += 25 * 3600
    ours.begin("x")
    ours.end("x", target_works=None)
    assert not ours.is_given_up("x")


def test_a_pause_that_a_receiver_asked_for_is_no_end_of_trying() -> None:
    options = PushOptions()
    assert options.longest_retry_after + options.timeout < SLACK


def test_targets_do_not_come_back_together(clock: Clock) -> None:
    ours = Circuits(trip=1, now=clock)
    for number in range(50):
        ours.begin(f"x{number}")
        ours.end(f"x{number}", target_works=False)
    clock.time += 2.5  # the least that the first pause may be
    waits = [ours.capacity_of(f"x{number}") for number in range(50)]
    assert 0 in waits


def test_the_table_of_targets_is_bounded_and_evicts_the_oldest_idle_one(clock: Clock) -> None:
    ours = circuits(clock, trip=1, most=3)
    ours.begin("busy")
    for number in range(10):
        ours.begin(f"x{number}")
        ours.end(f"x{number}", target_works=False)
        assert len(ours) <= 3
    assert ours.capacity_of("busy") == 3
    assert [ours.capacity_of(f"x{number}") for number in range(6, 10)] == [4, 4, 0, 0]
    ours.end("busy", target_works=False)
    assert len(ours) == 3


def test_a_target_that_fails_again_is_not_the_oldest() -> None:
    ours = circuits(Clock(), trip=2, most=2)
    for target in "xyxz":
        ours.begin(target)
        ours.end(target, target_works=False)
    assert [ours.capacity_of(target) for target in "xyz"] == [0, 4, 4]
    assert len(ours) == 2


def test_as_many_as_the_docs_say() -> None:
    assert f"{MOST:,} targets" in (DOCS / "reference/limits.md").read_text()
