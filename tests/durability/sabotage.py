"""Faults of the database's connections inside of the serving process, between the bridge and sqlite3.

TRIALS_SYNCHRONOUS: `PRAGMA synchronous`. TRIALS_SABOTAGE: a file with the names of the present faults:
`full`: the database may not grow by a page; `readonly`: nothing may be written.
"""

import os
import re
import sqlite3
from pathlib import Path
from typing import Any

_SYNCHRONOUS = os.environ.get("TRIALS_SYNCHRONOUS", "")
_SET = re.compile(r"^\s*PRAGMA\s+(main\.)?synchronous\s*=.*$", re.IGNORECASE)
#: no database may have more pages, and the default of SQLite
_MOST_PAGES = 0xFFFFFFFE
_FILE = os.environ.get("TRIALS_SABOTAGE", "")


def _troubles() -> frozenset[str]:
    """The present faults."""
    return (
        frozenset(Path(_FILE).read_text("ascii").split()) if _FILE and Path(_FILE).exists() else frozenset()
    )


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        self._trouble()
        if _SYNCHRONOUS and _SET.match(sql):
            sql = f"PRAGMA synchronous={_SYNCHRONOUS}"
        return super().execute(sql, *arguments)

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        self._trouble()
        return super().executemany(sql, *arguments)

    def _trouble(self) -> None:
        connection = self.connection
        assert isinstance(connection, _Connection)
        troubles = _troubles()
        if connection.troubles == troubles:
            return
        connection.troubles = troubles
        # Fewer pages than there are: SQLite takes the present number then.
        super().execute(f"PRAGMA max_page_count={1 if 'full' in troubles else _MOST_PAGES}").fetchall()
        super().execute(f"PRAGMA query_only={'ON' if 'readonly' in troubles else 'OFF'}")


class _Connection(sqlite3.Connection):
    troubles: frozenset[str] = frozenset()

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_Cursor)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor().execute(sql, *arguments)

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor().executemany(sql, *arguments)


def install() -> None:
    """From now on every new connection of sqlite3 can have these faults."""
    connect = sqlite3.dbapi2.connect

    def ours(*arguments: Any, **members: Any) -> sqlite3.Connection:
        members.setdefault("factory", _Connection)
        return connect(*arguments, **members)

    sqlite3.connect = sqlite3.dbapi2.connect = ours
