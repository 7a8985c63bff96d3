"""What pyvoy runs in Envoy: forwards requests to the tests' process, pickled after 4 bytes of length."""

import asyncio
import os
import pickle
from typing import Any

running: set[asyncio.Task[Any]] = set()


async def read(reader: asyncio.StreamReader) -> Any:
    return pickle.loads(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))


async def write(writer: asyncio.StreamWriter, message: Any) -> None:
    data = pickle.dumps(message)
    writer.write(len(data).to_bytes(4, "big") + data)
    await writer.drain()


async def app(scope: Any, receive: Any, send: Any) -> None:
    # pyvoy drops its reference when the client leaves, and a loop has none to a task that waits.
    task: Any = asyncio.current_task()
    running.add(task)
    task.add_done_callback(running.discard)
    reader, writer = await asyncio.open_unix_connection(os.environ["ASGI_RELAY"])
    plain = (str, bytes, int, float, bool, list, tuple, dict, type(None))
    tasks: set[asyncio.Task[None]] = set()

    async def received() -> None:
        message = await receive()
        if not writer.is_closing():
            await write(writer, ("received", message))

    async def sent(message: Any) -> None:
        try:
            await send(message)
        except OSError as error:
            await write(writer, ("sent", repr(error)))
        else:
            await write(writer, ("sent", None))

    try:
        await write(writer, {name: value for name, value in scope.items() if isinstance(value, plain)})
        while True:
            kind, message = await read(reader)
            if kind == "failed":
                raise RuntimeError(message)
            tasks.add(asyncio.create_task(received() if kind == "receive" else sent(message)))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the tests' application has returned
    finally:
        writer.close()  # and tasks that still wait for the server end by themselves
