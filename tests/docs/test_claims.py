"""Single sentences of docs/ that no other test here looks at, tried over a socket."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from a2a_bridge import Run, agent, asgi, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.messages import text_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import open_store
from tests.docs.pages import DOCS, blocks
from tests.patience import PATIENCE

LIST = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}


@agent(push_notifications=True)
async def desk(run: Run) -> Any:
    """Answers."""
    if run.text == "wait":
        yield run.status("auth-required")
        yield run.status("working")
    yield "done"


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"A2A-Version": "1.0"}, "", 200),
        ({"A2A-Version": "1.0.7"}, "", 200),
        ({}, "?a2a-version=1.0", 200),
        ({"A2A-Version": ""}, "?A2A-Version=1.0", 200),
        ({}, "", 400),
        ({"A2A-Version": "0.3"}, "?A2A-Version=1.0", 400),
    ],
)
async def test_the_rules_of_versions(headers: dict[str, str], query: str, status: int) -> None:
    async with (
        serve(desk, [interface("HTTP+JSON")]) as server,
        aiohttp.ClientSession() as http,
        http.get(f"http://{server.http}/tasks{query}", headers=headers) as reply,
    ):
        assert reply.status == status


async def test_auth_required_leaves_streams_open() -> None:
    async with connect(desk) as peer:
        events = [event async for event in peer.stream("wait")]
    states = [event.status_update.status.state for event in events if event.HasField("status_update")]
    assert hub.TASK_STATE_AUTH_REQUIRED in states
    assert states[-1] == hub.TASK_STATE_COMPLETED


async def test_deleting_a_push_config_has_no_result() -> None:
    async with serve(desk, [interface("JSONRPC"), interface("HTTP+JSON")]) as server:
        async with connect(f"http://{server.http}") as peer:
            task = (await peer.send("go")).task
        assert task is not None
        call = LIST | {
            "method": "DeleteTaskPushNotificationConfig",
            "params": {"taskId": task.id, "id": "none"},
        }
        async with aiohttp.ClientSession(headers={"A2A-Version": "1.0"}) as http:
            async with http.post(f"http://{server.http}/", json=call) as reply:
                assert await reply.json() == {"jsonrpc": "2.0", "id": 1, "result": None}
            path = f"tasks/{task.id}/pushNotificationConfigs/none"
            async with http.delete(f"http://{server.http}/{path}") as reply:
                assert (reply.status, await reply.json()) == (200, {})


async def test_a_resumed_report_continues_its_log(tmp_path: Path) -> None:
    (block,) = (one for one in blocks(DOCS / "how-to/keep-tasks.md", "python") if "class Report" in one.body)
    names: dict[str, Any] = {"__name__": "report"}
    exec(block.body, names)  # noqa: S102  our own pages
    url = f"sqlite:///{tmp_path / 'report.db'}"
    # One page of three, and then the process is gone.
    task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    part = hub.Part(text="page 0\n")
    task.artifacts.append(hub.Artifact(artifact_id="report", parts=[part]))
    async with open_store(url) as store:
        writer = store.create(Scope("", ""), task.id, lambda: None)
        writer.append(hub.StreamResponse(task=task), task)
        await writer.sync()
    async with (
        serve(names["report"], [interface("JSONRPC")], ServeOptions(store=url)) as server,
        connect(server.card) as peer,
        asyncio.timeout(PATIENCE),
    ):
        events = [event async for event in peer.subscribe("t", after="1")]
        ended = await peer.get_task(hub.GetTaskRequest(id="t"))
    assert ended.status.state == hub.TASK_STATE_COMPLETED
    assert text_of(ended) == "page 0\npage 1\npage 2\n"
    added = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [part.text for one in added for part in one.artifact.parts] == ["page 1\n", "page 2\n"]


async def test_the_slash_below_a_mount() -> None:
    app = FastAPI()
    app.mount("/agents/desk", mounted := asgi(desk))
    transport = ASGITransport(app)
    async with AsyncClient(
        transport=transport, base_url="http://host", headers={"A2A-Version": "1.0"}
    ) as http:
        assert (await http.post("/agents/desk", json=LIST)).status_code == 307
        assert (await http.post("/agents/desk/", json=LIST)).status_code == 200
        card = (await http.get("/agents/desk/.well-known/agent-card.json")).json()
        assert (await http.get("/agents/desk/readyz")).status_code == 200
    assert [one["url"] for one in card["supportedInterfaces"]] == [
        "http://host/agents/desk/",
        "http://host/agents/desk",
    ]  # of the version that the reader declares
    await mounted.drain(0)
