"""Envoy with pyvoy, an ASGI server with HTTP trailers, around an application of this process. No test."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyvoy import PyvoyServer

from tests.patience import PATIENCE
from tests.shared_library import need_shared_library
from tests.transports.relayed_app import read, write


async def _serve(app: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    scope = await read(reader)
    waiting: dict[str, asyncio.Future[Any]] = {}

    async def asked(kind: str, answer: str, message: Any = None) -> Any:
        waiting[answer] = loop.create_future()
        await write(writer, (kind, message))
        return await waiting[answer]

    async def receive() -> Any:
        return await asked("receive", "received")

    async def send(message: Any) -> None:
        error = await asked("send", "sent", message)
        if error is not None:
            raise OSError(error)

    async def pump() -> None:
        while True:
            answer, message = await read(reader)
            waiting[answer].set_result(message)

    pumping = asyncio.create_task(pump())
    try:
        await app(scope, receive, send)
    except Exception as error:  # noqa: BLE001  the server gets it, as from an application of its own
        await write(writer, ("failed", repr(error)))
    finally:
        pumping.cancel()
        await asyncio.wait([pumping])
        writer.close()


@asynccontextmanager
async def envoy(app: Any, **options: Any) -> AsyncIterator[PyvoyServer]:
    """The server, listening on a port of 127.0.0.1 without TLS: HTTP/1.1 and HTTP/2."""
    need_shared_library()
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await _serve(app, reader, writer)
        finally:
            running.discard(task)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "relay")
        relay = await asyncio.start_unix_server(serve, path, backlog=4096)
        try:
            server = PyvoyServer(
                "tests.transports.relayed_app:app", env={"ASGI_RELAY": path}, lifespan=False, **options
            )
            async with asyncio.timeout(PATIENCE):
                await server.start()
            try:
                yield server
            finally:
                await server.stop()
        finally:
            relay.close()
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
