"""Raw peers of 1.0 on both sides of a gateway: JSON trees and protobuf bytes as they are on the wire. No tests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import grpc
import grpc.aio
from aiohttp import web

from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import Json, dumps, loads
from a2a_bridge.dialects import by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.sites import site

SERVICE = "lf.a2a.v1.A2AService"
KINDS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: operation -> method and path over HTTP+JSON, for a task `t`
PATHS = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "SubscribeToTask": ("POST", "/tasks/t:subscribe"),
    "GetTask": ("GET", "/tasks/t"),
    "CancelTask": ("POST", "/tasks/t:cancel"),
    "ListTasks": ("GET", "/tasks"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/t/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/t/pushNotificationConfigs/c"),
}


class RawAgent:
    """An agent of 1.0 over all bindings. It answers with what it was given and records what it was asked."""

    def __init__(self) -> None:
        #: trees for JSON, bytes for gRPC; a list is a stream
        self.answer: Any = {}
        #: the request trees (of GET: the query), or the request bytes
        self.asked: list[Any] = []

    async def rpc(self, request: web.Request) -> web.Response:
        """One call of JSON-RPC."""
        frame: Any = loads(await request.read())
        self.asked.append(frame["params"])
        return self._answer(lambda tree: {"jsonrpc": "2.0", "id": frame["id"], "result": tree})

    async def rest(self, request: web.Request) -> web.Response:
        """One call of HTTP+JSON."""
        body = await request.read()
        self.asked.append(loads(body) if body else dict(request.query))
        return self._answer(lambda tree: tree)

    def _answer(self, framed: Any) -> web.Response:
        if not isinstance(self.answer, list):
            return web.Response(body=dumps(framed(self.answer)), content_type="application/json")
        text = "".join(f"data: {dumps(framed(one)).decode()}\n\n" for one in self.answer)
        return web.Response(text=text, content_type="text/event-stream")

    def grpc_handlers(self) -> Any:
        """All methods of gRPC, on bytes."""

        async def unary(request: bytes, _: Any) -> bytes:
            self.asked.append(request)
            return bytes(self.answer)

        async def stream(request: bytes, _: Any) -> AsyncIterator[bytes]:
            self.asked.append(request)
            for one in self.answer:
                yield one

        handlers = {}
        for method in hub.DESCRIPTOR.services_by_name["A2AService"].methods:
            make = grpc.unary_unary_rpc_method_handler
            if method.server_streaming:
                make = grpc.unary_stream_rpc_method_handler
            handlers[method.name] = make(stream if method.server_streaming else unary)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)


class RawCaller:
    """A caller of a gateway with all three bindings of 1.0."""

    def __init__(self, session: aiohttp.ClientSession, channel: Any, card: hub.AgentCard) -> None:
        self._session = session
        self._channel = channel
        self._urls = {one.protocol_binding: one.url for one in card.supported_interfaces}

    async def json(self, kind: str, operation: str, tree: Json, query: str = "") -> Any:
        """The answer to a JSON tree, for a stream its events. Fails for an error."""
        method, url, body = "POST", self._urls[kind], dumps(tree)
        if kind == "JSONRPC":
            body = dumps({"jsonrpc": "2.0", "id": 7, "method": operation, "params": tree})
        else:
            method, path = PATHS[operation]
            url += path + query
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        sent = body if method == "POST" else None
        async with self._session.request(method, url, data=sent, headers=headers) as response:
            text = await response.read()
        assert response.status == 200, text
        if response.content_type != "text/event-stream":
            return self._result(kind, text)
        return [self._result(kind, line[5:]) for line in text.splitlines() if line.startswith(b"data:")]

    def _result(self, kind: str, text: bytes) -> Any:
        answer: Any = loads(text)
        return answer if kind != "JSONRPC" else answer["result"]

    async def grpc(self, operation: str, request: bytes) -> list[bytes]:
        """The answers to the bytes of a request. Raises AioRpcError."""
        method = hub.DESCRIPTOR.services_by_name["A2AService"].methods_by_name[operation]
        metadata = [("a2a-version", "1.0")]
        options: Any = {"timeout": PATIENCE, "metadata": metadata}
        if not method.server_streaming:
            return [await self._channel.unary_unary(f"/{SERVICE}/{operation}")(request, **options)]
        return [
            one async for one in self._channel.unary_stream(f"/{SERVICE}/{operation}")(request, **options)
        ]


@asynccontextmanager
async def between(kind: str, version: str = "1.0") -> AsyncIterator[tuple[RawCaller, RawAgent]]:
    """A gateway with all bindings of 1.0 in front of an agent with one, and a caller of it."""
    raw = RawAgent()
    async with AsyncExitStack() as stack:
        if kind == "GRPC":
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((raw.grpc_handlers(),))
            url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            stack.push_async_callback(server.stop, None)
        else:
            url = await stack.enter_async_context(site({"POST /": raw.rpc, "/{rest:.+}": raw.rest})) + "/"
        capabilities = hub.AgentCapabilities(streaming=True, push_notifications=True)
        card = hub.AgentCard(name="raw", description="newer", version="1", capabilities=capabilities)
        dialect = by_version(version)
        assert dialect is not None
        gateway = await stack.enter_async_context(
            serve_gateway(
                card,
                [Candidate(interface(kind, url, version=version), dialect)],
                [interface(one) for one in KINDS],
                dial_options=DialOptions(timeout=PATIENCE),
            )
        )
        limit = aiohttp.ClientTimeout(total=PATIENCE)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=limit))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(str(gateway.grpc)))
        yield RawCaller(session, channel, gateway.card), raw
