"""A client of 0.1, written from the schema of its time: plain HTTP and JSON, without code of the product. No
tests.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tests.patience import PATIENCE

#: members in the schema of 0.1, for `check`
STATES = {"submitted", "working", "input-required", "completed", "canceled", "failed", "unknown"}


class Failed(Exception):  # noqa: N818
    """A JSON-RPC error object."""

    def __init__(self, error: dict[str, Any], status: int) -> None:
        super().__init__(f"{error.get('code')} {error.get('message')}")
        self.code = error["code"]
        self.status = status
        self.error = error


class LegacyClient:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
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
