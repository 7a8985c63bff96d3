"""Calls of Python functions for one call of a front on our host: no more than on uvicorn.

`python -m tests.fronts.test_calls` prints both. The client is in another thread, which does not count.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPResponse
from types import CodeType, FrameType
from typing import Any

import pytest
import uvicorn

from a2a_bridge import agent
from a2a_bridge_adapters.fronts import mcp_front, openai_front
from tests.fronts.fronts import ACCEPT, INITIALIZE, listening
from tests.patience import PATIENCE

WARM_UP, COUNTED = 20, 20
HEADERS = {**ACCEPT, "Content-Type": "application/json", "Authorization": "Bearer none"}
CHAT = {"model": "echo", "messages": [{"role": "user", "content": "said"}]}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"message": "said"}},
}


@agent
async def echo(text: str) -> str:
    """Repeats the text."""
    return text


class WholeRequests(HTTPConnection):
    """Sends the head and the body of a request in one piece. Otherwise the load of the machine decides whether
    the host reads them in one turn of its loop or in two, which costs it more calls.
    """

    def __init__(self, *address: Any, **options: Any) -> None:
        super().__init__(*address, **options)
        self._pieces: list[bytes] = []

    def send(self, data: Any) -> None:
        self._pieces.append(bytes(data))

    def getresponse(self) -> HTTPResponse:
        if self.sock is None:
            self.connect()
        self.sock.sendall(b"".join(self._pieces))
        self._pieces.clear()
        return super().getresponse()


def post(client: HTTPConnection, path: str, body: Any, headers: dict[str, str]) -> tuple[str, str]:
    """The text of an answer, and the session that it has opened."""
    client.request("POST", path, json.dumps(body), headers)
    answer = client.getresponse()
    return answer.read().decode(), answer.getheader("mcp-session-id", "")


def chatting(client: HTTPConnection) -> Callable[[], str]:
    return lambda: post(client, "/v1/chat/completions", CHAT, HEADERS)[0]


def calling(client: HTTPConnection) -> Callable[[], str]:
    _, session = post(client, "/mcp", INITIALIZE, HEADERS)
    headers = {**HEADERS, "Mcp-Session-Id": session}
    post(client, "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return lambda: post(client, "/mcp", CALL, headers)[0]


FRONTS = {"chat completion": (openai_front, chatting), "MCP call": (mcp_front, calling)}


@asynccontextmanager
async def on_uvicorn(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False, http="httptools")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  it has no event
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving


async def count(title: str, host: Callable[[Any], Any] = listening) -> Counter[CodeType]:
    """The calls of functions on the loop for all counted calls of a front."""
    make, prepare = FRONTS[title]
    app, loop, calls = make(echo), asyncio.get_running_loop(), Counter[CodeType]()

    def note(frame: FrameType, what: str, _: Any) -> None:
        if what == "call":
            calls[frame.f_code] += 1

    async def switch(on: bool) -> None:
        sys.setprofile(note if on else None)

    def work(url: str) -> None:
        client = WholeRequests(url.removeprefix("http://"), timeout=PATIENCE)
        call = prepare(client)
        for _ in range(WARM_UP):
            assert "said" in call()
        asyncio.run_coroutine_threadsafe(switch(True), loop).result(PATIENCE)
        for _ in range(COUNTED):
            call()
        asyncio.run_coroutine_threadsafe(switch(False), loop).result(PATIENCE)
        client.close()

    async with host(app) as url:
        await asyncio.to_thread(work, url)
    await app.close()
    return calls


def per_call(calls: Counter[CodeType], *folders: str) -> float:
    """The calls of functions below these folders for one call; of all without a folder."""
    chosen = (
        n for code, n in calls.items() if not folders or any(one in code.co_filename for one in folders)
    )
    return sum(chosen) / COUNTED


#: calls of functions of this project: those of other libraries and of the loop depend on their releases. One
#: more is allowed, for timers of the host that end meanwhile on a slow machine
@pytest.mark.parametrize(("title", "budget"), [("chat completion", 215), ("MCP call", 206)])
async def test_a_call_of_a_front_costs_no_more_than_it_did(title: str, budget: float) -> None:
    async with asyncio.timeout(PATIENCE):
        calls = await count(title)
    assert per_call(calls, "/a2a_bridge/", "/a2a_bridge_transports/", "/a2a_bridge_adapters/") <= budget


if __name__ == "__main__":
    for name in FRONTS:
        ours, theirs = asyncio.run(count(name)), asyncio.run(count(name, on_uvicorn))
        print(f"{name:20} our host {per_call(ours):8.1f}   uvicorn {per_call(theirs):8.1f}")
