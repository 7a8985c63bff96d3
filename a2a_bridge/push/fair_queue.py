"""A fair queue: one key per push config, with the time at which its first notification is due.

Rules:
1. A key waits for its time, then for capacity of its target, and is then out until its result is reported. A
   result counts if it belongs to the notification with which the key went out: it may come twice, or late.
2. Targets with ready keys take turns, so a target with many keys does not delay the others.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class FairQueue(Generic[KeyT]):
    """Keys by target. now: seconds on a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: the targets of all known keys
        self._targets: dict[KeyT, str] = {}
        #: due times of waiting keys; an entry of the heap that is not in it is stale
        self._due: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._count = 0
        self._ready: OrderedDict[str, OrderedDict[KeyT, None]] = OrderedDict()
        #: the number of the notification of each key that is out
        self._out: dict[KeyT, int] = {}

    def __contains__(self, line: KeyT) -> bool:
        return line in self._targets

    def target(self, line: KeyT) -> str:
        return self._targets[line]

    def put(self, line: KeyT, target: str, seconds: float = 0) -> None:
        """The first notification of a key, which may be new, out or waiting, is due in so many seconds."""
        self.drop(line)
        self._targets[line] = target
        if seconds <= 0:
            self._make_ready(line)
            return
        self._count += 1
        due = self._now() + seconds
        self._due[line] = due
        heapq.heappush(self._heap, (due, self._count, line))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def again(self, line: KeyT, failed: str, seconds: float) -> None:
        """A known key waits because the target `failed` has failed; not if it has another target since."""
        target = self._targets[line]
        self.put(line, target, seconds if target == failed else 0)

    def redirect(self, line: KeyT, target: str) -> bool:
        """Changes the target of a known key, and ends its delay. Returns False if it does not wait."""
        known = self._targets.get(line)
        if known is None or known == target:
            return False
        if line in self._due or line in self._ready.get(known, ()):
            self.put(line, target)
            return True
        self._targets[line] = target
        return False

    def take(self, limit: int, capacity_of: Callable[[str], int]) -> list[KeyT]:
        """The keys that come next; they are out from now on. capacity_of: capacity of a target."""
        self._wake()
        allowed: dict[str, int] = {}
        for target in self._ready:
            if len(allowed) >= limit:
                break  # very many may be ready, and only these get a turn
            most = capacity_of(target)
            if most > 0:
                allowed[target] = most
        taken: list[KeyT] = []
        while allowed and len(taken) < limit:
            for target in list(allowed):
                if allowed[target] <= 0 or target not in self._ready:
                    del allowed[target]
                elif len(taken) < limit:
                    allowed[target] -= 1
                    taken.append(self._next_of(target))
        return taken

    def give_out(self, line: KeyT, number: int) -> None:
        """A key that was taken is out with the notification `number`."""
        self._out[line] = number

    def is_out(self, line: KeyT) -> bool:
        """Whether a notification of a key is being delivered."""
        return line in self._out

    def take_back(self, line: KeyT, number: int) -> bool:
        """A notification has a result. Returns False if the key is not out with it."""
        if self._out.get(line) != number:
            return False
        del self._out[line]
        return True

    def drop(self, line: KeyT) -> None:
        self._out.pop(line, None)
        target = self._targets.pop(line, None)
        self._due.pop(line, None)
        ready = self._ready.get(target) if target is not None else None
        if target is not None and ready is not None:
            ready.pop(line, None)
            if not ready:
                del self._ready[target]

    def wait(self) -> float | None:
        """Seconds until the next waiting key is due; None if no key waits. Never negative."""
        while self._heap:
            due, _, line = self._heap[0]
            if self._due.get(line) == due:
                return max(0.0, due - self._now())
            heapq.heappop(self._heap)
        return None

    def _wake(self) -> None:
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            due, _, line = heapq.heappop(self._heap)
            if self._due.get(line) == due:
                del self._due[line]
                self._make_ready(line)

    def _make_ready(self, line: KeyT) -> None:
        self._ready.setdefault(self._targets[line], OrderedDict())[line] = None

    def _next_of(self, target: str) -> KeyT:
        ready = self._ready[target]
        line, _ = ready.popitem(last=False)
        if ready:
            self._ready.move_to_end(target)
        else:
            del self._ready[target]
        return line
