"""Exchanges of an agent over HTTP: recorded between a gateway and the agent, and replayed without the agent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web

from tests.patience import PATIENCE

#: replaces the origin of the agent in a recording
ORIGIN = "{origin}"
#: replaces the id of the JSON-RPC request in a recording
_ID = "{id}"


def _key(method: str, target: str, body: bytes) -> str:
    """The key of an exchange: the request line, and the JSON-RPC method."""
    rpc = json.loads(body).get("method", "") if body else ""
    return f"{method} {target} {rpc}".strip()


def _with_id(text: str, found: Any, written: Any) -> str:
    """The id of a JSON-RPC answer, in one document or in the events of a stream, replaced."""
    for space in ("", " "):
        before = f'"id":{space}{json.dumps(found)}'
        text = text.replace(before, f'"id":{space}{json.dumps(written)}')
    return text


class Recorder:
    """Forwards requests to an agent, and keeps the last exchange of each kind."""

    def __init__(self, agent: str, session: ClientSession) -> None:
        self._agent, self._session = agent, session
        self.origin = ""
        self.exchanges: dict[str, dict[str, Any]] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in ("host", "content-length", "accept-encoding")
        }
        url = self._agent + request.path_qs
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            text = (await answer.read()).decode()
        kept = text.replace(self._agent, ORIGIN)
        asked = json.loads(body) if body else {}
        kind = answer.headers.get("Content-Type", "")
        self.exchanges[_key(request.method, request.path_qs, body)] = {
            "request": asked,
            "status": answer.status,
            "type": kind,
            "answer": _with_id(kept, asked.get("id"), _ID) if asked else kept,
        }
        return _answer(text.replace(self._agent, self.origin), answer.status, kind)


class Player:
    """Answers like a recording. Other requests get a 404, so that a test sees them."""

    def __init__(self, exchanges: dict[str, dict[str, Any]]) -> None:
        self.origin = ""
        self._exchanges = exchanges

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        exchange = self._exchanges.get(_key(request.method, request.path_qs, body))
        if exchange is None:
            return web.Response(status=404)
        text = exchange["answer"].replace(ORIGIN, self.origin)
        if body:
            text = _with_id(text, _ID, json.loads(body).get("id"))
        return _answer(text, exchange["status"], exchange["type"])


def _answer(text: str, status: int, kind: str) -> web.Response:
    return web.Response(body=text.encode(), status=status, headers={"Content-Type": kind})


@asynccontextmanager
async def _serving(handler: Recorder | Player) -> AsyncIterator[None]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        handler.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def recording(agent: str) -> AsyncIterator[Recorder]:
    async with ClientSession(timeout=ClientTimeout(PATIENCE)) as session:
        recorder = Recorder(agent, session)
        async with _serving(recorder):
            yield recorder


@asynccontextmanager
async def playing(exchanges: dict[str, dict[str, Any]]) -> AsyncIterator[Player]:
    """A server that answers like a recording."""
    player = Player(exchanges)
    async with _serving(player):
        yield player
