"""Which replica takes over an orphaned task first."""

from collections import Counter

import pytest

from a2a_bridge.cluster.calls import ReplicaDirectory
from a2a_bridge.hosting.identifiers import new_id

NAMES = [f"{number:032x}" for number in range(5)]


def _shares(alive: list[str], tasks: list[str]) -> dict[str, str]:
    directory = ReplicaDirectory(1.0)
    directory.update_members(frozenset(alive), 0.0)
    return {task_id: directory.first(task_id) for task_id in tasks}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_each_replica_has_an_equal_share(count: int) -> None:
    sizes = Counter(_shares(NAMES[:count], [new_id() for _ in range(3000)]).values())
    assert set(sizes) == set(NAMES[:count])
    assert all(0.8 < size * count / 3000 < 1.2 for size in sizes.values())


def test_only_the_tasks_of_a_replica_that_has_died_change_hands() -> None:
    tasks = [new_id() for _ in range(1000)]
    before, after = _shares(NAMES, tasks), _shares(NAMES[1:], tasks)
    changed = {task_id for task_id in tasks if before[task_id] != after[task_id]}
    assert changed == {task_id for task_id in tasks if before[task_id] == NAMES[0]}


def test_before_the_first_look_nobody_is_known() -> None:
    assert ReplicaDirectory(1.0).first("t") == ""
