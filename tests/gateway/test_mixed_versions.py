"""Agents that claim one version and answer in another one, with frames of real agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.app.peer import request_of
from a2a_bridge.app.runtime import connect
from a2a_bridge.cards import interface
from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

PLACE = {"taskId": "t", "contextId": "c"}
#: langgraph-api 0.16: methods of 1.0, events in the shape of 0.3, names of 1.0
LANGGRAPH: list[Any] = [
    {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}, "history": []},
    {"kind": "status-update", **PLACE, "status": {"state": "TASK_STATE_WORKING"}, "final": False},
    {
        "kind": "artifact-update",
        **PLACE,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "hi"}]},
    },
    {
        "kind": "status-update",
        **PLACE,
        "status": {
            "state": "TASK_STATE_COMPLETED",
            "message": {
                "kind": "message",
                "messageId": "m",
                "role": "ROLE_AGENT",
                "parts": [{"kind": "text", "text": "bye"}],
            },
        },
        "final": True,
        "metadata": {"state": "TASK_STATE_OF_MINE"},
    },
]
NEW = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@asynccontextmanager
async def answering(*events: Any) -> AsyncIterator[str]:
    """The URL of an agent that answers each call with these events, or with the only one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = [line.lower() for line in head.split(b"\r\n")]
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length"))
        frame: Any = loads(await reader.readexactly(length))
        found = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (frame["id"], dumps(one)) for one in events]
        kind, body = b"application/json", found[0]
        if "tream" in frame["method"]:
            kind, body = b"text/event-stream", b"".join(b"data: %b\n\n" % one for one in found)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (kind, len(body), body)
        )
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_events_of_0_3_from_an_agent_of_1_0(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(*LANGGRAPH) as url, connect(interface("JSONRPC", url)) as peer:
        for _ in range(2):
            events = [event.message async for event in peer.events(request_of(("hi",)))]
            assert [event.WhichOneof("payload") for event in events] == [
                "task",
                "status_update",
                "artifact_update",
                "status_update",
            ]
            last = events[-1].status_update
            assert last.status.state == hub.TASK_STATE_COMPLETED
            assert (last.status.message.role, last.status.message.parts[0].text) == (hub.ROLE_AGENT, "bye")
            assert last.metadata["state"] == "TASK_STATE_OF_MINE"
    assert caplog.text.count("claims version 1.0 and answers as another one does") == 1


async def test_an_answer_of_1_0_from_an_agent_of_0_3() -> None:
    async with answering(NEW) as url, connect(interface("JSONRPC", url, version="0.3")) as peer:
        for _ in range(2):
            answer = await peer.send_message(request_of(("hi",)))
            assert answer.task.status.state == hub.TASK_STATE_COMPLETED


@each("answer", [{"kind": "task", "id": 1}, {"kind": "other"}, {"task": {"id": 5}}, [], 7, None])
@each("version", ["1.0", "0.3"])
async def test_content_of_no_version_is_still_rejected(version: str, answer: Any) -> None:
    async with answering(answer) as url, connect(interface("JSONRPC", url, version=version)) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send_message(request_of(("hi",)))
        assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
