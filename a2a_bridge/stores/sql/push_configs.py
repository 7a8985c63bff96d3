"""Push notification configs in a database. Encrypted if there is a key; see a2a_bridge.push.secrets.

Rules:
1. A row that no key decrypts, or that is damaged, is an error of that row: to read it fails, lists omit it.
2. A config of another scope does not exist for a caller, even with the right task id.
3. Ids and scopes are converted by `storable` for rows; callers see the original ones.
4. A notification that another replica adds while this replica releases its config is for nobody else (see
   `push`). So each released config is looked at soon after, when most transactions have ended, and once more.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from sqlalchemy import ColumnElement, Connection, Row, delete, func, select, update

from a2a_bridge.core.errors import A2AError, Reason, internal_error, task_not_found
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import DecryptionError, Vault
from a2a_bridge.push.ssrf_policy import target_of
from a2a_bridge.stores.ports import Registered, Scope
from a2a_bridge.stores.row_format import DamagedError, checksum_of, intact, original, storable
from a2a_bridge.stores.sql.database import Database, build_insert, present
from a2a_bridge.stores.sql.schema import outbox, push_configs

log = logging.getLogger("a2a_bridge.push")


#: the holder of a config whose notifications any replica may deliver
ANYBODY = "*"
#: seconds from the release of a config to the first look, and from there to the second
SOON, LATER = 0.25, 5.0
#: the most configs that wait for either look
MOST = 500

#: task and config, as in rows
Line = tuple[str, str]
#: see `SqlStore.write`
Write = Callable[..., Awaitable[Any]]
_C = push_configs.c


class Releases:
    """Configs that this replica has released, for later looks. It reads no rows. now: a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: with the time of the look
        self._first: deque[tuple[float, Line]] = deque()
        self._second: deque[tuple[float, Line]] = deque()

    def put(self, line: Line) -> bool:
        """A config is released. Returns False if too many wait: this config will not be looked at."""
        if len(self._first) >= MOST:
            return False
        self._first.append((self._now() + SOON, line))
        return True

    @property
    def next_look(self) -> float:
        """When the next first look is due; a second look may be late."""
        return self._first[0][0] if self._first else float("inf")

    def take(self) -> list[Line]:
        """The configs to look at now."""
        now = self._now()
        second = _take(self._second, now)
        first = _take(self._first, now)
        self._second += [(now + LATER, line) for line in first[: MOST - len(self._second)]]
        return first + second


def _take(looks: deque[tuple[float, Line]], now: float) -> list[Line]:
    found = []
    while looks and looks[0][0] <= now:
        found.append(looks.popleft()[1])
    return found


class DamagedConfigError(DecryptionError):
    """The row of a config is damaged."""


class SqlPushConfigStore:
    """Implements PushConfigStore. me: returns this replica's present id. most_per_task: maximum configs."""

    def __init__(
        self,
        database: Database,
        write: Write,
        me: Callable[[], str],
        vault: Vault | None = None,
        *,
        most_per_task: int = 100,
    ) -> None:
        self._database = database
        self._write = write
        self._me = me
        self._vault = vault or Vault()
        self._most = most_per_task
        #: called with a config, its new URL, and whether another replica has lost it for that
        self.on_changed: Callable[[tuple[str, str], str, bool], None] | None = None

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None:
        values = row_of(scope, registered, self._vault)
        url, me = registered.config.url, self._me()

        def work(connection: Connection) -> bool:
            moved = replace and self._moves(connection, values, url)
            insert(connection, values, most=self._most, replace=replace)
            return moved and _release(connection, values["task"], values["id"], me)

        released = await self._write(work, order=("push_configs", values["task"], values["id"]))
        if replace and self.on_changed is not None:
            self.on_changed((values["task"], values["id"]), url, released)

    async def get(self, scope: Scope, task_id: str, config_id: str, /) -> Registered | None:
        key = key_of(scope, task_id, config_id)
        wanted = select(push_configs).where(_of(scope, task_id), _C.id == key[-1])
        row = await self._database.read(lambda connection: connection.execute(wanted).one_or_none())
        if row is None:
            return None
        try:
            return parse_registered(row, key, self._vault, row.checksum)
        except DecryptionError as error:
            _complain(row, error)
            damaged = isinstance(error, DamagedConfigError)
            raise DamagedError(task_id) if damaged else internal_error() from None

    async def list(self, scope: Scope, task_id: str, /) -> list[Registered]:
        wanted = select(push_configs).where(_of(scope, task_id)).order_by(_C.ordinal, _C.id)
        rows = await self._database.read(lambda connection: connection.execute(wanted).all())
        found: list[Registered] = []
        for row in rows:
            try:
                found.append(
                    parse_registered(row, key_of(scope, task_id, original(row.id)), self._vault, row.checksum)
                )
            except DecryptionError as error:
                _complain(row, error)
        return found

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None:
        task, config = storable(task_id), storable(config_id)

        def work(connection: Connection) -> None:
            gone = delete(push_configs).where(_of(scope, task_id), _C.id == config)
            if connection.execute(gone).rowcount:
                connection.execute(delete(outbox).where(outbox.c.task == task, outbox.c.config == config))

        await self._write(work, order=("push_configs", task, config))

    def _moves(self, connection: Connection, values: dict[str, Any], url: str) -> bool:
        """True if a config exists with another target, or is unreadable."""
        wanted = select(push_configs).where(_C.task == values["task"], _C.id == values["id"])
        row = connection.execute(wanted).one_or_none()
        if row is None:
            return False
        try:
            key = (row.tenant, row.owner, row.task, row.id)
            known = parse_registered(row, key, self._vault, row.checksum)
        except DecryptionError:
            return True
        return target_of(known.config.url) != target_of(url)


