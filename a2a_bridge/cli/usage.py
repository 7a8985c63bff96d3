"""`a2a-bridge usage`: call counts by version and binding, which show when an old version can be switched off.

`UsageRecorder` keeps the counts while a server runs: in a file across restarts, and on a listener of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from a2a_bridge.cli.flags import HttpFlags, Output, OutputFlags
from a2a_bridge.cli.output import columns, data, document, fail, guard
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.values import Exit, parameters, parse_binding, parse_dialect, parse_peer, parse_time
from a2a_bridge.core.options import flag

if TYPE_CHECKING:
    from a2a_bridge.bindings.binding import DialOptions, ListenAddress
    from a2a_bridge.codec import JsonObject
    from a2a_bridge.middleware import Usage
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
        return counts_of(tree), float(tree["now"])
    except (JsonSyntaxError, ValueError, KeyError, TypeError) as error:
        raise BadTargetError(f"{source} holds no usage counts: {error}") from None


async def _fetch(url: str, options: DialOptions) -> bytes:
    from urllib.parse import urlsplit

    from a2a_bridge.bindings.binding import http_fetch
    from a2a_bridge.cli.target import BadTargetError

    if urlsplit(url).path in ("", "/"):
        url = url.rstrip("/") + PATH
    async with http_fetch(options) as fetch:
        reply = await fetch(url, {"accept": "application/json"})
    if reply.status != 200:
        raise BadTargetError(f"{url} answered {reply.status}; is it what --usage-listen opened?")
    return reply.body


def _table(counts: Iterable[Count], now: float, by_operation: bool) -> list[list[str]]:
    """Cells by version, the oldest first, and binding; callers by the time of their last call."""
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


logger = logging.getLogger("a2a_bridge.cli.usage_recorder")

#: seconds between two savings of counts that have changed; a killed process loses the counts of this time
SAVE_EVERY = 1.0
PATH = "/usage"


@dataclass(frozen=True, slots=True)
class UsageRecorder:
    """Saves and serves counts. file: None: not saved. listen: None: no listener."""

    table: Usage
    file: Path | None = None
    listen: ListenAddress | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ListenAddress | None]:
        """Restores the counts, saves them while the context is open and when it closes; gives the address of
        the listener. Raises OSError when it cannot listen, typer.Exit for a file with other content, or one
        that cannot be written.
        """
        from a2a_bridge.bindings.binding import find, operator_options
        from a2a_bridge.codec import dumps

        async with AsyncExitStack() as stack:
            address = None
            if self.file is not None:
                self._restore(self.file)
                stack.push_async_callback(self._end, asyncio.create_task(self._keep_saving(self.file)))
            if self.listen is not None:
                host = find("JSONRPC").host(self.listen, operator_options(self.listen))
                host.publish(PATH, lambda _: dumps(self.table.document()))
                await host.start()
                stack.push_async_callback(host.drain, 0)
                address = host.address
            yield address

    def _restore(self, file: Path) -> None:
        from a2a_bridge.codec import JsonSyntaxError, loads

        try:
            content = file.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise fail(Exit.USAGE, f"--usage-file {file}: {error.strerror}") from None
        try:
            if content:
                tree = loads(content)
                self.table.restore(tree if isinstance(tree, dict) else {})
            self._save(file)
        except (JsonSyntaxError, ValueError) as error:
            raise fail(Exit.USAGE, f"--usage-file {file} holds something else: {error}") from None
        except OSError as error:
            raise fail(Exit.USAGE, f"--usage-file {file} cannot be written: {error.strerror}") from None

    def _save(self, file: Path, document: JsonObject | None = None) -> None:
        from a2a_bridge.codec import dumps

        # A reader sees the old counts or the new ones, never half of them.
        fresh = file.with_name(f".{file.name}.{os.getpid()}")
        fresh.write_bytes(dumps(document or self.table.document()) + b"\n")
        fresh.replace(file)

    async def _keep_saving(self, file: Path) -> None:
        saved = self.table.document()["usage"]
        while True:
            await asyncio.sleep(SAVE_EVERY)
            document = self.table.document()
            if document["usage"] != saved:
                saved = document["usage"]
                await asyncio.to_thread(self._try_to_save, file, document)

    async def _end(self, saving: asyncio.Task[None]) -> None:
        saving.cancel()
        with suppress(asyncio.CancelledError):
            await saving
        assert self.file is not None  # noqa: S101  only called with a file
        self._try_to_save(self.file)

    def _try_to_save(self, file: Path, document: JsonObject | None = None) -> None:
        try:
            self._save(file, document)
        except OSError as error:
            logger.warning("the counts cannot be saved in %s: %s", file, error.strerror)
