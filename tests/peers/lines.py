"""The line protocol of the client programs: a request is a line on standard input, without code of ours:

    {"id": 1, "client": 1, "binding": "GRPC", "origin": "http://127.0.0.1:1", "operation": "tasks/get", "params": {…}}
    {"id": 1, "cancel": true}

`operation` and `params` are those of JSON-RPC of 0.3. The card at `origin` has the interface. Answers are
lines:

    {"id": 1, "result": …}
    {"id": 1, "event": …}      for each event
    {"id": 1, "end": true}     the stream ended
    {"id": 1, "error": {"type": "…", "message": "…", …}}

Requests run concurrently. Each number `client` has a client of its own, as another agent can have got the
port of one that has ended.
"""

import asyncio
import json
import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol

STREAMING = frozenset({"message/stream", "tasks/resubscribe"})


class PeerClient(Protocol):
    """A client of one SDK for one address; both methods take an operation and its params as a tree."""

    async def unary(self, operation: str, params: Any) -> Any: ...

    def stream(self, operation: str, params: Any) -> AsyncIterator[Any]: ...


#: (binding, origin) -> a client
Opener = Callable[[str, str], Awaitable[PeerClient]]


def error_tree(error: BaseException) -> dict[str, Any]:
    """The content of an exception of an SDK, of httpx or of gRPC."""
    tree: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    inner = getattr(error, "error", None)
    if inner is not None:
        inner = getattr(inner, "root", inner)
        tree |= {"code": inner.code, "message": inner.message, "data": inner.data}
    if isinstance(getattr(error, "status_code", None), int):
        tree["status"] = error.status_code
    response = getattr(error.__cause__, "response", None)
    if response is not None and response.is_stream_consumed:
        tree["body"] = response.text
    if hasattr(error, "details") and hasattr(error, "debug_error_string"):
        tree |= {"status": error.code().name, "message": error.details()}
    return tree


class _Answers:
    """Runs the requests, each as a task."""

    def __init__(self, opener: Opener) -> None:
        self._open = opener
        self._clients: dict[int, asyncio.Task[PeerClient]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}

    def take(self, line: str) -> None:
        request = json.loads(line)
        number = request["id"]
        if request.get("cancel"):
            if number in self._running:
                self._running[number].cancel()
            return
        task = asyncio.create_task(self._answer(number, request))
        self._running[number] = task
        task.add_done_callback(lambda _: self._running.pop(number))

    async def _answer(self, number: int, request: dict[str, Any]) -> None:
        operation, params = request["operation"], request.get("params")
        try:
            client = await self._client(request)
            if operation not in STREAMING:
                _say(number, result=await client.unary(operation, params))
                return
            async with aclosing(client.stream(operation, params)) as events:
                async for event in events:
                    _say(number, event=event)
            _say(number, end=True)
        except asyncio.CancelledError:
            _say(number, end=True)
        except Exception as error:  # noqa: BLE001  any exception of a client is its answer
            _say(number, error=error_tree(error))

    async def _client(self, request: dict[str, Any]) -> PeerClient:
        key = request["client"]
        if key not in self._clients:
            self._clients[key] = asyncio.create_task(self._open(request["binding"], request["origin"]))
        try:
            return await asyncio.shield(self._clients[key])
        except Exception:
            self._clients.pop(key, None)
            raise


def _say(number: int, **members: Any) -> None:
    print(json.dumps({"id": number} | members), flush=True)


async def _run(opener: Opener) -> None:
    answers, loop = _Answers(opener), asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        answers.take(line.decode())
    # Clients that still wait are cancelled: nobody reads their answers.
    os._exit(0)


def main(opener: Opener) -> None:
    """The program: answers until standard input ends."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    # Tracebacks at the end of an SDK are of no use to a test.
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115, PTH123  open as long as the process lives
    asyncio.run(_run(opener))
