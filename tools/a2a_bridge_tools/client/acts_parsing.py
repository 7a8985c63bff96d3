"""What our own client makes of a response that a document has: the client calls a server of this process that
gives it.

Rules:
1. A body with `jsonrpc` is read by the client of JSONRPC, any other one by that of HTTP+JSON.
2. A public card is no response of an operation, and is decoded only.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.app import runtime
from a2a_bridge.cards import interface
from a2a_bridge.codec import DecodeError, decoder, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0

#: operation -> what is called. The specification of ACTS lets a document leave out the operation
_CALLS: Mapping[str, tuple[ops.Operation[Any, Any], Any]] = {
    "send_message": (ops.SEND_MESSAGE, {"message": {"messageId": "x", "role": 1, "parts": [{"text": "x"}]}}),
    "get_task": (ops.GET_TASK, {"id": "x"}),
    "cancel_task": (ops.CANCEL_TASK, {"id": "x"}),
    "list_tasks": (ops.LIST_TASKS, {}),
    "get_extended_agent_card": (ops.GET_EXTENDED_AGENT_CARD, {}),
}


async def readings(golden: Mapping[str, Any]) -> list[Any]:
    """The response as JSON, or `{error: {code, message}}`, once for each operation that it may belong to.
    Raises LookupError for an operation without a response to read.
    """
    body, operation = golden["body"], golden.get("operation")
    if operation == "get_agent_card":
        return [_card(body)]
    calls = [_CALLS[operation]] if operation else list(_CALLS.values())
    binding = "JSONRPC" if isinstance(body, dict) and "jsonrpc" in body else "HTTP+JSON"
    status, headers = golden.get("status", 200), golden.get("headers", {})
    async with (
        _serve_response(body, status, headers) as url,
        runtime.connect(interface(binding, url)) as peer,
    ):
        return [await _read(peer.service, *call) for call in calls]


def _card(body: Any) -> Any:
    try:
        return V1_0.card.encode(V1_0.card.decode(body))
    except (DecodeError, A2AError) as error:
        return _show(error if isinstance(error, A2AError) else A2AError(Reason.PARSE_ERROR, str(error)))


async def _read(service: Service, operation: ops.Operation[Any, Any], tree: Any) -> Any:
    request = decoder(operation.request)(tree)
    try:
        found = await service.unary(Call(operation, request, CallContext()))
    except A2AError as error:
        return _show(error)
    return encoder(type(found))(found)


def _show(error: A2AError) -> Any:
    return {"error": {"code": error.code, "message": error.message}}


@asynccontextmanager
async def _serve_response(body: Any, status: int, headers: Mapping[str, str]) -> AsyncIterator[str]:
    """The URL of a server that gives one response to every request, with the id of a JSON-RPC request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            asked = loads(await reader.readexactly(int(size[1]))) if size else None
            given = {**body, "id": asked["id"]} if isinstance(asked, dict) and "id" in asked else body
            content = json.dumps(given).encode()
            lines = {"Content-Type": "application/json", **headers}
            lines |= {"Content-Length": str(len(content)), "Connection": "close"}
            fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"HTTP/1.1 {status} -\r\n{fields}\r\n".encode() + content)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
