"""The outbox in a database: events come in with the commit that makes them, and go out when they were
delivered.

Rules:
1. One replica delivers for a config at a time. `push_configs.holder` is * when something waits for anybody,
   else who delivers it. A claim of a replica that is not alive is anybody's.
2. Delays are kept on this process's monotonic clock. The times in the rows only matter to who claims a config
   that somebody else has left, and a delay is never longer than LONGEST there, whatever any clock says.
3. No locks beyond a statement's own. Mail that comes in while a config is let go may find it belonging to
   nobody: it is looked for a little later, and all over every now and then.
4. What is ours in the rows is in `_lines`. Where a claim's result was lost it is not: the next claim finds
   that again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4
from zlib import crc32

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, func, insert, select, tuple_, update

from a2a_bridge.core.errors import A2AError
from a2a_bridge.hosting.ports import Delivery, OutboxEntry, Registered, Scope
from a2a_bridge.hosting.stores.sql import push_configs as configs
from a2a_bridge.hosting.stores.sql.checksums import DamagedError, parsed
from a2a_bridge.hosting.stores.sql.push_configs import Reads, SqlPushConfigStore, Writes, forget
from a2a_bridge.hosting.stores.sql.schema import outbox, push_configs, replicas
from a2a_bridge.hosting.stores.sql.text import original, storable
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.fair_queue import FairQueue
from a2a_bridge.push.target import target_of
from a2a_bridge.push.vault import DecryptionError, Vault

__all__ = ["NewDelivery", "SqlOutbox", "SqlPushConfigStore", "entries", "forget", "post_events", "retry"]

log = logging.getLogger("a2a_bridge.push")

#: seconds that what somebody else left may have to wait at most
LONGEST = 600.0
#: seconds after which we look for mail that nobody told us of
POLL = 5.0
#: seconds after which we look for mail of configs that belong to nobody
SWEEP = 60.0
#: how many configs are claimed at once
_CLAIM = 500
#: dead letters between two looks at how many there are
_PRUNE = 100
_DAMAGED = "the notification is damaged in the store"

_ANYBODY = "*"
_O = outbox.c
_C = push_configs.c
#: task, config, as they stand in rows
_Line = tuple[str, str]


class NewDelivery(NamedTuple):
    """Events of one task, serialized. first: the number of the first of them; the others count on."""

    scope: Scope
    task_id: str
    first: int
    events: list[bytes]


def post_events(connection: Connection, mail: Sequence[NewDelivery]) -> int:
    """Puts events in, once for each config of their task. How many that makes. At most three statements."""
    of_tasks = [(storable(one.task_id), one) for one in mail]
    wanted = select(_C.task, _C.id).where(_C.task.in_([task_id for task_id, _ in of_tasks]))
    receivers: dict[str, list[str]] = {}
    for task_id, config_id in connection.execute(wanted.order_by(_C.ordinal)):
        receivers.setdefault(task_id, []).append(config_id)
    if not receivers:
        return 0
    now = time.time()
    rows = [
        _row(task_id, config_id, number, event, now)
        for task_id, one in of_tasks
        for number, event in enumerate(one.events, one.first)
        for config_id in receivers.get(task_id, ())
    ]
    connection.execute(insert(outbox), rows)
    _make_anybodys(connection, _C.task.in_(list(receivers)) & (_C.holder == ""))
    return len(rows)


def _make_anybodys(connection: Connection, which: ColumnElement[bool], *, skip_locked: bool = False) -> None:
    """Offers configs to whoever delivers.

    skip_locked: not those that another transaction changes just now.
    """
    if connection.dialect.name != "sqlite":
        # In the order in which all lock them: several replicas may do this at once.
        wanted = select(_C.task, _C.id).where(which)
        wanted = wanted.order_by(_C.task.collate("C"), _C.id.collate("C"))
        found = [tuple(row) for row in connection.execute(wanted.with_for_update(skip_locked=skip_locked))]
        if not found:
            return
        which = _among(found)
    connection.execute(update(push_configs).where(which).values(holder=_ANYBODY))


def _row(task_id: str, config_id: str, sequence: int, event: bytes, now: float) -> dict[str, Any]:
    return {
        "task": task_id,
        "config": config_id,
        "sequence": sequence,
        "event": event,
        "checksum": crc32(event),
        "due": now,
        "created": now,
        "webhook": str(uuid4()),
    }


class _Head(NamedTuple):
    line: _Line
    url: str
    seconds: float


class SqlOutbox:
    """Implements Outbox.

    me: the id of this replica at present. now, wall: seconds on a clock that never jumps, and since the
    epoch. most_dead: how many that were given up are kept for operators.
    """

    def __init__(
        self,
        database: Reads,
        writer: Writes,
        me: Callable[[], str],
        vault: Vault | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        most_dead: int = 10_000,
    ) -> None:
        self._database = database
        self._writer = writer
        self._me = me
        self._vault = vault or Vault()
        self._now = now
        self._wall = wall
        self._most_dead = most_dead
        self._lines: FairQueue[_Line] = FairQueue(now)
        self._who = ""
        self._tell: list[Callable[[], None]] = []
        self._looking = True
        self._look_at = now()
        self._sweep_at = now()
        self._buried = 0
        #: whether there was a claim whose result has not arrived; set by the writer's thread, as the claim is
        #: made
        self._unsure = False
        #: lines that were let go since the last look, and before it
        self._freed: list[_Line] = []
        self._freed_before: list[_Line] = []

    # ------------------------------------------------------------------ what comes in

    def on_new(self, tell: Callable[[], None], /) -> None:
        self._tell.append(tell)

    def outbox_changed(self) -> None:
        """Something was put in, here or elsewhere. To be called on the loop, after the commit."""
        self._looking = True
        self._notify()

    def redirect(self, line: _Line, url: str) -> None:
        """A config was given another URL: what waits for it here waits for nothing that the old target has
        brought about.
        """
        if self._lines.redirect(line, target_of(url)):
            self._notify()

    async def post(self, scope: Scope, registered: Registered, event: hub.StreamResponse, /) -> None:
        values = configs.row_of(scope, registered, self._vault)
        octets = event.SerializeToString()
        task_id, config_id = values["task"], values["id"]

        def work(connection: Connection) -> None:
            configs.insert(connection, values, most=None, replace=False)
            connection.execute(insert(outbox), [_row(task_id, config_id, 0, octets, self._wall())])
            idle = update(push_configs).where(_C.task == task_id, _C.id == config_id, _C.holder == "")
            connection.execute(idle.values(holder=_ANYBODY))

        await self._writer.write(work, order=("push_configs", task_id, config_id))
        self.outbox_changed()

    # ------------------------------------------------------------------ what goes out

    async def due(self, limit: int, room: Callable[[str], int], /) -> list[Delivery]:
        if self._who != self._me():
            # We were taken for dead: what we had claimed may be somebody else's by now.
            self._who = self._me()
            self._lines = FairQueue(self._now)
            self._looking = True
        if self._looking or self._now() >= self._look_at:
            await self._claim()
        lines = self._lines.take(limit, room)
        if not lines:
            return []
        try:
            rows = await self._database.read(lambda connection: _heads(connection, lines, self._who))
            return await self._parcels(lines, rows)
        except BaseException:
            for line in lines:
                self._lines.put(line, "", 1.0)
            raise

    async def wait(self) -> float | None:
        until_look = max(0.0, self._look_at - self._now())
        seconds = self._lines.wait()
        return until_look if seconds is None else min(seconds, until_look)

    async def sent(self, deliveries: Sequence[Delivery], /) -> None:
        numbers = [delivery.number for delivery in deliveries]
        await self._settle(deliveries, delete(outbox).where(_O.number.in_(numbers)))

    async def again(self, delivery: Delivery, error: str, seconds: float, /) -> None:
        changed = update(outbox).where(_O.number == delivery.number)
        changed = changed.values(attempts=_O.attempts + 1, error=error, due=self._wall() + seconds)
        await self._writer.write(lambda connection: connection.execute(changed).rowcount)
        line = _line_of(delivery)
        if line in self._lines:
            self._lines.put(line, self._lines.target(line), seconds)
            self._notify()

    async def dead(self, delivery: Delivery, error: str, /) -> None:
        changed = update(outbox).where(_O.number == delivery.number)
        await self._settle([delivery], changed.values(attempts=_O.attempts + 1, error=error, dead=True))
        self._buried += 1
        if self._buried % _PRUNE == 1:
            await self._writer.write(self._prune)

    async def entries(
        self, *, dead: bool | None = None, limit: int = 100, after: int = 0
    ) -> list[OutboxEntry]:
        def work(connection: Connection) -> list[OutboxEntry]:
            return entries(connection, self._vault, dead=dead, limit=limit, after=after)

        return await self._database.read(work)

    async def retry(self, numbers: Sequence[int] | None, /) -> int:
        count = await self._writer.write(lambda connection: retry(connection, numbers))
        self.outbox_changed()
        return count

    # ------------------------------------------------------------------ claims

    async def _claim(self) -> None:
        """Takes over configs with mail that nobody alive delivers for."""
        self._looking = False
        me = self._who
        sweep = self._now() >= self._sweep_at
        # Who looks at once may look before the mail is there that came in while the line was let go.
        gone = self._freed_before if self._now() >= self._look_at else []
        try:
            if await self._database.read(lambda connection: _lost(connection, gone, sweep=sweep)):
                await self._writer.write(lambda connection: _offer(connection, gone, sweep=sweep))
            if sweep and await self._database.read(lambda connection: bool(self._mislaid(connection, me))):
                self._unsure = True
            if self._unsure or await self._database.read(lambda connection: _free(connection, me)):
                heads = await self._writer.write(lambda connection: self._take_over(connection, me))
                self._unsure = False
                for line, url, seconds in heads:
                    if line not in self._lines:
                        self._lines.put(line, target_of(url), seconds)
                self._looking = len(heads) >= _CLAIM
        except A2AError:
            self._looking = True
            raise
        if self._now() >= self._look_at:
            self._look_at = self._now() + POLL
            self._freed_before, self._freed = self._freed, []
        if sweep:
            self._sweep_at = self._now() + SWEEP

    def _take_over(self, connection: Connection, me: str) -> list[_Head]:
        # Who asked may be gone before this is committed, and it may be done again although it was committed:
        # until a result has arrived, the rows tell what was claimed.
        lines = self._mislaid(connection, me) if self._unsure else []
        self._unsure = True
        wanted = select(_C.task, _C.id).where(_is_free(me)).limit(max(0, _CLAIM - len(lines)))
        free = [(row.task, row.id) for row in connection.execute(wanted.with_for_update(skip_locked=True))]
        if free:
            connection.execute(update(push_configs).where(_among(free)).values(holder=me))
            lines += free
        if not lines:
            return []
        rows = _heads(connection, lines, me)
        if len(rows) < len(lines):
            found = {(row.task, row.id) for row in rows}
            kept = _let_go(connection, [line for line in lines if line not in found], me)
            rows = [*rows, *_heads(connection, list(kept), me)]
        now = self._wall()
        return [
            _Head((row.task, row.id), self._url(row), min(max(0.0, row.due - now), LONGEST)) for row in rows
        ]

    def _mislaid(self, connection: Connection, me: str) -> list[_Line]:
        """What is ours in the rows, and nothing to us.

        In a thread: somebody may just be done with some of it.
        """
        held = select(_C.task, _C.id).where(_C.holder != "", _C.holder == me)
        return [(task, name) for task, name in connection.execute(held) if (task, name) not in self._lines]

    async def _parcels(self, lines: Sequence[_Line], rows: Sequence[Any]) -> list[Delivery]:
        deliveries: list[Delivery] = []
        waiting = {(row.task, row.id): row for row in rows}
        shut: dict[str, list[int]] = {}
        damaged: list[tuple[_Line, int]] = []
        for line in lines:
            row = waiting.get(line)
            if row is None:
                continue
            try:
                registered = configs.registered_of(row, self._vault, row.config_checksum)
            except DecryptionError as error:
                log.error("a push config of task %s: %s", row.task, configs.why(error))  # noqa: TRY400  the text says it
                shut.setdefault(configs.why(error), []).append(row.number)
                self._lines.put(line, "", LONGEST)
                continue
            target = target_of(registered.config.url)
            if target != self._lines.target(line):  # it was given another URL
                self._lines.put(line, target)
                continue
            try:
                event = parsed(row.task, hub.StreamResponse.FromString, row.event, row.checksum)
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
            said = update(outbox).where(_O.number.in_(numbers)).values(error=error_text)
            await self._writer.write(partial(_changed, change=said))
        if damaged:  # it cannot be delivered, and those behind it can
            buried = update(outbox).where(_O.number.in_([number for _, number in damaged]))
            buried = buried.values(error=_DAMAGED, dead=True)
            await self._writer.write(partial(_changed, change=buried))
            for line, _ in damaged:
                self._lines.put(line, self._lines.target(line))
            self._notify()
        empty = [line for line in lines if line not in waiting]
        if empty:  # the config was deleted, or is not ours, or there is nothing for it any more
            left = await self._writer.write(lambda connection: _let_go(connection, empty, self._who))
            self._go_on(empty, left)
        return deliveries

    async def _settle(self, deliveries: Sequence[Delivery], change: Any) -> None:
        """Does something about parcels, and lets what follows them have its turn."""
        lines = [_line_of(delivery) for delivery in deliveries]
        me = self._who

        def work(connection: Connection) -> set[_Line]:
            connection.execute(change)
            more = select(_O.task, _O.config).where(tuple_(_O.task, _O.config).in_(lines), ~_O.dead)
            left = {(task_id, config_id) for task_id, config_id in connection.execute(more.distinct())}
            empty = [line for line in lines if line not in left]
            return left | _let_go(connection, empty, me) if empty else left

        self._go_on(lines, await self._writer.write(work))

    def _go_on(self, lines: Sequence[_Line], left: set[_Line]) -> None:
        """Has lines that are out wait for their turn again where something is left in them."""
        for line in lines:
            if line in left and line in self._lines:
                self._lines.put(line, self._lines.target(line))
            else:
                self._drop(line)
        if left:
            self._notify()

    def _drop(self, line: _Line) -> None:
        self._lines.drop(line)
        if len(self._freed) < _CLAIM:
            self._freed.append(line)

    def _prune(self, connection: Connection) -> None:
        """Forgets the oldest dead letters, so that there are never many more than `most_dead`."""
        newest = select(_O.number).where(_O.dead).order_by(_O.number.desc())
        last = connection.execute(newest.offset(self._most_dead).limit(1)).scalar()
        if last is not None:
            connection.execute(delete(outbox).where(_O.dead, _O.number <= last))

    def _url(self, row: Row[Any]) -> str:
        try:
            return configs.registered_of(row, self._vault, row.config_checksum).config.url
        except DecryptionError:
            return ""

    def _notify(self) -> None:
        for tell in self._tell:
            tell()


_belongs = (_O.task == _C.task) & (_O.config == _C.id)


def _among(lines: Sequence[Any]) -> Any:
    return tuple_(_C.task, _C.id).in_(lines)


def _is_free(me: str) -> Any:
    alive = select(replicas.c.id)
    return (_C.holder != "") & (_C.holder != me) & ((_C.holder == _ANYBODY) | _C.holder.not_in(alive))


def _free(connection: Connection, me: str) -> bool:
    """Whether there is anything to take over."""
    return connection.execute(select(_C.task).where(_is_free(me)).limit(1)).first() is not None


def _lost(connection: Connection, lines: Sequence[_Line], *, sweep: bool) -> bool:
    """Whether there is mail for configs that belong to nobody: some of them, or any."""
    if not lines and not sweep:
        return False
    return connection.execute(_strays(lines, sweep=sweep).limit(1)).first() is not None


def _offer(connection: Connection, lines: Sequence[_Line], *, sweep: bool) -> None:
    """Makes such configs anybody's."""
    found = [tuple(row) for row in connection.execute(_strays(lines, sweep=sweep).distinct().limit(_CLAIM))]
    if found:
        _make_anybodys(connection, _among(found) & (_C.holder == ""), skip_locked=True)


