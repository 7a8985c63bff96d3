"""Keeps the counts of callers while a server runs: in a file across restarts, and on a listener of its
own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from a2a_bridge.bindings.binding import ListenAddress, find, operator_options
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail
from a2a_bridge.codec import JsonObject, JsonSyntaxError, dumps, loads
from a2a_bridge.middleware import Usage

logger = logging.getLogger(__name__)

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
        """Counts are restored when this opens, saved while it is open and when it closes.

        Gives the address of the listener. Raises OSError when it cannot listen, typer.Exit for a file with
        other content or one that cannot be written.
        """
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
