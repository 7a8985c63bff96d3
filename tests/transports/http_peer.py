"""An agent of raw bytes with configurable behaviour, and its callers. No tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import SIDE_CHANNEL, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0, Dialect, Form, HttpAddress, HttpRule, Row
from a2a_bridge.dialects.dialect import Beside
from a2a_bridge.dialects.v0_3 import errors
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.transports.http_scene import dialling

REQUEST = hub.SendMessageRequest(
    message=hub.Message(message_id="m-1", role=hub.ROLE_USER, parts=[hub.Part(text="hello")])
)
RESULT = '{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}'
EVENT = '{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'


@dataclass
class Peer:
    """An agent of raw bytes: a function makes the answer to each request."""

    answer: Callable[[str, dict[str, str], bytes], bytes]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                block = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = block.split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((first, headers, body))
                data = self.answer(first, headers, body)
                writer.write(data.removesuffix(b"<hang up>"))
                if data.endswith(b"<hang up>"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def peering(answer: Callable[[str, dict[str, str], bytes], bytes] | bytes) -> AsyncIterator[Peer]:
    peer = Peer(answer if callable(answer) else lambda *_: answer)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer.url = f"http://{host}:{port}"
    try:
        yield peer
    finally:
        server.close()


def http(body: str | bytes, status: str = "200 OK", media: str = "application/json", more: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


def sse(*blocks: str, end: bool = True, media: str = "text/event-stream") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = "".join(f"{len(block.encode()):x}\r\n{block}\r\n" for block in blocks)
    return (head + chunks + ("0\r\n\r\n" if end else "<hang up>")).encode()


def result(kind: str, tree: str, id_: Any = 1) -> str:
    return tree if kind == "HTTP+JSON" else f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{tree}}}'


async def send(
    url: str, kind: str, options: DialOptions | None = None, **context: Any
) -> hub.SendMessageResponse:
    async with dialling(url, kind, options) as service:
        return await Client(service).send_message(REQUEST, CallContext(**context))


async def subscribe(url: str, kind: str, options: DialOptions | None = None, **context: Any) -> list[Any]:
    found: list[Any] = []
    async with dialling(url, kind, options) as service:
        request = hub.SubscribeToTaskRequest(id="7")
        stream = Client(service).subscribe_to_task(request, CallContext(**context))
        try:
            async for event in stream:
                found.append(event)  # noqa: PERF401  an error may come in between
        except A2AError as error:
            found.append(error)
    return found


async def failure(awaitable: Any) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await awaitable
    return caught.value


# Versions for tests: the messages of 1.0 at the addresses and with the errors of 0.3. No tests.


METHODS = {
    ops.SEND_MESSAGE: "message/send",
    ops.SEND_STREAMING_MESSAGE: "message/stream",
    ops.GET_TASK: "tasks/get",
    ops.CANCEL_TASK: "tasks/cancel",
    ops.SUBSCRIBE_TO_TASK: "tasks/resubscribe",
    ops.DELETE_PUSH_CONFIG: "tasks/pushNotificationConfig/delete",
    ops.GET_EXTENDED_AGENT_CARD: "agent/getAuthenticatedExtendedCard",
}
CARD = "GET ../agent/authenticatedExtendedCard"
EXTENSIONS = ("x-a2a-extensions", "a2a-extensions")
PACKAGE = "/a2a.v1.A2AService/"
NOTE = b"\x92\x03\x04note"  # member 50 of any message: unknown to it


def _noted(row: Row[Any, Any]) -> Row[Any, Any]:
    if row.operation is not ops.GET_TASK:
        return row

    def extract(wire: Any) -> Mapping[str, str]:
        if isinstance(wire, bytes):
            return {SIDE_CHANNEL: "note"} if wire.endswith(NOTE) else {}
        return {SIDE_CHANNEL: wire["note"]} if "note" in wire else {}

    def restore(wire: Any, parameters: Mapping[str, str]) -> Any:
        note = parameters.get(SIDE_CHANNEL)
        if note is None:
            return wire
        return wire + NOTE if isinstance(wire, bytes) else {**wire, "note": note}

    return row.with_extras(request=Beside(extract, restore), response=Beside(extract, restore))


def _http(address: HttpAddress) -> HttpAddress:
    rules = tuple(
        HttpRule(rule.method, "/v1" + rule.template, rule.body, {**rule.query, "note": "string"})
        for rule in address.rules
        if "{tenant}" not in rule.template
    )
    return HttpAddress(rules)


def made(version: str, *, card: bool = False) -> Dialect:
    """A version. card: its extended card is a document beside the URL of JSON-RPC."""
    jsonrpc = [
        _noted(replace(row, address=CARD if card and method.startswith("agent/") else method))
        for row in V1_0.forms[JSONRPC].rows
        if (method := METHODS.get(row.operation)) is not None
    ]
    http_json = [
        _noted(replace(row, address=_http(row.address)))
        for row in V1_0.forms[HTTP_JSON].rows
        if row.operation in METHODS
    ]
    grpc = [
        _noted(replace(row, address=PACKAGE + row.operation.name))
        for row in V1_0.forms[GRPC].rows
        if row.operation in METHODS
    ]
    return Dialect(
        version,
        V1_0.card,
        {
            JSONRPC: Form(tuple(jsonrpc), errors.encode_jsonrpc, errors.decode_jsonrpc),
            HTTP_JSON: Form(tuple(http_json), errors.encode_http_json, errors.decode_http_json),
            GRPC: Form(tuple(grpc), errors.encode_grpc, errors.decode_grpc),
        },
        declares=False,
        extensions=EXTENSIONS,
        final_events=True,
    )


OLD = made("0.3")
OLDER = made("0.2.5", card=True)
