"""Checks in a trace (see tracer.py) that data was on the disk before it was sent, and survives a power cut.

A promise is a mark that leaves by a socket. It is kept if it was written to the database or its log before,
and that file was synced between. Of data that was written since the last sync, any part may survive.
"""

import json
import random
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_MARK = re.compile(rb"m[0-9a-f]{15}(?::\d+\.)?")
#: the files of a SQLite database that have to survive; `-shm` is created again
_KEPT = ("", "-wal")


class Promise(NamedTuple):
    """A mark, and where it was first sent. kept: on the disk then. elsewhere: never written as a whole."""

    mark: str
    place: int
    kept: bool
    elsewhere: bool = False


def read(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text("utf-8").splitlines()]


def promises(trace: Sequence[dict[str, Any]], database: Path) -> list[Promise]:
    files = {f"{database}{end}" for end in _KEPT}
    written: dict[str, set[str]] = {}
    on_disk: set[str] = set()
    promised: set[str] = set()
    waiting: dict[str, set[str]] = {file: set() for file in files}
    found = []
    for place, line in enumerate(trace):
        where, marks = line["where"], line.get("marks", ())
        if line["what"] == "written" and where in files:
            waiting[where].update(marks)
            for mark in marks:
                written.setdefault(mark, set()).add(where)
        elif line["what"] == "synced" and where in files:
            on_disk |= waiting[where]
            waiting[where].clear()
        elif line["what"] == "sent":
            for mark in set(marks) - promised:
                promised.add(mark)
                found.append(Promise(mark, place, mark in on_disk, mark not in written))
    return found


@dataclass
class _File:
    """synced: content that survives. pending: later changes: (position, content), or (length,)."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def after(self, changes: Sequence[tuple[int, bytes | None]]) -> bytearray:
        made = bytearray(self.synced)
        for at, content in changes:
            if content is None:
                del made[at:]
                made.extend(bytes(at - len(made)))
                continue
            made.extend(bytes(max(0, at - len(made))))
            made[at : at + len(content)] = content
        return made

    def sync(self) -> None:
        self.synced = self.after(self.pending)
        self.pending.clear()


def cuts(
    trace: Sequence[dict[str, Any]], database: Path, chance: random.Random, most: int
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Places of some new promises, and the disk (content by end of name) if the power fails there."""
    files = {f"{database}{end}": _File() for end in _KEPT}
    places = sorted({promise.place for promise in promises(trace, database)})
    promised = {*chance.sample(places, min(most, len(places))), *places[-1:]}
    for place, line in enumerate(trace):
        file = files.get(line["where"])
        if file is not None and line["what"] == "written":
            file.pending.append((line["at"], bytes.fromhex(line["content"])))
        elif file is not None and line["what"] == "cut":
            file.pending.append((line["at"], None))
        elif file is not None and line["what"] == "synced":
            file.sync()
        elif place in promised:
            lucky = chance.random()
            yield (
                place,
                {
                    name.removeprefix(str(database)): bytes(
                        one.after([change for change in one.pending if chance.random() < lucky])
                    )
                    for name, one in files.items()
                },
            )


def found_after(cut: dict[str, bytes], folder: Path) -> set[str]:
    """The marks in the database that survives a power cut. Raises sqlite3.DatabaseError for a broken one."""
    database = folder / "cut.db"
    for old in folder.glob("cut.db*"):
        old.unlink()
    for end, content in cut.items():
        Path(f"{database}{end}").write_bytes(content)
    with closing(sqlite3.connect(database)) as connection:
        ((sound,),) = connection.execute("PRAGMA integrity_check").fetchall()
        if sound != "ok":
            raise sqlite3.DatabaseError(sound)
        tables = "segments", "joined", "bodies"
        rows = [row for one in tables for row in connection.execute(f"SELECT data FROM {one}")]  # noqa: S608
    return {mark.decode() for (data,) in rows for mark in _MARK.findall(data)}
