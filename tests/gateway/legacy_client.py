"""A client of 0.1, written from its schema: HTTP and JSON, without code of the product. No tests."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from tests.patience import PATIENCE
from tests.sites import site

#: members in the schema of 0.1, for `check`
STATES = {"submitted", "working", "input-required", "completed", "canceled", "failed", "unknown"}


class Failed(Exception):  # noqa: N818
    """A JSON-RPC error object."""

    def __init__(self, error: dict[str, Any], status: int) -> None:
        super().__init__(f"{error.get('code')} {error.get('message')}")
        self.code = error["code"]
        self.status, self.error = status, error


class LegacyClient:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self._ids = itertools.count(1)

    async def card(self) -> dict[str, Any]:
        async with self._session.get(self._url.rstrip("/") + "/.well-known/agent.json") as response:
            assert response.status == 200
            return dict(await response.json())

    async def call(self, method: str, params: Any) -> Any:
        async with asyncio.timeout(PATIENCE), self._post(method, params) as response:
            answer = json.loads(await response.text())
            if answer.get("error") is not None:
                raise Failed(answer["error"], response.status)
            return answer.get("result")

    async def stream(self, method: str, params: Any) -> AsyncIterator[dict[str, Any]]:
        """Events until one is final, as clients of the time did: they read no further."""
        async with asyncio.timeout(PATIENCE), self._post(method, params) as response:
            if response.content_type != "text/event-stream":
                answer = json.loads(await response.text())
                raise Failed(answer["error"], response.status)
            async for line in response.content:
                if not line.startswith(b"data:"):
                    continue
                answer = json.loads(line[5:])
                if answer.get("error") is not None:
                    raise Failed(answer["error"], response.status)
                event = answer["result"]
                check_event(event)
                yield event
                if event.get("final"):
                    return

    async def send(
        self, task_id: str, text: str, session: str | None = None, **members: Any
    ) -> dict[str, Any]:
        task = await self.call("tasks/send", sending(task_id, text, session, **members))
        check_task(task)
        return dict(task)

    async def get(self, task_id: str, **members: Any) -> dict[str, Any]:
        task = await self.call("tasks/get", {"id": task_id, **members})
        check_task(task)
        return dict(task)

    def _post(self, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return self._session.post(self._url, json=body)


def sending(task_id: str, text: str, session: str | None = None, **members: Any) -> dict[str, Any]:
    params = {
        "id": task_id,
        "message": {"role": "user", "parts": [{"type": "text", "text": text}]},
        **members,
    }
    return params if session is None else {**params, "sessionId": session}


def check_task(task: Any) -> None:
    """The requirements of the schema for a task."""
    assert isinstance(task["id"], str)
    check_status(task["status"])
    for message in task.get("history") or ():
        check_message(message)
    indices = [check_artifact(one) for one in task.get("artifacts") or ()]
    assert len(set(indices)) == len(indices)


def check_event(event: Any) -> None:
    """The requirements of the schema for an event: it has a task, and a status or an artifact."""
    assert isinstance(event["id"], str)
    assert ("status" in event) != ("artifact" in event)
    if "status" in event:
        check_status(event["status"])
        assert isinstance(event.get("final", False), bool)
    else:
        check_artifact(event["artifact"])


def check_status(status: Any) -> None:
    assert status["state"] in STATES
    if status.get("message") is not None:
        check_message(status["message"])


def check_message(message: Any) -> None:
    assert message["role"] in ("user", "agent")
    check_parts(message["parts"])


def check_artifact(artifact: Any) -> int:
    index = artifact.get("index", 0)
    assert isinstance(index, int)
    check_parts(artifact["parts"])
    return index


def check_parts(parts: Any) -> None:
    for part in parts:
        assert "kind" not in part
        if part["type"] in ("text", "file", "data"):
            assert part["type"] in part


# An agent of 0.1, written from the schema of its time: plain HTTP and JSON, without code of the product. No


CARD = {
    "name": "old",
    "description": None,
    "url": "",
    "version": "7",
    "capabilities": {"streaming": True, "pushNotifications": True, "stateTransitionHistory": False},
    "authentication": {"schemes": ["Bearer"], "credentials": None},
    "defaultInputModes": ["text"],
    "defaultOutputModes": ["text"],
    "skills": [{"id": "s", "name": "s", "description": None, "tags": None}],
}
PARTS = [
    {"type": "text", "text": "see", "metadata": None},
    {"type": "file", "file": {"name": "f", "mimeType": "text/plain", "bytes": "aGk=", "uri": None}},
    {"type": "form", "fields": [{"name": "age"}]},
]


class Rejected(Exception):  # noqa: N818
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": None}


class LegacyAgent:
    """Tasks by the ids of their callers, and the requests."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.configs: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []
        self.released = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.text())
        self.requests.append(body)
        try:
            params = body["params"]
            if body["method"] in ("tasks/sendSubscribe", "tasks/resubscribe"):
                return await self._streamed(request, body["id"], body["method"], params)
            result = self._answer(body["method"], params)
        except Rejected as rejected:
            return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": rejected.error})
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": result, "error": None})

    def _answer(self, method: str, params: Any) -> Any:
        if method == "tasks/send":
            task = self._begun(params)
            for event in self._events(task, params["message"]):
                _apply(task, event)
            return self._shown(task, params.get("historyLength"))
        if method == "tasks/get":
            return self._shown(self._task(params), params.get("historyLength"))
        if method == "tasks/cancel":
            task = self._task(params)
            if task["status"]["state"] in ("completed", "failed", "canceled"):
                raise Rejected(-32002, "Task cannot be canceled")
            task["status"] = _status("canceled")
            return self._shown(task, None)
        if method == "tasks/pushNotification/set":
            self._task(params)
            self.configs[params["id"]] = params["pushNotificationConfig"]
            return params
        if method == "tasks/pushNotification/get":
            self._task(params)
            return {"id": params["id"], "pushNotificationConfig": self.configs.get(params["id"])}
        raise Rejected(-32601, "Method not found")

    async def _streamed(self, request: web.Request, id_: Any, method: str, params: Any) -> web.StreamResponse:
        if method == "tasks/resubscribe":
            task = self._task(params)
            state = task["status"]["state"]
            events: Any = [{"id": task["id"], "status": task["status"], "final": state == "completed"}]
        else:
            task = self._begun(params)
            events = self._events(task, params["message"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            _apply(task, event)
            answer = {"jsonrpc": "2.0", "id": id_, "result": event, "error": None}
            await response.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
        return response

    def _begun(self, params: Any) -> dict[str, Any]:
        message = params.get("message")
        if not isinstance(params.get("id"), str) or not isinstance(message, dict):
            raise Rejected(-32602, "id and message are required")
        if message.get("role") not in ("user", "agent") or not isinstance(message.get("parts"), list):
            raise Rejected(-32602, "role and parts are required")
        if any("type" not in part for part in message["parts"]):
            raise Rejected(-32602, "a part without a type")
        if params.get("historyLength") is not None and not isinstance(params["historyLength"], int):
            raise Rejected(-32602, "historyLength is no integer")
        task = self.tasks.setdefault(
            params["id"],
            {"id": params["id"], "sessionId": params.get("sessionId"), "history": [], "artifacts": None},
        )
        if params.get("pushNotification") is not None:
            self.configs[task["id"]] = params["pushNotification"]
        task["history"].append({"role": message["role"], "parts": message["parts"], "metadata": None})
        return task

    def _events(self, task: dict[str, Any], message: Any) -> list[dict[str, Any]]:
        text = next((part["text"] for part in message["parts"] if part["type"] == "text"), "")
        word = text.partition(" ")[0] if len(task["history"]) == 1 else "again"
        if word == "limit":
            raise Rejected(-32010, "Rate limit exceeded")
        working = {"id": task["id"], "status": _status("working"), "final": False, "metadata": None}
        if word == "ask":
            asked = {"role": "agent", "parts": [{"type": "text", "text": "what?"}], "metadata": None}
            return [working, {"id": task["id"], "status": _status("input-required", asked), "final": True}]
        if word == "slow":
            return [working]
        if word == "fail":
            return [working, {"id": task["id"], "status": _status("failed"), "final": True}]
        if word == "chunks":
            pieces = [
                _artifact([{"type": "text", "text": f"{number}"}], number > 0, number == 2)
                for number in range(3)
            ]
        else:
            pieces = [_artifact(PARTS if word == "parts" else [{"type": "text", "text": text}], None, None)]
        return [
            working,
            *({"id": task["id"], "artifact": piece, "metadata": None} for piece in pieces),
            {"id": task["id"], "status": _status("completed"), "final": True, "metadata": None},
        ]

    def _task(self, params: Any) -> dict[str, Any]:
        if params.get("id") not in self.tasks:
            raise Rejected(-32001, "Task not found")
        return self.tasks[params["id"]]

    def _shown(self, task: dict[str, Any], length: int | None) -> dict[str, Any]:
        return {**task, "history": task["history"][-length:] if length else None, "metadata": None}


def _status(state: str, message: Any = None) -> dict[str, Any]:
    return {"state": state, "message": message, "timestamp": "2025-04-17T17:47:09.680794"}


def _artifact(parts: Any, append: bool | None, last: bool | None) -> dict[str, Any]:
    return {
        "name": None,
        "description": None,
        "parts": parts,
        "index": 0,
        "append": append,
        "lastChunk": last,
        "metadata": None,
    }


def _apply(task: dict[str, Any], event: dict[str, Any]) -> None:
    if "status" in event:
        task["status"] = event["status"]
        return
    artifact = event["artifact"]
    if artifact["append"] and task["artifacts"]:
        task["artifacts"][0]["parts"] += artifact["parts"]
    else:
        task["artifacts"] = [{**artifact, "parts": list(artifact["parts"])}]


@asynccontextmanager
async def served(agent: LegacyAgent) -> AsyncIterator[str]:
    """The agent's URL while it is served."""

    async def card(request: web.Request) -> web.Response:
        return web.json_response({**CARD, "url": str(request.url.origin()) + "/"})

    async with site({"POST /": agent.handle, "/.well-known/agent.json": card}) as url:
        yield f"{url}/"


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened
