"""An agent with one fault: right in everything that `check` asks but what a test says. No tests."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, web

from tests.sites import site

NOT_FOUND = {"code": -32001, "message": "Task not found"}
HTML = "<html><h1>Something went wrong</h1></html>"


@dataclass
class Script:
    """How the agent behaves. The defaults are right."""

    #: the versions that the wire speaks
    wire: tuple[str, ...] = ("1.0",)
    #: path -> members of the card that differ; None: no card there
    cards: Mapping[str, Mapping[str, Any] | None] = field(
        default_factory=lambda: {"/.well-known/agent-card.json": {}}
    )
    #: of the answer with the card
    card_status: int = 200
    card_headers: Mapping[str, str] = field(default_factory=dict)
    #: the body in its place
    card_body: str = ""
    content_type: str = "application/json"
    #: bindings in the card
    bindings: tuple[str, ...] = ("JSONRPC",)
    #: the URL in the card; {} is the server's own
    url: str = "{}/"
    #: of interfaces in the card
    version: str = "1.0"
    #: one of: "", "missing" (instead of 404), "cached" (a request with If-None-Match): no response
    hangs_up: str = ""
    #: whether calls need `Authorization: Bearer right`
    guarded: bool = False
    #: the error of GetTask; None: a task
    unknown: Mapping[str, Any] | None = field(default_factory=lambda: NOT_FOUND)
    #: what it answers, by binding
    says: Mapping[str, str] = field(default_factory=dict)
    #: the error of SendMessage
    rejection: Mapping[str, Any] | None = None
    #: one of: "", "silent" (a message is never answered), "html" (every call is answered with a page),
    #: "small" (a proxy with a limit of 1 MiB), "eager" (a message to an unknown task starts one)
    fault: str = ""
    #: one of: "", "endless", "rejected", "empty", "late" (an event after the last one), "failed"
    stream: str = ""
    #: whether it answers with tasks, not messages
    tasks: bool = False
    #: one of: "silent" (no notification), "rejected", "anonymous" (without the token), "right"
    push: str = ""


class Agent:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.base = ""
        self._stopping = asyncio.Event()
        self.handlers = {
            "GET /tasks/{id}": self._get_task,
            "POST /message:send": self._send,
            "POST /message:stream": self._stream_http,
            "POST /": self._json_rpc,
            "GET /{path:.*}": self._document,
        }

    def stop(self) -> None:
        self._stopping.set()

    def card(self, path: str) -> dict[str, Any]:
        script, url = self.script, self.script.url.format(self.base)
        card: dict[str, Any] = {
            "name": "Scripted",
            "description": "Has one fault",
            "version": "1",
            "capabilities": {"streaming": True, "pushNotifications": bool(script.push)},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
        }
        if script.version == "1.0":
            card["supportedInterfaces"] = [
                {"url": url.rstrip("/") if one == "HTTP+JSON" else url, "protocolBinding": one}
                | {"protocolVersion": script.version}
                for one in script.bindings
            ]
        else:
            card |= {"url": url, "protocolVersion": script.version, "preferredTransport": script.bindings[0]}
        members = script.cards[path] or {}
        return {name: value for name, value in {**card, **members}.items() if value is not None}

    async def _document(self, request: web.Request) -> web.StreamResponse:
        script = self.script
        is_missing = script.cards.get(request.path) is None
        is_cached = "If-None-Match" in request.headers
        if {"missing": is_missing, "cached": is_cached}.get(script.hangs_up) and request.transport:
            request.transport.close()
        if is_missing:
            return web.Response(status=404, text="no such page")
        if script.card_status != 200:
            return web.Response(status=script.card_status, headers=script.card_headers, text=HTML)
        body = script.card_body or json.dumps(self.card(request.path))
        return web.Response(text=body, content_type=script.content_type, headers=script.card_headers)

    def _rejected(self, request: web.Request) -> web.Response | None:
        if self.script.guarded and request.headers.get("Authorization") != "Bearer right":
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text="who are you?")
        if self.script.fault == "html":
            return web.Response(status=500, text=HTML, content_type="text/html")
        if self.script.fault == "small" and (request.content_length or 0) > 1024 * 1024:
            return web.Response(status=413, text=HTML, content_type="text/html")
        return None

    async def _get_task(self, request: web.Request) -> web.StreamResponse:
        rejected = self._rejected(request)
        if rejected is not None or self.script.unknown is None:
            return rejected or web.json_response({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})
        return _http_error(self.script.unknown)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        rejected = self._rejected(request)
        if rejected is not None:
            return rejected
        message = (await request.json())["message"]
        if message.get("taskId"):
            return _http_error(NOT_FOUND)
        return web.json_response({"message": self._message("HTTP+JSON", "1.0")})

    async def _stream_http(self, request: web.Request) -> web.StreamResponse:
        row = json.dumps({"message": self._message("HTTP+JSON", "1.0")})
        return web.Response(text=f"data: {row}\n\n", content_type="text/event-stream")

    async def _json_rpc(self, request: web.Request) -> web.StreamResponse:
        rejected = self._rejected(request)
        if rejected is not None:
            return rejected
        call = await request.json()
        version = "1.0" if call["method"][0].isupper() else "0.3"
        if version not in self.script.wire:
            return _answer(call, error={"code": -32601, "message": "Method not found"})
        match call["method"]:
            case "GetTask" | "tasks/get":
                if self.script.unknown is not None:
                    return _answer(call, error=self.script.unknown)
                return _answer(call, result={"id": "t", "status": {"state": "TASK_STATE_WORKING"}})
            case "SendMessage" | "message/send":
                return await self._send_message(call, version)
            case "SendStreamingMessage" | "message/stream":
                return await self._stream(request, call, version)
        return _answer(call, error={"code": -32601, "message": "Method not found"})

    async def _send_message(self, call: dict[str, Any], version: str) -> web.StreamResponse:
        script, params = self.script, call["params"]
        if params["message"].get("taskId") and script.fault != "eager":
            return _answer(call, error=NOT_FOUND)
        if script.fault == "silent":
            await self._stopping.wait()
        config = params.get("configuration", {}).get("taskPushNotificationConfig")
        if config is not None and script.push == "rejected":
            return _answer(call, error={"code": -32003, "message": "no notifications here"})
        if config is not None and script.push in ("anonymous", "right"):
            headers = {"A2A-Notification-Token": config["token"]} if script.push == "right" else {}
            async with ClientSession() as session:
                await session.post(config["url"], json={"task": self._task()}, headers=headers)
        if script.rejection is not None:
            return _answer(call, error=script.rejection)
        if script.tasks:
            return _answer(call, result={"task": self._task()})
        message = self._message("JSONRPC", version)
        return _answer(call, result={"message": message} if version == "1.0" else message)

    async def _stream(self, request: web.Request, call: dict[str, Any], version: str) -> web.StreamResponse:
        script = self.script
        if script.stream == "rejected":
            return _answer(call, error={"code": -32004, "message": "Streaming is not supported"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events: list[dict[str, Any]] = []
        if script.tasks:
            events.append({"task": self._task("FAILED" if script.stream == "failed" else "COMPLETED")})
        elif script.stream != "empty":
            message = self._message("JSONRPC", version)
            events.append({"message": message} if version == "1.0" else message)
        if script.stream == "late":
            update = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
            events.append({"statusUpdate": update})
        for event in events:
            row = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": event})
            await response.write(f"data: {row}\n\n".encode())
        if script.stream == "endless":
            await self._stopping.wait()
        return response

    def _message(self, binding: str, version: str) -> dict[str, Any]:
        text = self.script.says.get(binding, "hello")
        if version == "1.0":
            return {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        part = {"kind": "text", "text": text}
        return {"kind": "message", "messageId": "m", "role": "agent", "parts": [part]}

    def _task(self, state: str = "COMPLETED") -> dict[str, Any]:
        artifact = {"artifactId": "a", "parts": [{"text": "hello"}]}
        return {
            "id": "t",
            "contextId": "c",
            "status": {"state": f"TASK_STATE_{state}"},
            "artifacts": [artifact],
        }


def _answer(call: dict[str, Any], **members: Any) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": call["id"], **members})


def _http_error(error: Mapping[str, Any]) -> web.Response:
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND"}
    details = [{**reason, "domain": "a2a-protocol.org"}]
    body = {"code": 404, "status": "NOT_FOUND", "message": error["message"], "details": details}
    return web.json_response({"error": body}, status=404)


@asynccontextmanager
async def scripted(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The base URL of a running agent."""
    agent = Agent(script)
    async with site(agent.handlers, tls=tls) as agent.base:
        try:
            yield agent.base
        finally:
            agent.stop()
