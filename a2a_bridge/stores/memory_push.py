"""Push notification configs and pending notifications in memory: bounded, lost with the process.

Rules:
1. Events are shared and must not be changed.
2. Beyond a bound the oldest entries are evicted: the configs of the task that registered first, the oldest
   notifications of a queue that is too long, the oldest dead letters.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import uuid4

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.fair_queue import FairQueue
from a2a_bridge.push.ports import Backlog
from a2a_bridge.push.ssrf_policy import target_of
from a2a_bridge.stores.ports import Delivery, OutboxEntry, Registered, Scope

logger = logging.getLogger("a2a_bridge.push")

_Key = tuple[Scope, str]
#: scope, task, config
_Line = tuple[Scope, str, str]


@dataclass(slots=True)
class _StoredConfig:
    data: bytes
    version: str
    side_channel: str

    def to_registered(self) -> Registered:
        return Registered(
            hub.TaskPushNotificationConfig.FromString(self.data), self.version, self.side_channel
        )


class MemoryPushConfigStore:
    """Implements PushConfigStore.

    most_tasks: maximum number of tasks with configs; beyond that, the configs of the task that got one first
    are evicted. most_per_task: maximum configs of one task.
    """

    def __init__(self, most_tasks: int = 100_000, most_per_task: int = 100) -> None:
        self._most_tasks = most_tasks
        self._most_per_task = most_per_task
        self._tasks: OrderedDict[_Key, dict[str, _StoredConfig]] = OrderedDict()
        #: called with the key of a deleted config
        self.on_gone: Callable[[_Line], None] = lambda _: None
        #: called with the key of a config whose target may have changed
        self.on_changed: Callable[[_Line], None] = lambda _: None

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None:
        config = registered.config
        key = (scope, config.task_id)
        configs = self._tasks.get(key, {})
        if config.id in configs and not replace:
            return
        if config.id not in configs and len(configs) >= self._most_per_task:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "the task has too many push notification configs")
        if key not in self._tasks:
            if len(self._tasks) >= self._most_tasks:
                gone, those = self._tasks.popitem(last=False)
                for config_id in those:
                    self.on_gone((*gone, config_id))
            self._tasks[key] = configs
        known = config.id in configs
        configs[config.id] = _StoredConfig(
            config.SerializeToString(), registered.version, registered.side_channel
        )
        if known:
            self.on_changed((*key, config.id))

    async def get(self, scope: Scope, task_id: str, config_id: str, /) -> Registered | None:
        return self.now(scope, task_id, config_id)

    async def list(self, scope: Scope, task_id: str, /) -> list[Registered]:
        return [config.to_registered() for config in self._tasks.get((scope, task_id), {}).values()]

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        configs = self._tasks.get((scope, task_id))
        if configs is None or configs.pop(config_id, None) is None:
            return
        if not configs:
            del self._tasks[(scope, task_id)]
        self.on_gone((scope, task_id, config_id))

    def now(self, scope: Scope, task_id: str, config_id: str) -> Registered | None:
        """The synchronous form of `get`."""
        config = self._tasks.get((scope, task_id), {}).get(config_id)
        return None if config is None else config.to_registered()

    def ids(self, scope: Scope, task_id: str) -> Sequence[str]:
        """The ids of a task's configs, oldest first."""
        return tuple(self._tasks.get((scope, task_id), ()))


@dataclass(slots=True, eq=False)
class _Item:
    number: int
    line: _Line
    sequence: int
    event: hub.StreamResponse
    webhook_id: str = field(default_factory=lambda: str(uuid4()))
    attempts: int = 0
    error: str = ""
    url: str = ""
    created: float = field(default_factory=time.time)

    def letter(self, *, dead: bool) -> OutboxEntry:
        scope, task_id, config_id = self.line
        return OutboxEntry(
            self.number,
            scope,
            task_id,
            config_id,
            self.sequence,
            self.url,
            self.attempts,
            dead,
            self.error,
            self.created,
        )


