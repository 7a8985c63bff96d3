"""Whether a database has the tables of this version, and how it gets them. The steps are in `migrations`.

A store looks when it is opened, and changes nothing: only a new and empty SQLite file gets its tables at
once.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from a2a_bridge.hosting.stores.sql import migrations

#: the step that this version needs to have been taken last
HEAD = "0002"

_TABLE = "alembic_version"
#: Alembic keeps what it is doing in module variables
_ALONE = threading.Lock()


def revision(connection: Connection) -> str | None:
    """The step that was taken last: empty where there are no tables at all, None where they are somebody
    else's.
    """
    names = set(inspect(connection).get_table_names())
    found = ""
    if _TABLE in names:
        found = connection.scalar(text(f"SELECT version_num FROM {_TABLE}")) or ""  # noqa: S608  a constant
    return None if not found and names - {_TABLE} else found


def upgrade(connection: Connection) -> None:
    """Takes the steps that are missing, in the transaction of the connection."""
    # Slow to import, and of no use to a store that is as it should be.
    from alembic import command
    from alembic.config import Config

    with _ALONE:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
