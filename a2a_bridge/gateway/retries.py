"""Decides whether a failed call to an agent is repeated, and when. It calls nothing.

Rules:
1. Only what is safe is repeated: any call if no connection could be made, so that nothing was sent; and reads
   (`READS`) if the agent was not available, or said when it will be.
2. Pauses are random between nothing and a bound that doubles (full jitter). A time that the agent states
   (`Retry-After`, RetryInfo) comes before that; if it is longer than `LONGEST_WISH`, the caller gets it.
3. Nothing is repeated after the caller's deadline.
4. Repetitions are a share of the calls (`RetryBudget`): when an agent is down, they must not add to its load.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason

#: operations that change nothing
READS = frozenset(
    {ops.GET_TASK, ops.LIST_TASKS, ops.GET_PUSH_CONFIG, ops.LIST_PUSH_CONFIGS, ops.GET_EXTENDED_AGENT_CARD}
)
#: the bounds of the first and of any pause, in seconds
FIRST, LONGEST = 0.1, 2.0
#: the longest time to wait that an agent may ask for, in seconds
LONGEST_WISH = 5.0


class UnreachableError(A2AError):
    """No connection to the agent could be made. tried: False if the circuits let none be tried."""

    def __init__(self, message: str, *, tried: bool, **members: Any) -> None:
        super().__init__(Reason.UNAVAILABLE, message, **members)
        self.tried = tried


class RetryBudget:
    """A token bucket: each call adds `share` of a token, each repetition takes one. It begins full.

    burst: the most tokens, which is the number of repetitions that a few calls may cause.
    """

    def __init__(self, share: float, burst: float) -> None:
        self._share = share
        self._burst = burst
        self._tokens = burst

    def earn(self) -> None:
        """Counts a call."""
        if self._tokens < self._burst:
            self._tokens = min(self._burst, self._tokens + self._share)

    def spend(self) -> bool:
        """Counts a repetition. Returns False if there is no token for it."""
        # Sums of shares are a little less than whole numbers.
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens = max(0.0, self._tokens - 1)
        return True


class Retries:
    """The repetitions for one agent. most: of one call. clock: that of deadlines."""

    def __init__(
        self,
        most: int,
        budget: RetryBudget,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.budget = budget
        #: repetitions so far
        self.made = 0
        self._most = most
        self._clock = clock
        self._chance = chance

    def pause(self, call: Call[Any, Any], error: A2AError, number: int) -> float | None:
        """The seconds to wait before repetition `number` (1 is the first); None for no repetition."""
        if number > self._most or not _is_safe(call, error):
            return None
        wish = error.retry_after or 0.0
        if wish > LONGEST_WISH:
            return None
        pause = wish + self._chance() * min(LONGEST, FIRST * 2.0 ** (number - 1))
        deadline = call.context.deadline
        if deadline is not None and self._clock() + pause >= deadline:
            return None
        if not self.budget.spend():
            return None
        self.made += 1
        return pause


def _is_safe(call: Call[Any, Any], error: A2AError) -> bool:
    if isinstance(error, UnreachableError):
        return error.tried
    if call.operation not in READS or error.blame is not Blame.PEER:
        return False
    if error.reason is Reason.RESOURCE_EXHAUSTED:
        return error.retry_after is not None
    return error.reason is Reason.UNAVAILABLE
