"""What trials do to the database's connections from inside of the serving process. Nothing of it happens unasked.

It stands between the bridge and sqlite3, so nothing in the bridge has to know of it.

TRIALS_SYNCHRONOUS: what `PRAGMA synchronous` is set to, whatever the bridge sets it to.
`full`: the database may not grow by a page from now on; `readonly`: nothing may be written; `off`: both end.
"""

from __future__ import annotations

import os
import re
import sqlite3
from typing import Any

_SYNCHRONOUS = os.environ.get("TRIALS_SYNCHRONOUS", "")
_SET = re.compile(r"^\s*PRAGMA\s+(main\.)?synchronous\s*=.*$", re.IGNORECASE)
#: no database may have more pages, and the default of SQLite
_MOST_PAGES = 0xFFFFFFFE
#: kinds of trouble that go on
_troubles: set[str] = set()


def command(words: list[str]) -> None:
    """Begins or ends a kind of trouble for every connection."""
    match words[0]:
        case "full" | "readonly" as kind:
            _troubles.add(kind)
        case "off":
            _troubles.clear()
        case other:
            raise ValueError(other)


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
        if connection.troubles == _troubles:
            return
        connection.troubles = frozenset(_troubles)
        # Fewer pages than there are: SQLite takes that to mean as many as there are.
        super().execute(f"PRAGMA max_page_count={1 if 'full' in _troubles else _MOST_PAGES}").fetchall()
        super().execute(f"PRAGMA query_only={'ON' if 'readonly' in _troubles else 'OFF'}")


class _Connection(sqlite3.Connection):
    troubles: frozenset[str] = frozenset()

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_Cursor)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor().execute(sql, *arguments)

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor().executemany(sql, *arguments)


def install() -> None:
    """Has every connection of sqlite3 made from now on be one that can be sabotaged."""
    connect = sqlite3.dbapi2.connect

    def ours(*arguments: Any, **members: Any) -> sqlite3.Connection:
        members.setdefault("factory", _Connection)
        return connect(*arguments, **members)

    sqlite3.connect = sqlite3.dbapi2.connect = ours
