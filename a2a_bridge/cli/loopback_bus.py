"""A NATS server on loopback for the workers of one machine, if its binary is installed.

Rules:
1. It listens on 127.0.0.1 only, with a secret of this run, which stands in no command line.
2. It ends with this process, however that ends: a shell waits for the end of a pipe.
3. If it ends by itself, it is started again at the same port. Until then the workers poll.
"""

import asyncio
import importlib.util
import logging
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

logger = logging.getLogger(__name__)

#: started by sh: the server, and a wait for the end of standard input, which ends it
_SCRIPT = 'exec 3<&0; "$0" -c "$1" <&- & p=$!; (cat <&3 >/dev/null; kill $p) & wait $p'
#: seconds until it listens, and between two looks
_START, _LOOK = 10.0, 0.02
#: seconds before it is started again
_AGAIN = 1.0


def found() -> str:
    """The path of the server; empty if it or its client is not installed."""
    if importlib.util.find_spec("nats") is None:
        return ""
    beside = str(Path(sys.executable).parent)
    return shutil.which("nats-server", path=beside) or shutil.which("nats-server") or ""


@asynccontextmanager
async def loopback_bus(binary: str) -> AsyncIterator[str]:
    """Its address with the secret while the context is open; empty if it does not start."""
    with tempfile.TemporaryDirectory(prefix="a2a-bridge-nats-") as name:
        server = _Server(binary, Path(name))
        keeping: asyncio.Task[None] | None = None
        try:
            address = await server.start()
            if address:
                keeping = asyncio.create_task(server.keep())
            yield address
        finally:
            if keeping is not None:
                keeping.cancel()
            await server.stop()


class _Server:
    """The process. folder: readable for this user only."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._secret = secrets.token_urlsafe(24)
        self._port = -1
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Starts it; its address, or nothing if it does not start."""
        ports = self._folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        settings = self._folder / "nats.conf"
        settings.touch(0o600)
        settings.write_text(
            f'listen: "127.0.0.1:{self._port}"\nports_file_dir: "{ports}"\n'
            f'authorization {{ token: "{self._secret}" }}\n'
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _SCRIPT,
                self._binary,
                str(settings),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the supervisor
            )
        except OSError as error:
            logger.warning("nats-server cannot be started: %s", error.strerror)
            return ""
        port = await self._find_port(ports)
        if port is None:
            logger.warning("nats-server does not start; the workers poll the database instead")
            await self.stop()
            return ""
        self._port = port
        return f"nats://{self._secret}@127.0.0.1:{port}"

    async def keep(self) -> None:
        """Starts it again whenever it ends."""
        while self._process is not None:
            await self._process.wait()
            logger.warning("nats-server has ended; it is started again")
            while not await self.start():  # noqa: ASYNC110  there is nothing to wait for but time
                await asyncio.sleep(_AGAIN)

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            with suppress(ProcessLookupError):
                await process.wait()

    async def _find_port(self, ports: Path) -> int | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_START):
                while self._process is not None and self._process.returncode is None:
                    for file in ports.glob("*.ports"):  # noqa: ASYNC240  a folder of one file
                        port = re.search(r"nats://127\.0\.0\.1:(\d+)", file.read_text())
                        if port:
                            return int(port[1])
                    await asyncio.sleep(_LOOK)
        return None