class MemoryOutbox:
    """Implements Outbox, for one MemoryPushConfigStore.

    waiting: maximum pending notifications of one config. most: maximum of all. most_dead: dead letters that
    are kept for operators. now: seconds on a monotonic clock.
    """

    def __init__(
        self,
        configs: MemoryPushConfigStore,
        *,
        waiting: int = 1_000,
        most: int = 100_000,
        most_dead: int = 1_000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configs = configs
        self._waiting = waiting
        self._most = most
        self._most_dead = most_dead
        self._count = 0
        self._size = 0
        self._waits: dict[_Line, deque[_Item]] = {}
        self._dead: OrderedDict[int, _Item] = OrderedDict()
        self._lines: FairQueue[_Line] = FairQueue(now)
        self._callbacks: list[Callable[[], None]] = []
        configs.on_gone = self._forget
        configs.on_changed = self._redirect

    def __len__(self) -> int:
        return self._size

    def deliver(self, scope: Scope, task_id: str, sequence: int, event: hub.StreamResponse) -> None:
        """Adds an event of a task, once for each of its configs."""
        for config_id in self._configs.ids(scope, task_id):
            self._put((scope, task_id, config_id), sequence, event)

    def awaits(self, scope: Scope, task_id: str) -> bool:
        """True if a config of the task gets its events."""
        return bool(self._configs.ids(scope, task_id))

    def on_new(self, callback: Callable[[], None], /) -> None:
        self._callbacks.append(callback)

    async def post(self, scope: Scope, registered: Registered, event: hub.StreamResponse, /) -> None:
        config = registered.config
        if self._configs.now(scope, config.task_id, config.id) is None:
            await self._configs.put(scope, registered)
        self._put((scope, config.task_id, config.id), 0, event)

    async def due(self, limit: int, capacity_of: Callable[[str], int], /) -> list[Delivery]:
        deliveries: list[Delivery] = []
        for line in self._lines.take(limit, capacity_of):
            registered = self._configs.now(*line)
            if registered is None:
                self._forget(line)
                continue
            item = self._waits[line][0]
            self._lines.give_out(line, item.number)
            scope, task_id, _ = line
            deliveries.append(
                Delivery(
                    item.number,
                    scope,
                    task_id,
                    item.sequence,
                    item.event,
                    registered,
                    item.attempts,
                    item.webhook_id,
                )
            )
        return deliveries

    async def wait(self) -> float | None:
        return self._lines.wait()

    async def sent(self, deliveries: Sequence[Delivery], /) -> None:
        for delivery in deliveries:
            self._remove(delivery)

    async def again(self, delivery: Delivery, error: str, seconds: float, /) -> None:
        line = _line_of(delivery)
        items = self._waits.get(line)
        if not self._lines.take_back(line, delivery.number) or not items:
            return
        if items[0].number == delivery.number:
            items[0].attempts += 1
            items[0].error = error
        else:  # it was dropped during delivery, because its queue was too long
            seconds = 0
        self._lines.again(line, target_of(delivery.registered.config.url), seconds)
        self._notify()

    async def dead(self, delivery: Delivery, error: str, /) -> None:
        item = self._remove(delivery)
        if item is None:
            return
        item.attempts += 1
        item.error = error
        self._add_dead_letter(item)

    async def entries(
        self, *, dead: bool | None = None, limit: int = 100, after: int = 0
    ) -> list[OutboxEntry]:
        found: list[OutboxEntry] = []
        if dead is not True:
            for line, items in self._waits.items():
                url = self._target(line)
                found += (item.letter(dead=False)._replace(url=url) for item in items if item.number > after)
        if dead is not False:
            found += (item.letter(dead=True) for item in self._dead.values() if item.number > after)
        return list(islice(sorted(found), limit))

    async def backlog(self) -> Backlog:
        oldest = min((items[0].created for items in self._waits.values()), default=None)
        age = None if oldest is None else max(0.0, time.time() - oldest)
        return Backlog(self._size, age, len(self._dead))

    async def retry(self, numbers: Sequence[int] | None, /) -> int:
        wanted = sorted(self._dead) if numbers is None else sorted({*numbers} & {*self._dead})
        for number in wanted:
            item = self._dead.pop(number)
            item.attempts = 0
            items = self._waits.setdefault(item.line, deque())
            # In its old place, but not before a notification that is being delivered.
            first = 1 if self._lines.is_out(item.line) and items else 0
            place = next(
                (at for at, one in enumerate(items) if at >= first and one.number > number), len(items)
            )
            items.insert(place, item)
            self._size += 1
            # Otherwise its turn comes after the notification that is being delivered.
            if not self._lines.is_out(item.line):
                self._lines.put(item.line, self._target(item.line))
        if wanted:
            self._notify()
        return len(wanted)

    # ------------------------------------------------------------------ queues per config

    def _put(self, line: _Line, sequence: int, event: hub.StreamResponse) -> None:
        self._count += 1
        items = self._waits.setdefault(line, deque())
        items.append(_Item(self._count, line, sequence, event))
        self._size += 1
        if len(items) > self._waiting:
            self._drop_oldest(line, "its receiver is too slow")
        elif self._size > self._most:
            self._drop_oldest(next(iter(self._waits)), "too many wait")
        if line in self._waits and line not in self._lines:
            self._lines.put(line, self._target(line))
        self._notify()

    def _drop_oldest(self, line: _Line, reason: str) -> None:
        items = self._waits[line]
        # A notification that is being delivered comes before the next notification.
        place = 1 if self._lines.is_out(line) and len(items) > 1 else 0
        item = items[place]
        del items[place]
        self._size -= 1
        logger.warning("a push notification of task %s is dropped: %s", line[1], reason)
        item.error = reason
        self._add_dead_letter(item)
        if not items:
            del self._waits[line]
            self._lines.drop(line)

    def _remove(self, delivery: Delivery) -> _Item | None:
        """Removes a notification from its queue, and makes the next notification of the queue due."""
        line = _line_of(delivery)
        items = self._waits.get(line) if self._lines.take_back(line, delivery.number) else None
        if items is None:
            return None
        item = items[0] if items[0].number == delivery.number else None
        if item is not None:
            items.popleft()
            self._size -= 1
        if items:
            self._lines.put(line, self._target(line))
            self._notify()
        else:
            del self._waits[line]
            self._lines.drop(line)
        return item

    def _add_dead_letter(self, item: _Item) -> None:
        item.url = self._target(item.line)
        self._dead[item.number] = item
        if len(self._dead) > self._most_dead:
            self._dead.popitem(last=False)

    def _forget(self, line: _Line) -> None:
        self._lines.drop(line)
        self._size -= len(self._waits.pop(line, ()))
        for number in [number for number, item in self._dead.items() if item.line == line]:
            del self._dead[number]

    def _redirect(self, line: _Line) -> None:
        """Ends the waiting time of a config with a new target, because the old target caused it."""
        if self._lines.redirect(line, self._target(line)):
            self._notify()

    def _target(self, line: _Line) -> str:
        registered = self._configs.now(*line)
        return "" if registered is None else target_of(registered.config.url)

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()


def _line_of(delivery: Delivery) -> _Line:
    return delivery.scope, delivery.task_id, delivery.registered.config.id
