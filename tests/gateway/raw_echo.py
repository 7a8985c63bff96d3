"""A client and an agent of 0.3 of plain JSON over HTTP, and gateways between them. No tests."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from a2a_bridge.app.runtime import Server, serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import dumps, loads_exact
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
    """answer: the result of a method with its params, or an error under `error`. asked: the requests,
    unchanged.
    """

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
        self._session = session
        self._url = url

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
