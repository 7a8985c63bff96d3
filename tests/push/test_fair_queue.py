"""The order of the queue: times, targets that take turns, queues that come and go."""

import pytest

from a2a_bridge.push.fair_queue import FairQueue


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def lines(clock: Clock | None = None) -> FairQueue[str]:
    return FairQueue(clock or Clock())


def anything(_: str) -> int:
    return 100


def test_fair_queue_are_taken_once_and_come_back() -> None:
    ours = lines()
    ours.put("a", "x")
    assert (ours.take(10, anything), ours.take(10, anything)) == (["a"], [])
    assert "a" in ours
    ours.put("a", "x")
    assert ours.take(10, anything) == ["a"]
    ours.drop("a")
    ours.drop("a")
    assert "a" not in ours
    assert ours.take(10, anything) == []


def test_a_result_counts_once_and_for_what_went_out() -> None:
    ours = lines()
    ours.put("a", "x")
    assert ours.take(10, anything) == ["a"]
    assert not ours.is_out("a")
    ours.give_out("a", 1)
    assert ours.is_out("a")
    assert not ours.take_back("a", 2)
    assert ours.take_back("a", 1)
    assert not ours.take_back("a", 1)
    ours.give_out("a", 3)
    ours.drop("a")
    assert not ours.is_out("a")
    assert not ours.take_back("a", 3)


def test_fair_queue_wait_for_their_time() -> None:
    clock = Clock()
    ours = lines(clock)
    ours.put("a", "x", 5)
    ours.put("b", "x", 2)
    assert (ours.wait(), ours.take(10, anything)) == (pytest.approx(2), [])
    clock.time += 3
    assert (ours.take(10, anything), ours.wait()) == (["b"], pytest.approx(2))
    ours.put("a", "x", 50)
    clock.time += 3
    assert ours.take(10, anything) == []
    clock.time += 50
    assert ours.take(10, anything) == ["a"]
    assert ours.wait() is None


def test_a_repeated_entry_is_due_once() -> None:
    clock = Clock()
    ours = lines(clock)
    for seconds in range(200, 0, -1):
        ours.put("a", "x", seconds)
    assert ours.wait() == pytest.approx(1)
    clock.time += 500
    assert ours.take(10, anything) == ["a"]
    assert ours.wait() is None


def test_targets_take_turns() -> None:
    ours = lines()
    for target in "xyz":
        for number in range(4):
            ours.put(f"{target}{number}", target)
    taken = ours.take(6, anything)
    assert sorted(line[0] for line in taken) == ["x", "x", "y", "y", "z", "z"]
    assert taken[:3] == ["x0", "y0", "z0"]


def test_a_target_is_given_no_more_than_it_has_room_for() -> None:
    ours = lines()
    for target in "xy":
        for number in range(4):
            ours.put(f"{target}{number}", target)
    assert ours.take(10, lambda target: 1 if target == "x" else 0) == ["x0"]
    assert ours.take(10, lambda target: 0 if target == "x" else 3) == ["y0", "y1", "y2"]
    assert len(ours.take(10, anything)) == 4


def test_a_line_moves_to_another_target() -> None:
    ours = lines()
    ours.put("a", "x")
    ours.put("a", "y")
    assert (ours.target("a"), ours.take(10, lambda target: 1 if target == "x" else 0)) == ("y", [])
    assert ours.take(10, lambda target: 1 if target == "y" else 0) == ["a"]


def test_no_more_targets_are_asked_than_lines_are_wanted() -> None:
    ours = lines()
    for number in range(10_000):
        ours.put(f"a{number}", f"x{number}")
    asked: list[str] = []

    def room(target: str) -> int:
        asked.append(target)
        return 0 if target == "x0" else 1

    assert ours.take(1, room) == ["a1"]
    assert asked == ["x0", "x1"]
    assert ours.take(2, room) == ["a2", "a3"]
    assert asked == ["x0", "x1", "x0", "x2", "x3"]
    assert ours.take(0, room) == []


def test_turns_continue_where_they_ended() -> None:
    ours = lines()
    for target in "xyz":
        for number in range(2):
            ours.put(f"{target}{number}", target)
    assert [ours.take(1, anything) for _ in range(6)] == [["x0"], ["y0"], ["z0"], ["x1"], ["y1"], ["z1"]]
