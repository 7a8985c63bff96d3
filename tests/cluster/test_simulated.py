"""Thousands of simulated schedules of faults; `make cluster` runs a million."""

import pytest

from tests.cluster.__main__ import real
from tests.cluster.schedule import Schedule, run

#: schedules of one test
PORTION = 250


@pytest.mark.parametrize("portion", range(8))
def test_every_caller_gets_a_true_answer_in_bounded_time(portion: int) -> None:
    outcomes = [run(seed) for seed in range(portion * PORTION, (portion + 1) * PORTION)]
    assert {one.seed: one.wrong for one in outcomes if one.wrong} == {}
    assert sum(one.served for one in outcomes) > PORTION
    assert sum(one.faults for one in outcomes) > PORTION


@pytest.mark.parametrize(
    "seed",
    [
        # A call that had waited for a suspended replica was executed there, and by the caller's replica.
        51,
        # A suspended replica began a task for a message that another one had answered meanwhile.
        956,
        # A task with a new owner, which had not ended, was not cancelable.
        283,
        # A stream that began while its replica stopped did not end.
        1671,
        1714,
        # A replica lost the lease of a task whose push config it was storing: its other leases stayed.
        4365,
        # A lease that was written while its caller left stayed with its replica.
        200002728,
        # A message was worked on twice: a replica got a new name after the reservation of its id.
        200036316,
        # A stream had read the question of a new owner before its replica knew that the task was lost.
        200066669,
        # A task at work whose lease was written while its caller left had no holder and no owner (3.13).
        400151117,
        # A lease that was lost because another session had locked the row stayed with its replica, which no
        # longer worked on the task.
        739606,
        742374,
        742838,
        748367,
    ],
)
def test_what_was_wrong_once(seed: int) -> None:
    assert run(seed).wrong == []


async def test_real_replicas_keep_the_rule() -> None:
    """The short form of `make cluster`: real processes, PostgreSQL, NATS, and a proxy between them."""
    faults, wrong = await real(1, 8.0)
    assert wrong == []
    assert faults


@pytest.mark.parametrize("seed", [7, 232, 536, 2344])
def test_a_seed_reproduces_its_schedule(seed: int) -> None:
    assert run(seed) == run(seed) == run(seed)


def test_the_bound_is_checked() -> None:
    """Calls that wait for a task need seconds: without time, their answers are too late."""
    wrong = [line for seed in range(20) for line in Schedule(seed, bound=1.0).run().wrong]
    assert any("has no answer" in line for line in wrong)
