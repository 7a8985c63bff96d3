"""Fronts of tests on real sockets: an application on our host, API keys for its callers, and the command."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_bridge.auth import Authentication
from a2a_bridge.bindings.binding import HostOptions, http_host
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented

COMMAND = str(Path(sys.executable).parent / "a2a-bridge")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
KEYS = {"key of ann": "ann", "key of bob": "bob"}


class _Keys:
    """Identifies callers by two known keys."""

    scheme_name = "key"
    parameters = frozenset({"authorization"})
    challenge = 'Bearer realm="test"'

    def scheme(self) -> None:
        return None

    async def identify(self, presented: Presented) -> Principal | None:
        given = presented.credential("authorization")
        name = None if given is None else KEYS.get(given.removeprefix("Bearer "))
        return None if name is None else Principal(name, method="key")


def authentication() -> Authentication:
    return Authentication([_Keys()])


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """The URL of an application."""
    host = http_host(ListenAddress(), HostOptions())
    host.mount_application("", app)
    await host.start()
    try:
        yield f"http://{host.address}"
    finally:
        await host.drain(1.0)


@asynccontextmanager
async def running(*arguments: str, stderr: Path | None = None) -> AsyncIterator[str]:
    """The address of a front that is served over HTTP. stderr: the file for its log."""
    with ExitStack() as stack:
        log = None if stderr is None else stack.enter_context(stderr.open("wb"))
        process = await asyncio.create_subprocess_exec(
            COMMAND, "front", *arguments, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield line.partition("http=")[2].strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
