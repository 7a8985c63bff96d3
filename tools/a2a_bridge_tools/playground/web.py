"""A request of the page and its answer, as an application of ASGI: one function answers all requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict

from a2a_bridge.bindings.asgi import Receive, Scope, Send, client_left


class Answer(NamedTuple):
    """A whole answer. kind: its Content-Type; empty without a body."""

    status: int
    body: bytes = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = {}


class Lines(NamedTuple):
    """An answer of lines, which are sent as they come. A reader that leaves closes the generator."""

    lines: AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Request:
    """A request. path: as sent, percent-encoded. headers: bytes that are not UTF-8 are surrogates. part: what
    the path has in the place of `{}` of its route.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDict[str]
    _receive: Receive = field(repr=False)
    part: str = ""

    @classmethod
    def of(cls, scope: Scope, receive: Receive) -> Request:
        headers = CIMultiDict(
            (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
            for name, value in scope["headers"]
        )
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        return cls(scope["method"], scope["raw_path"].decode("latin-1"), query, headers, receive)

    async def read(self, most: int | None = None) -> tuple[bytes, int]:
        """The body, or its first `most` bytes, and the number of all. Raises ConnectionResetError."""
        body, size = bytearray(), 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client has left")
            part: bytes = message.get("body", b"")
            size += len(part)
            body += part if most is None else part[: max(0, most - len(body))]
            if not message.get("more_body", False):
                return bytes(body), size


Answers = Callable[[Request], Awaitable[Answer | Lines]]


class Routes:
    """The functions for paths. A path may end with `{}`, which stands for one segment."""

    def __init__(self, routes: Sequence[tuple[str, str, Answers]]) -> None:
        self._routes = routes

    def find(self, request: Request) -> tuple[Answers | None, str, list[str]]:
        """The function for a request, the segment, and the methods that the path has."""
        methods = []
        for method, path, answers in self._routes:
            start, is_open, _ = path.partition("{}")
            segment = request.path[len(start) :] if is_open and request.path.startswith(start) else ""
            if "/" in segment or (request.path != path and not segment):
                continue
            methods.append(method)
            if request.method in (method, "HEAD" if method == "GET" else method):
                return answers, unquote(segment), methods
        return None, "", methods


class Application:
    """answers: the function. headers: of every answer."""

    def __init__(self, answers: Answers, headers: Mapping[str, str]) -> None:
        self._answers = answers
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("the page takes requests of HTTP only")
        request = Request.of(scope, receive)
        try:
            answer = await self._answers(request)
        except ConnectionResetError:
            return
        if isinstance(answer, Answer):
            kind = {"Content-Type": answer.kind} if answer.body else {}
            await send(self._head(answer.status, {**kind, **answer.headers}))
            await send({"type": "http.response.body", "body": answer.body})
            return
        await send(self._head(200, {"Content-Type": "application/x-ndjson"}))
        writing = asyncio.create_task(_write(answer.lines, send, is_read=request.method != "HEAD"))
        leaving = asyncio.create_task(client_left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not writing.done():
                writing.cancel()
                await asyncio.wait({writing})
        if not writing.cancelled():
            writing.result()

    def _head(self, status: int, headers: Mapping[str, str]) -> dict[str, object]:
        lines = [(name.encode(), value.encode()) for name, value in {**self._headers, **headers}.items()]
        return {"type": "http.response.start", "status": status, "headers": lines}


async def _write(lines: AsyncGenerator[bytes, None], send: Send, *, is_read: bool) -> None:
    async with aclosing(lines):
        if is_read:
            # The reader has the head before the first line, which may take long.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            async for line in lines:
                await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})
