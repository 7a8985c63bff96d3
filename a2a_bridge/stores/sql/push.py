"""The outbox in a database: events are added with the commit that creates them, and deleted after delivery.

Rules:
1. One replica delivers for a config at a time. `push_configs.holder` is * if notifications wait for any
   replica, else the delivering replica. Claims of dead replicas are open to all.
2. Delays are measured on this process's monotonic clock. The times in the rows are times of the database
   (`present`). They matter only to a replica that claims a config of another replica. Such a delay is never
   longer than LONGEST.
3. No locks beyond the locks of a statement. A notification that another replica adds while its config is
   being released may find it without a holder: released configs are looked at soon after, once more later,
   and in a full search now and then. That search also deletes notifications that were added while their
   config was being deleted.
4. `_lines` has the configs that this replica has claimed. A claim whose result was lost is missing there; the
   next claim finds it again.
5. A result of a delivery always changes the row of its notification, but makes the next of its config due
   only if this replica still counts it as being delivered: results may come twice, or after another claim.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, func, insert, select, tuple_, update

from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.fair_queue import FairQueue
from a2a_bridge.push.ports import Backlog
from a2a_bridge.push.secrets import DecryptionError, Vault
from a2a_bridge.push.ssrf_policy import target_of
from a2a_bridge.stores.ports import Delivery, OutboxEntry, Registered, Scope
from a2a_bridge.stores.records import TaskChange
from a2a_bridge.stores.row_format import DamagedError, checksum_of, original, parse_checked, storable
from a2a_bridge.stores.sql import push_configs as configs
from a2a_bridge.stores.sql.database import Database, present
from a2a_bridge.stores.sql.push_configs import ANYBODY, Line, Releases, Write
from a2a_bridge.stores.sql.schema import outbox, push_configs, replicas

log = logging.getLogger("a2a_bridge.push")

#: longest delay, in seconds, of notifications that another replica has left
LONGEST = 600.0
#: seconds after which notifications are looked for without a hint
POLL = 5.0
#: seconds after which notifications of configs without a holder are looked for
SWEEP = 60.0
#: configs per claim
_CLAIM = 500
#: dead letters between two checks of their number
_PRUNE = 100
_DAMAGED = "the notification is damaged in the store"

_ENTRY = outbox.c
_CONFIG = push_configs.c


def post_events(connection: Connection, changes: Sequence[TaskChange], *, skip_locked: bool = False) -> int:
    """Adds events, once for each config of their task, in at most three statements. Returns the number.
    skip_locked: configs that another session has locked are offered by a later search (rule 3).
    """
    of_tasks = [(storable(one.row.task_id), one) for one in changes]
    wanted = select(_CONFIG.task, _CONFIG.id).where(_CONFIG.task.in_([task_id for task_id, _ in of_tasks]))
    receivers: dict[str, list[str]] = {}
    for task_id, config_id in connection.execute(wanted.order_by(_CONFIG.ordinal)):
        receivers.setdefault(task_id, []).append(config_id)
    if not receivers:
        return 0
    rows = [
        _row(task_id, config_id, number, event)
        for task_id, one in of_tasks
        for number, event in enumerate(one.events, one.row.last - len(one.events) + 1)
        for config_id in receivers.get(task_id, ())
    ]
    connection.execute(_insert(connection), rows)
    which = _CONFIG.task.in_(list(receivers)) & (_CONFIG.holder == "")
    _mark_claimable(connection, which, skip_locked=skip_locked)
    return len(rows)


def _mark_claimable(connection: Connection, which: ColumnElement[bool], *, skip_locked: bool = False) -> None:
    """Offers configs to all replicas. skip_locked: not those that another transaction changes."""
    if connection.dialect.name != "sqlite":
        # In the common locking order: several replicas may do this at once.
        wanted = select(_CONFIG.task, _CONFIG.id).where(which)
        wanted = wanted.order_by(_CONFIG.task.collate("C"), _CONFIG.id.collate("C"))
        found = [tuple(row) for row in connection.execute(wanted.with_for_update(skip_locked=skip_locked))]
        if not found:
            return
        which = _among(found)
    connection.execute(update(push_configs).where(which).values(holder=ANYBODY))


def _insert(connection: Connection) -> Any:
    """Adds notifications that are due at once."""
    now = present(connection)
    return insert(outbox).values(due=now, created=now)


def _row(task_id: str, config_id: str, sequence: int, event: bytes) -> dict[str, Any]:
    return {
        "task": task_id,
        "config": config_id,
        "sequence": sequence,
        "event": event,
        "checksum": checksum_of(event_key(task_id, config_id, sequence), event),
        "webhook": str(uuid4()),
    }


def event_key(task_id: str, config_id: str, sequence: int) -> tuple[str, ...]:
    """The key of a notification in its checksum. The checksum of its config covers the scope."""
    return config_id, str(sequence), task_id


class _Head(NamedTuple):
    line: Line
    url: str
    seconds: float


class SqlOutbox:
    """Implements Outbox. me: returns the present id of this replica. now: seconds on a monotonic clock.
    most_dead: dead letters that are kept for operators.
    """

    def __init__(
        self,
        database: Database,
        write: Write,
        me: Callable[[], str],
        vault: Vault | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        most_dead: int = 10_000,
    ) -> None:
        self._database = database
        self._write = write
        self._me = me
        self._vault = vault or Vault()
        self._now = now
        self._most_dead = most_dead
        self._lines: FairQueue[Line] = FairQueue(now)
        self._claimed_as = ""
        self._callbacks: list[Callable[[], None]] = []
        self._poll_now = True
        self._poll_at = now()
        self._sweep_at = now()
        self._dead_count = 0
        #: True if the result of a claim has not arrived; set by the writer's thread when it claims
        self._claim_uncertain = False
        self._releases = Releases(now)

    # ------------------------------------------------------------------ additions

    def on_new(self, callback: Callable[[], None], /) -> None:
        self._callbacks.append(callback)

    def outbox_changed(self) -> None:
        """Entries were added, here or by another process. Called in the loop, after the commit."""
        self._poll_now = True
        self._notify()

    def redirect(self, line: Line, url: str, released: bool) -> None:
        """A config has a new URL: ends the delay that the old target caused. released: True if another
        replica delivered for the config, which all replicas may claim now.
        """
        if released:
            self.outbox_changed()
        elif self._lines.redirect(line, target_of(url)):
            self._notify()

    async def post(self, scope: Scope, registered: Registered, event: hub.StreamResponse, /) -> None:
        values = configs.row_of(scope, registered, self._vault)
        task_id, config_id = values["task"], values["id"]
        row = _row(task_id, config_id, 0, event.SerializeToString())
        added = False

        def work(connection: Connection) -> None:
            nonlocal added
            configs.insert(connection, values, most=None, replace=False)
            same = (_ENTRY.task == task_id, _ENTRY.config == config_id, _ENTRY.webhook == row["webhook"])
            # An earlier attempt may have been committed: its outcome was in doubt.
            if not added or connection.execute(select(_ENTRY.number).where(*same)).first() is None:
                connection.execute(_insert(connection), [row])
            added = True
            same_config = (_CONFIG.task == task_id) & (_CONFIG.id == config_id)
            idle = update(push_configs).where(same_config, _CONFIG.holder == "")
            connection.execute(idle.values(holder=ANYBODY))

        await self._write(work, order=("push_configs", task_id, config_id))
        self.outbox_changed()

    # ------------------------------------------------------------------ deliveries

    async def due(self, limit: int, capacity_of: Callable[[str], int], /) -> list[Delivery]:
        if self._claimed_as != self._me():
            # This replica was declared dead: its claims may belong to others by now.
            self._claimed_as = self._me()
            self._lines = FairQueue(self._now)
            self._poll_now = True
        if self._poll_now or self._now() >= self._look_at:
            await self._claim()
        lines = self._lines.take(limit, capacity_of)
        if not lines:
            return []
        try:
            rows = await self._database.read(lambda connection: _heads(connection, lines, self._claimed_as))
            deliveries = await self._parcels(lines, rows)
        except BaseException:
            for line in lines:
                self._lines.put(line, self._lines.target(line), 1.0)
            raise
        for delivery in deliveries:
            self._lines.give_out(_line_of(delivery), delivery.number)
        return deliveries

    async def wait(self) -> float | None:
        if self._poll_now:
            return 0.0
        until_look = max(0.0, self._look_at - self._now())
        seconds = self._lines.wait()
        return until_look if seconds is None else min(seconds, until_look)

    async def sent(self, deliveries: Sequence[Delivery], /) -> None:
        numbers = [delivery.number for delivery in deliveries]
        await self._settle(deliveries, delete(outbox).where(_ENTRY.number.in_(numbers)))

    async def again(self, delivery: Delivery, error: str, seconds: float, /) -> None:
        changed = update(outbox).where(_ENTRY.number == delivery.number)
        changed = changed.values(attempts=delivery.attempts + 1, error=error)
        await self._write(
            lambda connection: _change(connection, changed.values(due=present(connection) + seconds))
        )
        line = _line_of(delivery)
        if self._lines.take_back(line, delivery.number):
            self._lines.again(line, target_of(delivery.registered.config.url), seconds)
            self._notify()

    async def dead(self, delivery: Delivery, error: str, /) -> None:
        changed = update(outbox).where(_ENTRY.number == delivery.number)
        changed = changed.values(attempts=delivery.attempts + 1, error=error, dead=True)
        self._dead_count += 1
        await self._settle([delivery], changed, prune=self._dead_count % _PRUNE == 1)

    async def entries(
        self, *, dead: bool | None = None, limit: int = 100, after: int = 0
    ) -> list[OutboxEntry]:
        def work(connection: Connection) -> list[OutboxEntry]:
            return entries(connection, self._vault, dead=dead, limit=limit, after=after)

        return await self._database.read(work)

    async def backlog(self) -> Backlog:
        def work(connection: Connection) -> Backlog:
            waiting = select(func.count(), present(connection) - func.min(_ENTRY.created)).where(~_ENTRY.dead)
            pending, age = connection.execute(waiting).one()
            dead = connection.execute(select(func.count()).where(_ENTRY.dead)).scalar_one()
            return Backlog(pending, None if age is None else max(0.0, age), dead)

        return await self._database.read(work)

    async def retry(self, numbers: Sequence[int] | None, /) -> int:
        found: set[int] = set()
        # An earlier attempt may have been committed, its outcome in doubt: its numbers count, too.
        await self._write(lambda connection: found.update(retry(connection, numbers)))
        self.outbox_changed()
        return len(found)

    # ------------------------------------------------------------------ claims

    @property
    def _look_at(self) -> float:
        """When to look for notifications without a hint."""
        return min(self._poll_at, self._releases.next_look)

    async def _claim(self) -> None:
        """Claims configs with notifications that no live replica delivers."""
        self._poll_now = False
        me = self._claimed_as
        gone = self._releases.take()
        sweep = self._now() >= self._sweep_at
        try:
            if (gone or sweep) and await self._database.read(
                lambda connection: _any(connection, _without_holder(gone, sweep=sweep))
            ):
                await self._write(lambda connection: _offer(connection, gone, sweep=sweep))
            if sweep and await self._database.read(
                lambda connection: bool(self._lost_claims(connection, me))
            ):
                self._claim_uncertain = True
            if self._claim_uncertain or await self._database.read(
                lambda connection: _any(connection, select(_CONFIG.task).where(_is_free(me)))
            ):
                lines, heads = await self._write(lambda connection: self._take_over(connection, me))
                self._claim_uncertain = False
                for line, url, seconds in heads:
                    # A config that waits here was released meanwhile: only its row has the right time.
                    if not self._lines.is_out(line):
                        self._lines.put(line, target_of(url), seconds)
                for line in set(lines) - {head.line for head in heads}:
                    self._look_later(line)
                # A hint may have come during the claim.
                self._poll_now = self._poll_now or len(heads) >= _CLAIM
        except A2AError:
            self._poll_now = True
            if gone:
                self._sweep_at = self._now()
            raise
        if self._now() >= self._poll_at:
            self._poll_at = self._now() + POLL
        if sweep:
            self._sweep_at = self._now() + SWEEP

    def _take_over(self, connection: Connection, me: str) -> tuple[list[Line], list[_Head]]:
        """Claims configs, and releases configs without a notification again. Returns all of them, and the
        first notification of each config that has one.
        """
        # The caller may have left before the commit, and the claim may run again although it was committed:
        # until a result has arrived, the rows show which were claimed.
        lines = self._lost_claims(connection, me) if self._claim_uncertain else []
        self._claim_uncertain = True
        wanted = select(_CONFIG.task, _CONFIG.id).where(_is_free(me)).limit(max(0, _CLAIM - len(lines)))
        free = [(row.task, row.id) for row in connection.execute(wanted.with_for_update(skip_locked=True))]
        if free:
            connection.execute(update(push_configs).where(_among(free)).values(holder=me))
            lines += free
        rows = _heads(connection, lines, me)
        if len(rows) < len(lines):
            found = {(row.task, row.config) for row in rows}
            claimed = _let_go(connection, [line for line in lines if line not in found], me)
            rows = [*rows, *_heads(connection, list(claimed), me)]
        heads = [
            _Head((row.task, row.config), self._url(row), min(max(0.0, row.delay), LONGEST)) for row in rows
        ]
        return lines, heads

    def _lost_claims(self, connection: Connection, me: str) -> list[Line]:
        """Configs that this replica has claimed in the rows, but not in memory. It runs in a thread: some
        claims may be completed meanwhile.
        """
        held = select(_CONFIG.task, _CONFIG.id).where(_CONFIG.holder != "", _CONFIG.holder == me)
        return [(task, name) for task, name in connection.execute(held) if (task, name) not in self._lines]

    async def _parcels(self, lines: Sequence[Line], rows: Sequence[Any]) -> list[Delivery]:
        deliveries: list[Delivery] = []
        waiting = {(row.task, row.config): row for row in rows}
        shut: dict[str, list[int]] = {}
        damaged: list[tuple[Line, int]] = []
        for line in lines:
            row = waiting.get(line)
            if row is None:
                continue
            try:
                registered = _parse_registered(row, self._vault)
            except DecryptionError as error:
                log.error("a push config of task %s: %s", row.task, configs.why(error))  # noqa: TRY400  the text says it
                shut.setdefault(configs.why(error), []).append(row.number)
                self._lines.put(line, "", LONGEST)
                continue
            target = target_of(registered.config.url)
            if target != self._lines.target(line):  # its config has a new URL, from another replica
                self._lines.put(line, target)
                self._notify()
                continue
            try:
                key = event_key(row.task, row.config, row.sequence)
                event = parse_checked(hub.StreamResponse.FromString, row.checksum, key, row.event)
            except DamagedError:
                log.error("notification %d of task %s is damaged in the store", row.number, row.task)  # noqa: TRY400
                damaged.append((line, row.number))
                continue
            deliveries.append(
                Delivery(
                    row.number,
                    _scope_of(row),
                    original(row.task),
                    row.sequence,
                    event,
                    registered,
                    row.attempts,
                    row.webhook,
                )
            )
        for error_text, numbers in shut.items():
            statement = update(outbox).where(_ENTRY.number.in_(numbers)).values(error=error_text)
            await self._write(partial(_change, change=statement))
        if damaged:  # it cannot be delivered, but notifications behind it can
            buried = update(outbox).where(_ENTRY.number.in_([number for _, number in damaged]))
            buried = buried.values(error=_DAMAGED, dead=True)
            await self._write(partial(_change, change=buried))
            for line, _ in damaged:
                self._lines.put(line, self._lines.target(line))
            self._notify()
        empty = [line for line in lines if line not in waiting]
        if empty:  # the config was deleted, belongs to another replica, or has no notifications left
            left = await self._write(lambda connection: _let_go(connection, empty, self._claimed_as))
            self._go_on(empty, left)
        return deliveries

    async def _settle(self, deliveries: Sequence[Delivery], change: Any, *, prune: bool = False) -> None:
        """Changes notifications, and makes their successors due."""
        lines = [_line_of(delivery) for delivery in deliveries]
        me = self._claimed_as

        def work(connection: Connection) -> set[Line]:
            connection.execute(change)
            if prune:
                self._prune(connection)
            return _let_go(connection, lines, me)

        left = await self._write(work)
        # Notifications that are no longer being delivered (rule 5).
        given = zip(lines, deliveries, strict=True)
        self._go_on([line for line, one in given if self._lines.take_back(line, one.number)], left)

    def _go_on(self, lines: Sequence[Line], left: set[Line]) -> None:
        """Queues taken configs again if they have notifications left."""
        for line in lines:
            if line in left:
                self._lines.put(line, self._lines.target(line))
            else:
                self._lines.drop(line)
                self._look_later(line)
        if left:
            self._notify()

    def _look_later(self, line: Line) -> None:
        """A config is released; nothing is added beside that with SQLite."""
        if not self._database.sqlite and not self._releases.put(line):
            self._sweep_at = min(self._sweep_at, self._now() + POLL)

    def _prune(self, connection: Connection) -> None:
        """Deletes the oldest dead letters, so that there are never many more than `most_dead`."""
        newest = select(_ENTRY.number).where(_ENTRY.dead).order_by(_ENTRY.number.desc())
        last = connection.execute(newest.offset(self._most_dead).limit(1)).scalar()
        if last is not None:
            connection.execute(delete(outbox).where(_ENTRY.dead, _ENTRY.number <= last))

    def _url(self, row: Row[Any]) -> str:
        try:
            return _parse_registered(row, self._vault).config.url
        except DecryptionError:
            return ""

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()


#: what `_parse_registered` needs beside task and config
_OF_CONFIG = (
    *(_CONFIG.tenant, _CONFIG.owner, _CONFIG.version, _CONFIG.data, _CONFIG.aside),
    _CONFIG.checksum.label("config_checksum"),
)

_belongs = (_ENTRY.task == _CONFIG.task) & (_ENTRY.config == _CONFIG.id)


def _among(lines: Sequence[Any]) -> Any:
    return tuple_(_CONFIG.task, _CONFIG.id).in_(lines)


def _is_free(me: str) -> Any:
    alive = select(replicas.c.id)
    return (
        (_CONFIG.holder != "")
        & (_CONFIG.holder != me)
        & ((_CONFIG.holder == ANYBODY) | _CONFIG.holder.not_in(alive))
    )


def _any(connection: Connection, wanted: Any) -> bool:
    """True if a query finds a row."""
    return connection.execute(wanted.limit(1)).first() is not None


def _offer(connection: Connection, lines: Sequence[Line], *, sweep: bool) -> None:
    """Offers such configs to all replicas. Deletes notifications whose config does not exist."""
    wanted = _without_holder(lines, sweep=sweep).distinct().limit(_CLAIM)
    found = [tuple(row) for row in connection.execute(wanted)]
    if found:
        _mark_claimable(connection, _among(found) & (_CONFIG.holder == ""), skip_locked=True)
        orphans = tuple_(_ENTRY.task, _ENTRY.config).in_(found) & ~exists().where(_belongs)
        connection.execute(delete(outbox).where(orphans))


def _without_holder(lines: Sequence[Line], *, sweep: bool) -> Any:
    found = select(_ENTRY.task, _ENTRY.config).outerjoin(push_configs, _belongs)
    found = found.where(~_ENTRY.dead, func.coalesce(_CONFIG.holder, "") == "")
    return found if sweep else found.where(_among(lines))


def _heads(connection: Connection, lines: Sequence[Any], me: str) -> Sequence[Any]:
    """The oldest notification of each claimed config, with its config."""
    # By the index, independent of how many wait.
    queue = outbox.alias().c
    first = select(queue.number).where(queue.task == _CONFIG.task, queue.config == _CONFIG.id, ~queue.dead)
    first = first.order_by(queue.number).limit(1)
    delay = (_ENTRY.due - present(connection)).label("delay")
    wanted = select(
        _ENTRY.number,
        _ENTRY.sequence,
        _ENTRY.event,
        _ENTRY.attempts,
        delay,
        _ENTRY.webhook,
        _ENTRY.checksum,
    )
    wanted = wanted.add_columns(_CONFIG.task, _CONFIG.id.label("config"), *_OF_CONFIG)
    wanted = wanted.select_from(push_configs).join(outbox, _ENTRY.number == first.scalar_subquery())
    wanted = wanted.where(_among(lines), _CONFIG.holder == me)
    return connection.execute(wanted).all()


def _let_go(connection: Connection, lines: Sequence[Line], me: str) -> set[Line]:
    """Releases the configs that have no notifications. A notification that is added now is looked for later
    (rule 3). Returns the configs that stay claimed.
    """
    waits = exists().where(_ENTRY.task == _CONFIG.task, _ENTRY.config == _CONFIG.id, ~_ENTRY.dead)
    empty = update(push_configs).where(_among(lines), _CONFIG.holder == me, ~waits)
    if connection.execute(empty.values(holder="")).rowcount == len(lines):
        return set()
    held = select(_CONFIG.task, _CONFIG.id).where(_among(lines), _CONFIG.holder == me)
    return {(task_id, config_id) for task_id, config_id in connection.execute(held)}


def entries(
    connection: Connection,
    vault: Vault,
    *,
    dead: bool | None = None,
    limit: int = 100,
    after: int = 0,
    task_id: str = "",
) -> list[OutboxEntry]:
    """The content of the outbox, by number. URLs are shortened to their targets: the rest is often secret."""
    wanted = select(outbox, *_OF_CONFIG).join(push_configs, _belongs)
    wanted = wanted.where(_ENTRY.number > after).order_by(_ENTRY.number).limit(limit)
    if dead is not None:
        wanted = wanted.where(_ENTRY.dead == dead)
    if task_id:
        wanted = wanted.where(_ENTRY.task == storable(task_id))
    found: list[OutboxEntry] = []
    for row in connection.execute(wanted):
        try:
            url = target_of(_parse_registered(row, vault).config.url)
        except DecryptionError:
            url = ""
        found.append(
            OutboxEntry(
                row.number,
                _scope_of(row),
                original(row.task),
                original(row.config),
                row.sequence,
                url,
                row.attempts,
                row.dead,
                row.error,
                row.created,
            )
        )
    return found


def retry(connection: Connection, numbers: Sequence[int] | None) -> list[int]:
    """Makes dead letters due at once, all if None. Returns their numbers."""
    which = _ENTRY.dead if numbers is None else _ENTRY.dead & _ENTRY.number.in_(numbers)
    found = connection.execute(select(_ENTRY.number, _ENTRY.task, _ENTRY.config).where(which)).all()
    connection.execute(update(outbox).where(which).values(dead=False, attempts=0, due=0.0))
    lines = list({(task_id, config_id) for _, task_id, config_id in found})
    for at in range(0, len(lines), _CLAIM):
        # Also configs that a replica has: it may be delaying a later one, and then finds this one.
        _mark_claimable(connection, _among(lines[at : at + _CLAIM]))
    return [number for number, _, _ in found]


def _change(connection: Connection, change: Any) -> None:
    connection.execute(change)


def _parse_registered(row: Row[Any], vault: Vault) -> Registered:
    """The config of a notification. Raises DecryptionError."""
    key = (row.tenant, row.owner, row.task, row.config)
    return configs.parse_registered(row, key, vault, row.config_checksum)


def _line_of(delivery: Delivery) -> Line:
    return storable(delivery.task_id), storable(delivery.registered.config.id)


def _scope_of(row: Row[Any]) -> Scope:
    return Scope(original(row.tenant), original(row.owner))
