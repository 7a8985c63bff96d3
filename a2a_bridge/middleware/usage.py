"""Call counts by caller, binding, version and operation. No content, no files.

Rules:
1. A caller is its principal where one is established, its peer profile, and its user agent beside them.
2. Memory is bounded: callers choose their names, so new callers beyond the limit are counted together.
3. Times are seconds since 1970, because the counts outlive the process.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from time import time
from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Middleware, Service
from a2a_bridge.peers import UNKNOWN, USER_AGENT, caller

#: stands for callers beyond the limit
OTHERS = "(others)"
#: characters of a caller's name that are kept
LONGEST_NAME = 120
FORMAT = 1

Key = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class Count:
    """Calls of one caller to one operation in one cell. first, last: when, in seconds since 1970. profile:
    the name of its peer profile; empty for none, and in documents of versions that did not know of profiles.
    """

    client: str
    principal: str
    binding: str
    version: str
    operation: str
    calls: int
    errors: int
    first: float
    last: float
    profile: str = ""

    @property
    def key(self) -> Key:
        return self.client, self.principal, self.binding, self.version, self.operation, self.profile


class Usage:
    """The counts of one server, for `ServeOptions.usage`.

    limit: how many counts are kept. clock: seconds since 1970.
    """

    def __init__(self, limit: int = 4096, clock: Callable[[], float] = time) -> None:
        self._limit = limit
        self._clock = clock
        self._counts: dict[Key, Count] = {}

    def __iter__(self) -> Iterator[Count]:
        return iter(list(self._counts.values()))

    def count(self, call: Call[Any, Any], *, failed: bool) -> None:
        """Counts a finished call."""
        context = call.context
        origin = context.origin
        client = _name(context.parameters.get(USER_AGENT))
        profile = caller(context.parameters)
        self._add(
            Count(
                client,
                _name(context.principal.name) if context.principal is not None else "",
                origin.binding or "in-process",
                origin.version,
                call.operation.name,
                1,
                int(failed),
                now := self._clock(),
                now,
                "" if profile is UNKNOWN else profile.name,
            )
        )

    def document(self) -> JsonObject:
        """All counts as JSON: `{"format": 1, "now": seconds, "usage": [count…]}`."""
        return {"format": FORMAT, "now": self._clock(), "usage": [asdict(one) for one in self]}

    def restore(self, document: JsonObject) -> None:
        """Adds the counts of a document. Raises ValueError for an invalid document."""
        for one in counts_of(document):
            self._add(one)

    def _add(self, one: Count) -> None:
        known = self._counts.get(one.key)
        if known is None and len(self._counts) >= self._limit:
            # Cells and operations are few, so this row for each of them stays within bounds.
            one.client, one.principal, one.profile = OTHERS, "", ""
            known = self._counts.get(one.key)
        if known is None:
            self._counts[one.key] = one
            return
        known.calls += one.calls
        known.errors += one.errors
        known.first = min(known.first, one.first)
        known.last = max(known.last, one.last)


def counts_of(document: Any) -> list[Count]:
    """The counts in a document of `Usage.document`. Raises ValueError for an invalid document."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"no usage document of format {FORMAT}")
    rows = document.get("usage")
    if not isinstance(rows, list):
        raise ValueError("usage: expected an array")  # noqa: TRY004  a document is at fault, not a caller
    return [_count(number, row) for number, row in enumerate(rows)]


def usage(table: Usage) -> Middleware:
    """Middleware that counts calls in `table`, with any outcome."""
    return lambda service: _Counted(service, table)


class _Counted:
    def __init__(self, service: Service, table: Usage) -> None:
        self._service = service
        self._table = table

    async def unary(self, call: Call[Req, Res], /) -> Res:
        failed = True
        try:
            response = await self._service.unary(call)
            failed = False
        finally:
            self._table.count(call, failed=failed)
        return response

    async def stream(self, call: Call[Req, Res], /) -> Events:
        failed = True
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    yield event
            failed = False
        except (GeneratorExit, CancelledError):
            # Callers often hang up on streams of long tasks, which are closed or cancelled: no failure.
            failed = False
            raise
        finally:
            self._table.count(call, failed=failed)


def _name(text: str | None) -> str:
    """A name from a caller, safe to keep and print."""
    if not text:
        return ""
    printable = "".join(character if character.isprintable() else "�" for character in text[:LONGEST_NAME])
    return printable if len(text) <= LONGEST_NAME else printable + "…"


_TYPES: dict[str, tuple[type, ...]] = {
    "client": (str,),
    "principal": (str,),
    "binding": (str,),
    "version": (str,),
    "operation": (str,),
    "calls": (int,),
    "errors": (int,),
    "first": (int, float),
    "last": (int, float),
}


def _problem(number: int, name: str, types: tuple[type, ...]) -> str:
    return f"usage[{number}].{name}: is missing or not of type {types[-1].__name__}"


def _count(number: int, row: Any) -> Count:
    for name, types in _TYPES.items():
        value = row.get(name) if isinstance(row, dict) else None
        if not isinstance(value, types) or isinstance(value, bool):
            raise ValueError(_problem(number, name, types))  # noqa: TRY004  a document is at fault, not a caller
    profile = row.get("profile", "")
    if not isinstance(profile, str):
        raise ValueError(_problem(number, "profile", (str,)))  # noqa: TRY004  a document is at fault, not a caller
    count = Count(**{name: row[name] for name in _TYPES}, profile=_name(profile))
    # The document may come from anywhere, and its names are printed on a terminal.
    count.client, count.principal = _name(count.client), _name(count.principal)
    count.binding, count.version, count.operation = map(
        _name, (count.binding, count.version, count.operation)
    )
    return count
