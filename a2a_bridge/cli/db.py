"""`a2a-bridge db`: upgrades or checks the tables of a store. Tasks are not changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.flags import Output, OutputFlags, with_flags
from a2a_bridge.cli.options import PREFIX, Exit

if TYPE_CHECKING:
    from sqlalchemy import Connection

app = command_group("db", "Upgrade or check the tables of a store.")

StoreUrl = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        envvar=PREFIX + "STORE",
        show_default=False,
        help="Store: sqlite:///PATH or postgresql://….",
    ),
]


@app.command(cls=Command)
@with_flags
def upgrade(store: StoreUrl, *, flags: OutputFlags) -> None:
    """Upgrade the tables of a store. A missing SQLite file is created.

    For example:

      a2a-bridge db upgrade postgresql://bridge@db.internal/tasks
    """
    from a2a_bridge.stores.sql.upgrading import HEAD, revision, upgrade

    with _connect(store, writes=True) as connection:
        before = revision(connection)
        if before is None:
            raise _of_something_else()
        if before > HEAD:
            raise _newer(before)
        if before != HEAD:
            upgrade(connection)
    text = f"the tables are those of this version ({HEAD}) already" if before == HEAD else f"now at {HEAD}"
    _say({"before": before, "now": HEAD}, text, flags.output)


@app.command(cls=Command)
@with_flags
def check(store: StoreUrl, *, flags: OutputFlags) -> None:
    """Check that a store has the tables of this version, and that its content is undamaged.

    It reads the whole database, and may be used while a process works with it. The exit code is 1 when
    something is wrong.

    For example:

      a2a-bridge db check sqlite:///.a2a-bridge/Echo.db
    """
    from a2a_bridge.stores.sql.checking import find_damaged
    from a2a_bridge.stores.sql.upgrading import HEAD, revision

    with _connect(store, writes=False) as connection:
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
def _connect(store: str, *, writes: bool) -> Iterator[Connection]:
    """One transaction. To change the tables of a SQLite file, no other process may use it."""
    from a2a_bridge.cli.output import fail, not_opened
    from a2a_bridge.stores import StoreOpenError
    from a2a_bridge.stores.sql.database import parse
    from a2a_bridge.stores.sql.opened import lock_file, report_errors, touch

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
    from a2a_bridge.cli.output import fail

    return fail(Exit.USAGE, "the database has tables of another program", "a separate database")


def _newer(found: str) -> typer.Exit:
    from a2a_bridge.cli.output import fail

    return fail(Exit.USAGE, f"the tables are of a newer version ({found})", "a newer a2a-bridge")


def _say(tree: dict[str, Any], text: str, output: Output) -> None:
    from a2a_bridge.cli.output import data, document

    if output is Output.JSON:
        document(tree)
    else:
        data(text)
