"""Which targets can be given something, and how much at once. It posts nothing and knows no notification.

Rules:
1. A target that fails several times in a row is given nothing for a while. Then one notification is tried; if
   it fails the while gets longer, if not everything is as before.
2. A target that has failed for longer than anybody wants to wait is hopeless: what waits for it gets one
   attempt each, and nothing is kept for it any more. That counts only while it is tried: when its last
   failure is longer ago than anything pauses between two attempts, nobody knows how it fared since, and with
   the next failure it begins anew.
3. Of more than `most` targets, the one whose last failure is the oldest is forgotten, unless it is busy:
   whoever may register webhooks may have as many names as it likes.
4. Times are those of a clock that never jumps.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: targets of which something is known
MOST = 10_000
#: seconds that an attempt may come later than pauses make it: twice the hour that receivers may ask for,
#: since what is
#: asked for may come on top of a pause, and attempts take their time
SLACK = 2 * 3600.0


@dataclass(slots=True)
class _Circuit:
    going: int = 0
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

    each: how many notifications one may be given at once. trip: after how many failures in a row it is given
    none. pause: for how long at first, doubled each time up to `longest`. patience: after which it is
    hopeless. most: of how many something is known.
    """

    def __init__(
        self,
        *,
        each: int = 8,
        trip: int = 5,
        pause: float = 5.0,
        longest: float = 300.0,
        patience: float = 24 * 3600.0,
        most: int = MOST,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._each = each
        self._trip = trip
        self._pause = pause
        self._longest = longest
        self._patience = patience
        self._most = most
        self._now = now
        self._chance = chance
        self._circuits: OrderedDict[str, _Circuit] = OrderedDict()

    def __len__(self) -> int:
        """How many targets something is known of: those that are busy or failing."""
        return len(self._circuits)

    def room(self, target: str) -> int:
        """How many notifications it can be given now."""
        circuit = self._circuits.get(target)
        if circuit is None:
            return self._each
        if circuit.open_until is None or self.hopeless(target):
            return self._each - circuit.going
        return 1 if circuit.going == 0 and self._now() >= circuit.open_until else 0

    def hopeless(self, target: str) -> bool:
        """Whether it has failed for so long that what fails once more can be given up."""
        circuit = self._circuits.get(target)
        if circuit is None or circuit.failing_since is None or circuit.open_until is None:
            return False
        return not self._is_stale(circuit) and self._now() - circuit.failing_since > self._patience

    def begin(self, target: str) -> None:
        """It is given one."""
        self._circuits.setdefault(target, _Circuit()).going += 1

    def end(self, target: str, fine: bool | None) -> bool:
        """What became of it: whether the target works, None when that is not known.

        True when it has just opened.
        """
        circuit = self._circuits[target]
        circuit.going -= 1
        tripped = False
        if fine is False:
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
                # Those that share a cause do not come back at the same moment.
                circuit.open_until = now + pause * (0.5 + 0.5 * self._chance())
                circuit.opened = min(circuit.opened + 1, 30)
        elif fine:
            circuit.begin_anew()
        if circuit.going == 0 and circuit.failures == 0:
            del self._circuits[target]
        elif len(self._circuits) > self._most:
            self._forget_one()
        return tripped

    def wait(self) -> float | None:
        """Seconds until a target may be tried again that cannot be now; None when there is none."""
        now = self._now()
        times = [
            one.open_until - now
            for one in self._circuits.values()
            if one.open_until is not None and one.going == 0 and one.open_until > now
        ]
        return min(times, default=None)

    def _is_stale(self, circuit: _Circuit) -> bool:
        """Whether its last failure tells nothing about now, because nobody can have waited for it all the
        while.
        """
        return circuit.failed_at is not None and self._now() - circuit.failed_at > self._longest + SLACK

    def _forget_one(self) -> None:
        # Busy ones are few, so this does not look far.
        idle = (target for target, circuit in self._circuits.items() if circuit.going == 0)
        oldest = next(idle, None)
        if oldest is not None:
            del self._circuits[oldest]
