"""Circuit breakers: how many requests each target may get at present. It sends nothing. Targets are receivers
of notifications, or the endpoints of an agent.

Rules:
1. The circuit of a target that fails several times in a row opens: the target gets nothing for a pause. Then
   one request is tried; if it fails, the pause grows, otherwise the circuit closes. If it has no result for
   `again` seconds, a further one is tried: its work may be long.
2. A target that has failed for longer than `patience` is given up: its pending requests get one attempt
   each, and none is kept after that. This applies only while the target is tried: if its last failure is
   longer ago than the longest pause between two attempts, its state is unknown, and the next failure starts a
   new series.
3. Above `most` targets, the one with the oldest last failure is evicted, unless it is busy: callers who
   register webhooks may use any number of host names.
4. Times are those of a monotonic clock.
"""

import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: targets with a known state
MOST = 10_000
#: seconds that an attempt may be later than its pause: twice the hour that receivers may ask for, because
#: that may be added to a pause, and attempts take time
SLACK = 2 * 3600.0


@dataclass(slots=True)
class _Circuit:
    in_flight: int = 0
    #: when the last request began
    begun_at: float = 0.0
    failures: int = 0
    opened: int = 0
    open_until: float | None = None
    failing_since: float | None = None
    failed_at: float | None = None

    def begin_anew(self) -> None:
        self.failures = self.opened = 0
        self.open_until = self.failing_since = self.failed_at = None


class Circuits:
    """All targets. Times in seconds.

    each: concurrent requests per target. trip: failures in a row that open a circuit. pause: the first
    pause of an open circuit, doubled each time up to `longest`. again: see rule 1. patience:
    time after which a target is given up. most: targets with a known state.
    """

    def __init__(
        self,
        *,
        each: int = 8,
        trip: int = 5,
        pause: float = 5.0,
        longest: float = 300.0,
        again: float = math.inf,
        patience: float = 24 * 3600.0,
        most: int = MOST,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._each = each
        self._trip = trip
        self._pause = pause
        self._longest = longest
        self._again = again
        self._patience = patience
        self._most = most
        self._now = now
        self._chance = chance
        self._circuits: OrderedDict[str, _Circuit] = OrderedDict()

    def __len__(self) -> int:
        """The number of targets with a known state: those that are busy or failing."""
        return len(self._circuits)

    def capacity_of(self, target: str) -> int:
        """The number of requests that the target may get now."""
        circuit = self._circuits.get(target)
        if circuit is None:
            return self._each
        if circuit.open_until is None or self.is_given_up(target):
            return self._each - circuit.in_flight
        now = self._now()
        if now < circuit.open_until:
            return 0
        return 0 if circuit.in_flight and now - circuit.begun_at < self._again else 1

    def is_busy(self, target: str) -> bool:
        """True while a request to the target is in progress."""
        circuit = self._circuits.get(target)
        return circuit is not None and circuit.in_flight > 0

    def is_given_up(self, target: str) -> bool:
        """True if the target has failed for so long that requests are given up at their next failure."""
        circuit = self._circuits.get(target)
        if circuit is None or circuit.failing_since is None or circuit.open_until is None:
            return False
        return not self._is_stale(circuit) and self._now() - circuit.failing_since > self._patience

    def begin(self, target: str) -> None:
        """Counts a started request."""
        circuit = self._circuits.setdefault(target, _Circuit())
        circuit.in_flight += 1
        circuit.begun_at = self._now()

    def end(self, target: str, target_works: bool | None) -> bool:
        """Counts a finished request. target_works: None if that is unknown. Returns True if the circuit has
        just opened.
        """
        circuit = self._circuits[target]
        circuit.in_flight -= 1
        tripped = False
        if target_works is False:
            now = self._now()
            self._circuits.move_to_end(target)
            if self._is_stale(circuit):
                circuit.begin_anew()
            circuit.failures += 1
            circuit.failed_at = now
            if circuit.failing_since is None:
                circuit.failing_since = now
            if circuit.failures >= self._trip and (circuit.open_until is None or now >= circuit.open_until):
                tripped = circuit.open_until is None
                pause = min(self._pause * 2**circuit.opened, self._longest)
                # Random, so that targets with a common cause of failure are not all retried at once.
                circuit.open_until = now + pause * (0.5 + 0.5 * self._chance())
                circuit.opened = min(circuit.opened + 1, 30)
        elif target_works:
            circuit.begin_anew()
        if circuit.in_flight == 0 and circuit.failures == 0:
            del self._circuits[target]
        elif len(self._circuits) > self._most:
            self._forget_one()
        return tripped

    def wait(self) -> float | None:
        """Seconds until an open circuit may be tried again; None if there is none."""
        now = self._now()
        times = [
            one.open_until - now
            for one in self._circuits.values()
            if one.open_until is not None and one.in_flight == 0 and one.open_until > now
        ]
        return min(times, default=None)

    def _is_stale(self, circuit: _Circuit) -> bool:
        """True if the last failure is too old to count: no attempt can have waited all that time."""
        return circuit.failed_at is not None and self._now() - circuit.failed_at > self._longest + SLACK

    def _forget_one(self) -> None:
        # Few targets are busy, so this search is short.
        idle = (target for target, circuit in self._circuits.items() if circuit.in_flight == 0)
        oldest = next(idle, None)
        if oldest is not None:
            del self._circuits[oldest]