def _release(connection: Connection, task: str, config: str, me: str) -> bool:
    """Ends the delay of a config that another replica delivers for, by offering it to all. Returns False if
    there is no such replica.
    """
    theirs = update(push_configs).where(_C.task == task, _C.id == config, _C.holder.not_in(("", ANYBODY, me)))
    if not connection.execute(theirs.values(holder=ANYBODY)).rowcount:
        return False
    waits = outbox.c.due > present(connection)
    delayed = update(outbox).where(outbox.c.task == task, outbox.c.config == config, ~outbox.c.dead, waits)
    connection.execute(delayed.values(due=0.0))
    return True


def forget(connection: Connection, task_ids: Sequence[str]) -> None:
    """Deletes the configs of tasks and their notifications, together with the tasks. Ids are as in rows."""
    connection.execute(delete(outbox).where(outbox.c.task.in_(task_ids)))
    connection.execute(delete(push_configs).where(_C.task.in_(task_ids)))


def row_of(scope: Scope, registered: Registered, vault: Vault) -> dict[str, Any]:
    """A config as a row, without its position among the others of its task."""
    config = registered.config
    data = vault.encrypt(config.SerializeToString())
    aside = vault.encrypt(registered.side_channel.encode()) if registered.side_channel else b""
    key = key_of(scope, config.task_id, config.id)
    return dict(zip(("tenant", "owner", "task", "id"), key, strict=True)) | {
        "version": registered.version,
        "data": data,
        "aside": aside,
        "checksum": checksum_of(key, data, aside),
    }


def key_of(scope: Scope, task_id: str, config_id: str) -> tuple[str, ...]:
    """What identifies a config in its checksum, as in rows."""
    return storable(scope.tenant), storable(scope.owner), storable(task_id), storable(config_id)


def parse_registered(row: Row[Any], key: Sequence[str], vault: Vault, checksum: int | None) -> Registered:
    """The reverse of `row_of`. key: see `key_of`. Raises DecryptionError."""
    if not intact(checksum, key, row.data, row.aside):
        raise DamagedConfigError
    try:
        config = hub.TaskPushNotificationConfig.FromString(vault.decrypt(row.data))
    except DecodeError:
        raise DamagedConfigError from None
    return Registered(config, row.version, vault.decrypt(row.aside).decode() if row.aside else "")


def insert(connection: Connection, values: dict[str, Any], *, most: int | None, replace: bool = True) -> None:
    """Inserts a row, or replaces an earlier row if `replace`. Raises RESOURCE_EXHAUSTED, TASK_NOT_FOUND."""
    task_id = values["task"]
    here = select(_C.tenant, _C.owner, func.count(), func.max(_C.ordinal)).where(_C.task == task_id)
    homes = connection.execute(here.group_by(_C.tenant, _C.owner)).all()
    if any((tenant, owner) != (values["tenant"], values["owner"]) for tenant, owner, *_ in homes):
        raise task_not_found(original(task_id))
    count, last = (homes[0][2], homes[0][3]) if homes else (0, 0)
    if most is not None and count >= most:
        known = select(_C.id).where(_C.task == task_id, _C.id == values["id"])
        if connection.execute(known).one_or_none() is None:
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "the task has too many push notification configs")
    putting = build_insert(connection, push_configs).values(values | {"ordinal": last + 1})
    key = [_C.task, _C.id]
    if replace:
        changed = {name: putting.excluded[name] for name in ("version", "data", "aside", "checksum")}
        connection.execute(putting.on_conflict_do_update(index_elements=key, set_=changed))
    else:
        connection.execute(putting.on_conflict_do_nothing(index_elements=key))


def _of(scope: Scope, task_id: str) -> ColumnElement[bool]:
    return (
        (_C.task == storable(task_id))
        & (_C.tenant == storable(scope.tenant))
        & (_C.owner == storable(scope.owner))
    )


def why(error: DecryptionError) -> str:
    """The message for a config that cannot be read."""
    if isinstance(error, DamagedConfigError):
        return "the config is damaged in the store"
    return "the credentials cannot be opened with the keys that are configured"


def _complain(row: Row[Any], error: DecryptionError) -> None:
    log.error("a push config of task %s: %s", row.task, why(error))
