"""Keep-alives of an ASGI application beside the other messages of a response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from tests.patience import PATIENCE
from tests.transports.http_scene import MESSAGE, Scripted
from tests.transports.test_http_asgi import STREAM, application, post_scope


@pytest.mark.parametrize("path", ["/", "/message:stream"])
async def test_no_keep_alive_after_an_error(path: str) -> None:
    """Its head would be a second one. A server may take long to send the error to a slow client."""

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        raise A2AError(Reason.TASK_NOT_FOUND)
        yield

    heads: list[Any] = []
    sendable = asyncio.Event()
    data = json.dumps(STREAM if path == "/" else {"message": MESSAGE}).encode()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": data})

    async def put(message: Any) -> None:
        if message["type"] == "http.response.start":
            heads.append(message["status"])
            asyncio.get_running_loop().call_later(0.1, sendable.set)
            await sendable.wait()

    app = application(Scripted(on_stream=script), HostOptions(keep_alive=0.01))
    async with asyncio.timeout(PATIENCE):
        await app(post_scope(path), messages.get, put)
    assert len(heads) == 1
