"""Programs that listen, as processes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.patience import PATIENCE


@asynccontextmanager
async def running(python: Path, program: Path, *arguments: str) -> AsyncIterator[str]:
    """A program with a port as its first argument; its origin, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(program),
        str(port),
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _listens(port):
                if process.returncode is not None:
                    assert process.stderr is not None
                    raise RuntimeError((await process.stderr.read()).decode()[-2000:])
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await asyncio.sleep(0.1)
        return False
    writer.close()
    return True
