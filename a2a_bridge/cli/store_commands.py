"""`a2a-bridge db` upgrades or checks the tables of a store, and changes no tasks. `a2a-bridge push` lists
pending notifications and dead letters, and queues dead letters again; it delivers none, and works on the
database beside the servers that use it, which notice within seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.flags import Output, OutputFlags, StoreKeyFlags
from a2a_bridge.cli.output import columns, data, document, fail, not_opened, print_message
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.values import Exit, usage_error
from a2a_bridge.core.options import PREFIX, flag

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from a2a_bridge.push.ports import OutboxEntry

db = command_group("db", "Upgrade or check the tables of a store.")

StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        envvar=PREFIX + "STORE",
        show_default=False,
        help="Store: sqlite:///PATH or postgresql://….",
    ),
]


@db.command(cls=Command)
@with_flags
def upgrade(store: StoreArgument, *, flags: OutputFlags) -> None:
    """Upgrade the tables of a store. A missing SQLite file is created.

    For example:

      a2a-bridge db upgrade postgresql://bridge@db.internal/tasks
    """
    from a2a_bridge.stores.sql.store import HEAD, revision, upgrade

    with _connect_alone(store, writes=True) as connection:
        before = revision(connection)
        if before is None:
            raise _of_something_else()
        if before > HEAD:
            raise fail(Exit.USAGE, f"the tables are of a newer version ({before})", "a newer a2a-bridge")
        if before != HEAD:
            upgrade(connection)
    text = f"the tables are those of this version ({HEAD}) already" if before == HEAD else f"now at {HEAD}"
    _say({"before": before, "now": HEAD}, text, flags.output)


@db.command(cls=Command)
@with_flags
def check(store: StoreArgument, *, flags: OutputFlags) -> None:
    """Check that a store has the tables of this version, and that its content is undamaged.

    It reads the whole database, and may be used while a process works with it. The exit code is 1 when
    something is wrong.

    For example:

      a2a-bridge db check sqlite:///.a2a-bridge/Echo.db
    """
    from a2a_bridge.stores.sql.checking import find_damaged
    from a2a_bridge.stores.sql.store import HEAD, revision

    with _connect_alone(store, writes=False) as connection:
        found = revision(connection)
        broken = list(find_damaged(connection)) if found == HEAD else []
    if found is None:
        raise _of_something_else()
    text = f"the tables are those of this version ({HEAD})"
    if found != HEAD:
        text = f"the tables are at {found}" if found else "there are no tables yet"
        text += f"; this version needs {HEAD}"
    for row in broken:
        text += f"\ndamaged: {row.table} {row.key}, of task {row.task}"
    _say({"found": found, "needed": HEAD, "damaged": [row._asdict() for row in broken]}, text, flags.output)
    if found != HEAD or broken:
        raise typer.Exit(Exit.FAILURE)


@contextmanager
def _connect_alone(store: str, *, writes: bool) -> Iterator[Connection]:
    """A transaction of `db`. To change the tables of a SQLite file, no other process may use it."""
    from a2a_bridge.stores import StoreOpenError
    from a2a_bridge.stores.sql.database import parse
    from a2a_bridge.stores.sql.store import lock_file, report_errors, touch

    try:
        with ExitStack() as stack:
            url = parse(store)
            if url.get_backend_name() == "sqlite":
                path = Path(str(url.database))
                if writes:
                    stack.enter_context(lock_file(path))
                    touch(path)
                elif not path.exists():
                    raise fail(Exit.USAGE, f"there is no file {path}", f"a2a-bridge db upgrade {store}")
            database = stack.enter_context(report_errors(url))
            connection = stack.enter_context(database.connect(writes=writes))
            with connection.begin():
                yield connection
    except StoreOpenError as error:
        # This command takes the URL as an argument.
        raise not_opened(error, error.remedy.removeprefix("--store ")) from None


def _of_something_else() -> typer.Exit:
    return fail(Exit.USAGE, "the database has tables of another program", "a separate database")


def _say(tree: dict[str, Any], text: str, output: Output) -> None:
    if output is Output.JSON:
        document(tree)
    else:
        data(text)


push = command_group("push", "List push notifications and dead letters, and send dead letters again.")

#: the largest integer of a database; a larger one is an error of its driver
_LARGEST = 2**63 - 1

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=PREFIX + "STORE",
        help="Store of the server: sqlite:///PATH or postgresql://….",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ListFlags(StoreKeyFlags, OutputFlags):
    """The flags of `push list`."""

    dead: bool = flag(False, "Only dead letters.", variable="")
    waiting: bool = flag(False, "Only pending notifications.", variable="")
    task: str = flag("", "Only of this task.", "ID", variable="")
    limit: int = flag(100, "Largest number of rows.", "COUNT", least=1, variable="")
    after: int = flag(0, "Only after this number.", "NUMBER", least=0, variable="")


@push.command("list", cls=Command)
@with_flags
def list_(*, store: StoreOption, flags: ListFlags) -> None:
    """Show pending notifications and dead letters (notifications whose delivery failed for good).

    For example:

      a2a-bridge push list --store sqlite:///.a2a-bridge/Echo.db --dead
    """
    from a2a_bridge.cli.server_options import keys_of
    from a2a_bridge.push.secrets import Vault
    from a2a_bridge.stores.sql.push import entries

    wanted = None if flags.dead == flags.waiting else flags.dead
    vault = Vault(keys_of(flags.store_key))
    with _connect_beside(store, writes=False) as connection:
        found = entries(
            connection,
            vault,
            dead=wanted,
            limit=min(flags.limit, _LARGEST),
            after=min(flags.after, _LARGEST),
            task_id=flags.task,
        )
    if flags.output is Output.JSON:
        document({"notifications": [_tree(one) for one in found]})
    else:
        data(columns(_table(found)))


@push.command(cls=Command)
@with_flags
def retry(
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="[NUMBER]…", help="Dead letters, as `push list` shows them.")
    ] = None,
    *,
    store: StoreOption,
    every: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    flags: OutputFlags,
) -> None:
    """Queue dead letters again, in their original order, with a fresh number of attempts.

    The exit code is 1 if a number does not belong to a dead letter.

    For example:

      a2a-bridge push retry --store sqlite:///.a2a-bridge/Echo.db 17 18

      a2a-bridge push retry --store postgresql://… --all
    """
    from a2a_bridge.stores.sql.push import retry

    if every == bool(numbers):
        raise usage_error("NUMBER", "name some, or say --all")
    with _connect_beside(store, writes=True) as connection:
        known = [one for one in numbers or () if abs(one) <= _LARGEST]
        count = len(retry(connection, None if every else known))
    if flags.output is Output.JSON:
        document({"retried": count})
    else:
        data(f"{count} to be sent again")
    if numbers and count < len(set(numbers)):
        print_message(f"{len(set(numbers)) - count} of these numbers are not dead letters")
        raise typer.Exit(Exit.FAILURE)


@push.command(cls=Command)
def key() -> None:
    """Generate a key for `--store-key`, which encrypts the credentials in a store."""
    from a2a_bridge.core.extras import MissingExtraError
    from a2a_bridge.push.secrets import new_key

    try:
        data(new_key())
    except MissingExtraError as error:
        raise fail(Exit.USAGE, error.text, error.remedy) from None


@contextmanager
def _connect_beside(store: str, *, writes: bool) -> Iterator[Connection]:
    """A transaction of `push`; other processes may use the store at the same time."""
    from a2a_bridge.stores import StoreOpenError
    from a2a_bridge.stores.sql.database import mask_url, parse
    from a2a_bridge.stores.sql.store import HEAD, report_errors, revision

    try:
        url = parse(store)
        if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
            raise fail(Exit.USAGE, f"there is no file {url.database}", "--store sqlite:///PATH")
        with (
            report_errors(url) as database,
            database.connect(writes=writes) as connection,
            connection.begin(),
        ):
            if revision(connection) != HEAD:
                upgrade = f"a2a-bridge db upgrade {mask_url(url)}"
                raise fail(Exit.USAGE, "the store does not have the tables of this version", upgrade)
            yield connection
    except StoreOpenError as error:
        raise not_opened(error) from None


def _tree(letter: OutboxEntry) -> dict[str, Any]:
    return {
        "number": letter.number,
        "state": "dead" if letter.dead else "waiting",
        "task": letter.task_id,
        "config": letter.config_id,
        "tenant": letter.scope.tenant,
        "owner": letter.scope.owner,
        "event": letter.sequence,
        "target": letter.url,
        "attempts": letter.attempts,
        "error": letter.error,
        "created": letter.created,
    }


def _table(entries: list[OutboxEntry]) -> list[list[str]]:
    if not entries:
        return [["nothing waits, and nothing was given up"]]
    lines = [["NUMBER", "STATE", "TASK", "EVENT", "TARGET", "ATTEMPTS", "AGE", "ERROR"]]
    now = time.time()
    for one in entries:
        age = f"{max(0, int(now - one.created))}s"
        state = "dead" if one.dead else "waiting"
        numbers = str(one.number), str(one.sequence), str(one.attempts)
        lines.append([numbers[0], state, one.task_id, numbers[1], one.url, numbers[2], age, one.error])
    return lines
