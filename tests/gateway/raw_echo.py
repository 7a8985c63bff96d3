"""A client and an agent of 0.3 of plain JSON over HTTP, and gateways between them. No tests."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import grpc
import grpc.aio
from aiohttp import web

from a2a_bridge.app.runtime import Server, serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import Json, dumps, loads, loads_exact
from a2a_bridge.dialects import by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE
from tests.sites import Handler, site

STREAMING = ("message/stream", "tasks/resubscribe", "SendStreamingMessage")
Side = tuple[str, str]
"""A version and a binding."""


def task_of(message: Any, **members: Any) -> Any:
    """A task that contains a message in all its places."""
    status = {"state": "completed", "message": message}
    return {"kind": "task", "id": "t", "contextId": "c", "status": status, "history": [message], **members}


def echo(method: str, params: Any) -> Any:
    """The result of a method: the content of the request, or for a stream the list of its events."""
    if method == "message/send":
        return task_of(params["message"])
    if method == "message/stream":
        message = params["message"]
        place = {"taskId": "t", "contextId": "c"}
        artifact = {"artifactId": "a", "parts": message["parts"], "asked": params}
        done = {"state": "completed", "message": message}
        return [
            task_of(message, status={"state": "working"}),
            {"kind": "artifact-update", **place, "artifact": artifact},
            {"kind": "status-update", **place, "status": done, "final": True},
        ]
    return task_of({"kind": "message", "messageId": "m", "role": "agent", "parts": []}, id=params["id"])


class RawAgent:
    """answer: the result of a method with its params, or `error`. asked: the requests, unchanged."""

    def __init__(self) -> None:
        self.answer: Callable[[str, Any], Any] = echo
        self.asked: list[Any] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One JSON-RPC call."""
        frame: Any = loads_exact(await request.read())
        self.asked.append(frame.get("params"))
        result = self.answer(frame["method"], frame.get("params"))
        if isinstance(result, list) and frame["method"] in STREAMING:
            data = [dumps({"jsonrpc": "2.0", "id": frame["id"], "result": one}) for one in result]
            text = "".join(f"data: {one.decode()}\n\n" for one in data)
            return web.Response(text=text, content_type="text/event-stream")
        rejected = isinstance(result, dict) and result.keys() == {"error"}
        body = dumps({"jsonrpc": "2.0", "id": frame["id"], **(result if rejected else {"result": result})})
        return web.Response(body=body, content_type="application/json")


class RawClient:
    """A client of 0.3 of plain JSON over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def call(self, method: str, params: str) -> Any:
        """The result for params as JSON text; raises for an error. The events of a stream are a list."""
        frame = f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}'
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url, data=frame.encode(), headers=headers) as response:
            body = await response.read()
        if response.content_type != "text/event-stream":
            return _result(body)
        return [_result(line[5:]) for line in body.splitlines() if line.startswith(b"data:")]


def _result(text: bytes) -> Any:
    answer: Any = loads_exact(text)
    if "result" not in answer:
        raise AssertionError(dumps(answer["error"]).decode())
    return answer["result"]


@asynccontextmanager
async def gateway_before(
    handle: Handler,
    version: str,
    served: Sequence[hub.AgentInterface],
    card: hub.AgentCard | None = None,
    **options: Any,
) -> AsyncIterator[Server]:
    """A gateway that serves some interfaces before an agent of JSON-RPC of a version. options: of `serve_gateway`."""
    dialect = by_version(version)
    assert dialect is not None
    shown = card or hub.AgentCard(
        name="raw", description="answers", version="1", capabilities=hub.AgentCapabilities(streaming=True)
    )
    async with site({"POST /": handle}) as url:
        there = Candidate(interface("JSONRPC", f"{url}/", version=version), dialect)
        async with serve_gateway(shown, [there], served, **options) as server:
            yield server


@asynccontextmanager
async def chained(
    *between: Side, agent: Side = ("0.3", "JSONRPC")
) -> AsyncIterator[tuple[RawClient, RawAgent]]:
    """A raw client, as many gateways as there are wires between them plus one, and a raw agent."""
    raw = RawAgent()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(site({"POST /": raw.handle}))
        capabilities = hub.AgentCapabilities(streaming=True, push_notifications=True)
        card = hub.AgentCard(name="raw", description="hands back", version="1", capabilities=capabilities)
        version, binding = agent
        there = interface(binding, f"{url}/", version=version)
        sides: Sequence[Side] = (*between, ("0.3", "JSONRPC"))
        for version, binding in sides:
            dialect = by_version(there.protocol_version)
            assert dialect is not None
            server = await stack.enter_async_context(
                serve_gateway(
                    card,
                    [Candidate(there, dialect)],
                    [interface(binding, version=version)],
                    dial_options=DialOptions(timeout=PATIENCE),
                )
            )
            [there] = server.card.supported_interfaces
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE))
        )
        yield RawClient(session, there.url), raw


# Raw peers of 1.0 on both sides of a gateway: JSON trees and protobuf bytes as they are on the wire. No tests.


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


class NewerAgent:
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
        self._session, self._channel = session, channel
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
async def between(
    kind: str, version: str = "1.0", serves: Sequence[hub.AgentInterface] | None = None
) -> AsyncIterator[tuple[RawCaller, NewerAgent]]:
    """serves: the interfaces of the gateway; all of 1.0 without them."""
    raw = NewerAgent()
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
                serves or [interface(one) for one in KINDS],
                dial_options=DialOptions(timeout=PATIENCE),
            )
        )
        limit = aiohttp.ClientTimeout(total=PATIENCE)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=limit))
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(str(gateway.grpc or "127.0.0.1:1"))
        )
        yield RawCaller(session, channel, gateway.card), raw
