"""Exchanges: calls that were made together, with everything that was seen of them, as lines of a record.
And the history of them. It makes no call.

Rules:
1. A line is one JSON object: those of `client/recording.py` (`call`, `sent`), and of the playground `event`,
   `end`, `comparison` and `cut`. `cell` is the interface that was called, `hop` is `client` or `upstream`.
2. Beyond `LONGEST` bytes, frames and events of an exchange are not kept, and one line says so.
3. The history drops the oldest exchanges that are not pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from a2a_bridge.bindings.binding import Frame
from a2a_bridge.codec import JsonSyntaxError, dumps, loads
from a2a_bridge.core.masking import NONE_KNOWN, Secrets
from a2a_bridge.core.service import Event
from a2a_bridge_tools.client.recording import frame_tree

#: bytes of the lines of one exchange, and of all
LONGEST = 2 * 1024 * 1024
TOTAL = 32 * 1024 * 1024
#: exchanges that are kept
KEPT = 200
#: characters of a summary
_SUMMARY = 80
CLIENT, UPSTREAM = "client", "upstream"


@dataclass(slots=True)
class Exchange:
    """The same call over several cells."""

    number: int
    agent: str
    operation: str
    cells: Sequence[str]
    summary: str = ""
    #: ISO 8601
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    pinned: bool = False
    #: whether no cell had an error
    ok: bool = True
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    #: is called with each line, while the exchange runs
    follow: Callable[[bytes], None] | None = None
    _begun: float = field(default_factory=monotonic)
    _is_cut: bool = False

    def add(self, tree: dict[str, Any], *, needed: bool = True) -> None:
        """Adds a line. needed: whether it is kept in any case."""
        if self.size > LONGEST and not needed:
            if self._is_cut:
                return
            self._is_cut = True
            tree = {"cut": f"more than {LONGEST} bytes: further frames and events are not kept"}
        head = {"at": round(monotonic() - self._begun, 6), "exchange": self.number}
        line = dumps(head | tree)
        self.lines.append(line)
        self.size += len(line)
        if self.follow is not None:
            self.follow(line)

    def entry(self) -> dict[str, Any]:
        """What a list shows of it."""
        names = ("number", "time", "agent", "operation", "summary", "cells", "ok", "pinned")
        return {name: getattr(self, name) for name in names} | {"bytes": self.size}


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of one cell of an exchange. secrets: are masked in frames."""

    exchange: Exchange
    cell: str
    name: str
    secrets: Secrets = NONE_KNOWN

    def frame(self, frame: Frame) -> None:
        """Takes a frame; for `DialOptions.frame_observer`."""
        self._add(frame_tree(frame, self.secrets), needed=False)

    def event(self, message: Any, event: Event | None = None) -> None:
        """Takes a response as JSON. event: the event of a stream that it belongs to."""
        found = {"id": event.id, "gap": event.gap} if event is not None else {"id": "", "gap": False}
        self._add({"event": message} | found, needed=False)

    def end(self, seconds: float, state: str, error: dict[str, Any] | None) -> None:
        """Takes the end of the call. error: its code and message."""
        if error is not None and self.name == CLIENT:
            self.exchange.ok = False
        self._add({"end": {"seconds": round(seconds, 6), "state": state, "error": error}})

    def _add(self, tree: dict[str, Any], *, needed: bool = True) -> None:
        self.exchange.add({"cell": self.cell, "hop": self.name} | tree, needed=needed)


class History:
    """The exchanges of one playground, oldest first."""

    def __init__(self) -> None:
        self._exchanges: dict[int, Exchange] = {}
        self._last = 0

    def begin(self, agent: str, operation: str, request: Any, cells: Sequence[str]) -> Exchange:
        """A new exchange. request: as JSON."""
        self._last += 1
        one = Exchange(self._last, agent, operation, cells, _summary(request))
        self._exchanges[one.number] = one
        self._trim(one)
        one.add({"call": operation, "request": request, "agent": agent, "cells": cells, "time": one.time})
        return one

    def get(self, number: int) -> Exchange | None:
        """An exchange by its number."""
        return self._exchanges.get(number)

    def entries(self) -> list[dict[str, Any]]:
        """What a list shows of all, newest first."""
        return [one.entry() for one in reversed(self._exchanges.values())]

    def clear(self) -> None:
        """Drops all that are not pinned."""
        self._exchanges = {number: one for number, one in self._exchanges.items() if one.pinned}

    def export(self) -> list[bytes]:
        """The lines of all exchanges."""
        return [line for one in self._exchanges.values() for line in one.lines]

    def import_lines(self, lines: Iterable[bytes]) -> list[int]:
        """Adds the exchanges of a record; each begins with a line of a call. Raises ValueError that names the
        line at fault.
        """
        found: list[Exchange] = []
        for at, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                tree = loads(line)
            except JsonSyntaxError as error:
                raise ValueError(f"line {at} is not JSON: {error}") from None
            if not isinstance(tree, dict):
                raise ValueError(f"line {at} is no JSON object")  # noqa: TRY004  an error of the record
            if "call" in tree:
                found.append(_from(tree))
            elif not found:
                raise ValueError(f"line {at} comes before the line of its call")
            _keep(found[-1], tree)
        for one in found:
            self._last += 1
            one.number = self._last
            self._exchanges[one.number] = one
            self._trim(one)
        return [one.number for one in found if one.number in self._exchanges]

    def _trim(self, newest: Exchange) -> None:
        total = sum(one.size for one in self._exchanges.values())
        for number, one in list(self._exchanges.items()):
            if len(self._exchanges) <= KEPT and total <= TOTAL:
                return
            if not one.pinned and one is not newest:
                del self._exchanges[number]
                total -= one.size


def _from(tree: dict[str, Any]) -> Exchange:
    """The exchange that begins with the line of a call."""
    cells = tree.get("cells")
    return Exchange(
        0,
        str(tree.get("agent", "")),
        str(tree["call"]),
        [str(one) for one in cells] if isinstance(cells, list) else [],
        _summary(tree.get("request")),
        str(tree.get("time", "")),
    )


def _keep(one: Exchange, tree: dict[str, Any]) -> None:
    """Adds a line of a record as it is; of a command's record, the only cell has no name."""
    if "call" not in tree and "comparison" not in tree and "cut" not in tree:
        if "cell" not in tree:
            tree = {"cell": "recorded", "hop": CLIENT} | tree | {"hop": CLIENT}
        if tree["cell"] not in one.cells:
            one.cells = [*one.cells, str(tree["cell"])]
    end = tree.get("end")
    if isinstance(end, dict) and end.get("error") and tree.get("hop") == CLIENT:
        one.ok = False
    line = dumps(tree)
    one.lines.append(line)
    one.size += len(line)


def _summary(request: Any) -> str:
    """The text of a message, or the ids of another request."""
    if not isinstance(request, dict):
        return ""
    message = request.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if isinstance(parts, list):
        texts = [str(one["text"]) for one in parts if isinstance(one, dict) and "text" in one]
        return (" ".join(texts) or f"{len(parts)} parts")[:_SUMMARY]
    words = [str(value) for name, value in request.items() if name in ("id", "taskId", "contextId", "url")]
    return " ".join(words)[:_SUMMARY]
