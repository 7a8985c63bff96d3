"""`a2a-bridge usage`: call counts by version and binding, which show when an old version can be switched
off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from a2a_bridge.cli.flags import HttpFlags, Output, OutputFlags, flag, with_flags
from a2a_bridge.cli.options import parameters, parse_binding, parse_dialect, parse_peer, parse_time

if TYPE_CHECKING:
    from a2a_bridge.bindings.binding import DialOptions
    from a2a_bridge.middleware.usage import Count


@dataclass(frozen=True, kw_only=True)
class UsageFlags(HttpFlags, OutputFlags):
    """The flags of `usage`."""

    a2a_version: str = flag("", "Only callers of this version.", "VERSION", variable="")
    binding: str = flag("", "Only callers over this binding.", "BINDING", variable="")
    since: str = flag("", "Only calls within this time: 90s, 15m, 12h, 30d, 8w.", "AGE", variable="")
    peer: str = flag("", "Only callers with this peer profile.", "NAME", variable="")
    by_operation: bool = flag(False, "One line per operation instead of per caller.", variable="")


@with_flags
def usage(
    source: Annotated[
        str,
        typer.Argument(
            help="The listener of --usage-listen (URL or :PORT), or the file of --usage-file.",
            metavar="URL|FILE",
        ),
    ],
    *,
    flags: UsageFlags,
) -> None:
    """Show the callers of a gateway or an agent by version and binding, with the time of their last call.

    For example:

      a2a-bridge usage usage.json

      a2a-bridge usage :9100 --a2a-version 0.3 --since 30d
    """
    from a2a_bridge.bindings.binding import DialOptions
    from a2a_bridge.cli.output import columns, data, document, guard
    from a2a_bridge.middleware.usage import FORMAT

    window = parse_time(flags.since, "--since") if flags.since else None
    version = parse_dialect(flags.a2a_version, "--a2a-version").version if flags.a2a_version else ""
    binding, peer = parse_binding(flags.binding), parse_peer(flags.peer)
    options = DialOptions(connect_timeout=flags.connect_timeout, parameters=parameters(flags.header))
    with guard(source):
        counts, now = _read(source, options)
        oldest = now - window if window is not None else float("-inf")
        chosen = [
            one
            for one in counts
            if version in ("", one.version)
            and binding in ("", one.binding)
            and peer in ("", one.profile)
            and one.last >= oldest
        ]
        if flags.output is Output.JSON:
            from dataclasses import asdict

            document({"format": FORMAT, "now": now, "usage": [asdict(one) for one in chosen]})
        else:
            data(columns(_table(chosen, now, flags.by_operation)))


def _read(source: str, options: DialOptions) -> tuple[list[Count], float]:
    """The counts, and the time by the clock of the server."""
    from a2a_bridge.cli.target import BadTargetError
    from a2a_bridge.codec import JsonSyntaxError, loads
    from a2a_bridge.middleware.usage import counts_of

    if source.startswith(":"):
        source = f"http://127.0.0.1{source}"
    if "://" in source:
        content = asyncio.run(_fetch(source, options))
    else:
        try:
            content = Path(source).read_bytes()
        except OSError as error:
            text = f"{source} cannot be read: {error.strerror}; give a URL, :PORT, or a file of counts"
            raise BadTargetError(text) from None
    try:
        tree: Any = loads(content)
        counts = counts_of(tree)
        return counts, float(tree["now"])
    except (JsonSyntaxError, ValueError, KeyError, TypeError) as error:
        raise BadTargetError(f"{source} holds no usage counts: {error}") from None


async def _fetch(url: str, options: DialOptions) -> bytes:
    from urllib.parse import urlsplit

    from a2a_bridge.bindings.binding import http_fetch
    from a2a_bridge.cli.target import BadTargetError
    from a2a_bridge.cli.usage_recorder import PATH

    if urlsplit(url).path in ("", "/"):
        url = url.rstrip("/") + PATH
    async with http_fetch(options) as fetch:
        reply = await fetch(url, {"accept": "application/json"})
    if reply.status != 200:
        raise BadTargetError(f"{url} answered {reply.status}; is it what --usage-listen opened?")
    return reply.body


def _table(counts: Iterable[Count], now: float, by_operation: bool) -> list[list[str]]:
    """Cells in the order of version and binding, the oldest version first; callers by the time of
    their last call.
    """
    rows: dict[tuple[str, ...], tuple[int, int, float]] = {}
    for one in counts:
        who: tuple[str, ...] = (
            one.version,
            one.binding,
            one.profile or "-",
            f"{one.principal} {one.client}".strip() or "(unnamed)",
        )
        key = (*who, one.operation) if by_operation else who
        calls, errors, last = rows.get(key, (0, 0, 0.0))
        rows[key] = (calls + one.calls, errors + one.errors, max(last, one.last))
    if not rows:
        return [["no calls"]]
    operation = ["OPERATION"] if by_operation else []
    lines = [["VERSION", "BINDING", "PEER", "CALLER", *operation, "CALLS", "ERRORS", "LAST"]]
    for key, (calls, errors, last) in sorted(rows.items(), key=lambda row: (row[0][:2], -row[1][2])):
        lines.append([*key, str(calls), str(errors), _ago(now - last)])
    return lines


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)}{unit} ago"
    return f"{max(0, int(seconds))}s ago"
