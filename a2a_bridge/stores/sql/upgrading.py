"""Checks whether a database has the tables of this version, and creates them. The steps are in `migrations`.

Opening a store checks and changes nothing; only a new and empty SQLite file gets its tables at once.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from a2a_bridge.stores.sql import migrations

#: the last migration that this version needs
HEAD = "0004"

_TABLE = "alembic_version"
#: Alembic keeps its state in module variables
_ALONE = threading.Lock()


def revision(connection: Connection) -> str | None:
    """The last applied migration: empty if there are no tables at all, None if the tables are not this
    project's.
    """
    names = set(inspect(connection).get_table_names())
    found = ""
    if _TABLE in names:
        found = connection.scalar(text(f"SELECT version_num FROM {_TABLE}")) or ""  # noqa: S608  a constant
    return None if not found and names - {_TABLE} else found


def upgrade(connection: Connection) -> None:
    """Runs the missing migrations, in the transaction of the connection."""
    # Slow to import, and not needed by an up-to-date store.
    from alembic import command
    from alembic.config import Config

    with _ALONE:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