def _strays(lines: Sequence[_Line], *, sweep: bool) -> Any:
    found = select(_O.task, _O.config).join(push_configs, _belongs).where(~_O.dead, _C.holder == "")
    return found if sweep else found.where(_among(lines))


def _heads(connection: Connection, lines: Sequence[Any], me: str) -> Sequence[Any]:
    """The oldest notification of each line that is ours, with its config."""
    first = select(func.min(_O.number)).where(tuple_(_O.task, _O.config).in_(lines), ~_O.dead)
    first = first.group_by(_O.task, _O.config)
    wanted = select(
        _O.number,
        _O.sequence,
        _O.event,
        _O.attempts,
        _O.due,
        _O.webhook,
        _O.checksum,
        _C.task,
        _C.id,
        _C.tenant,
        _C.owner,
        _C.version,
        _C.data,
        _C.aside,
        _C.checksum.label("config_checksum"),
    )
    wanted = wanted.join(push_configs, _belongs).where(_O.number.in_(first), _C.holder == me)
    return connection.execute(wanted).all()


def _let_go(connection: Connection, lines: Sequence[_Line], me: str) -> set[_Line]:
    """FairQueue with nothing in them are nobody's. What comes in at this moment is looked for later: rule 3.

    Those that stay ours: something came in for them since they were seen to be empty.
    """
    waits = exists().where(_O.task == _C.task, _O.config == _C.id, ~_O.dead)
    empty = update(push_configs).where(_among(lines), _C.holder == me, ~waits)
    if connection.execute(empty.values(holder="")).rowcount == len(lines):
        return set()
    held = select(_C.task, _C.id).where(_among(lines), _C.holder == me)
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
    """What is in the outbox, by number. Of URLs only where they lead: the rest is often secret."""
    config = (_C.tenant, _C.owner, _C.version, _C.data, _C.aside, _C.checksum.label("config_checksum"))
    wanted = select(outbox, *config).join(push_configs, _belongs)
    wanted = wanted.where(_O.number > after).order_by(_O.number).limit(limit)
    if dead is not None:
        wanted = wanted.where(_O.dead == dead)
    if task_id:
        wanted = wanted.where(_O.task == storable(task_id))
    found: list[OutboxEntry] = []
    for row in connection.execute(wanted):
        try:
            url = target_of(configs.registered_of(row, vault, row.config_checksum).config.url)
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


def retry(connection: Connection, numbers: Sequence[int] | None) -> int:
    """Makes dead letters due at once, all when None. How many there were."""
    wanted = select(_O.task, _O.config).where(_O.dead)
    changed = update(outbox).where(_O.dead)
    if numbers is not None:
        wanted, changed = wanted.where(_O.number.in_(numbers)), changed.where(_O.number.in_(numbers))
    lines = [tuple(row) for row in connection.execute(wanted.distinct())]
    count: int = connection.execute(changed.values(dead=False, attempts=0, due=0.0)).rowcount
    for at in range(0, len(lines), _CLAIM):
        _make_anybodys(connection, _among(lines[at : at + _CLAIM]) & (_C.holder == ""))
    return count


def _changed(connection: Connection, change: Any) -> int:
    count: int = connection.execute(change).rowcount
    return count


def _line_of(delivery: Delivery) -> _Line:
    return storable(delivery.task_id), storable(delivery.registered.config.id)


def _scope_of(row: Row[Any]) -> Scope:
    return Scope(original(row.tenant), original(row.owner))
