"""What one tenant does leaves nothing for another one, in any answer of the server."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_agent
from a2a_bridge.auth import ApiKeys, Authentication
from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import task_id_of
from a2a_bridge.middleware.usage import Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.exam.probes import Names
from tests.exam.raw import BINDINGS, CELLS, INTERFACES, Cell, asking, is_get
from tests.exam.scene import (
    CHOSEN,
    PRIVATE,
    TENANT,
    Scene,
    Working,
    agent,
    bridged,
    hosted,
    keys_in,
    stranger,
)
from tests.patience import PATIENCE

#: a gateway to an agent of 0.3 answers lists from its own memory
SCENES = {
    "hosted-memory": lambda folder: hosted(folder, "memory://"),
    "hosted-sqlite": lambda folder: hosted(folder, f"sqlite:///{folder}/tasks.db"),
    "bridged": partial(bridged, upstream=Cell("1.0", "HTTP+JSON")),
    "bridged to 0.3": partial(bridged, upstream=Cell("0.3", "GRPC")),
    "bridged as one caller": partial(bridged, upstream=Cell("0.3", "JSONRPC"), passes=False),
    "bridged as one caller with a store": partial(
        bridged, upstream=Cell("1.0", "GRPC"), passes=False, store="gateway.db"
    ),
}
BOB = stranger("get")


@pytest.fixture(params=SCENES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with SCENES[request.param](tmp_path) as made:
        yield made


def _of_alice(scene: Scene, text: str) -> list[str]:
    names = {
        name for tasks in scene.alice.values() for one in tasks for name in (one.task, one.context, one.hook)
    }
    return [name for name in (*names, PRIVATE) if name in text]


async def test_lists_and_page_tokens(scene: Scene) -> None:
    request = hub.ListTasksRequest(page_size=1, history_length=5, include_artifacts=True)
    for binding in BINDINGS:
        async with scene.peer("alice", binding) as alice:
            first = await alice.list_tasks(request)
        assert len(first.tasks) == 1
        assert first.next_page_token
        assert _of_alice(scene, str(first))
        async with scene.peer("nobody", binding) as nobody:
            for tenant in ("", TENANT):
                found = await nobody.list_tasks(hub.ListTasksRequest(tenant=tenant))
                assert (len(found.tasks), found.total_size, found.next_page_token) == (0, 0, "")
        async with scene.peer(BOB, binding) as bob:
            mine = (await bob.send("of bob")).task
            assert mine is not None
            asked = hub.ListTasksRequest()
            asked.CopyFrom(request)
            asked.page_token = first.next_page_token
            assert _of_alice(scene, await _listed(bob, asked)) == []
            whole = await bob.list_tasks(hub.ListTasksRequest())
            assert mine.id in [one.id for one in whole.tasks]
            assert _of_alice(scene, str(whole)) == []


async def _listed(peer: Peer, request: hub.ListTasksRequest) -> str:
    """A page, or why the token of another caller is none."""
    try:
        return str(await peer.list_tasks(request))
    except A2AError as error:
        if error.reason is not Reason.INVALID_PARAMS or error.violations[0].field != "pageToken":
            raise
        return error.message


async def test_the_same_message_of_two_callers_is_two_messages(scene: Scene) -> None:
    for cell in CELLS:
        for operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
            message = hub.Message(
                message_id="one and the same", role=hub.ROLE_USER, parts=[hub.Part(text="x")]
            )
            if cell.version == "0.1":
                message.task_id = operation.name
            headers = {"X-API-Key": scene.keys[BOB]}
            answer = await scene.asker.ask(cell, operation, hub.SendMessageRequest(message=message), headers)
            assert answer.error(cell, operation) is None
            assert _of_alice(scene, repr(answer)) == []


async def test_streams_have_events_of_their_caller_only(scene: Scene) -> None:
    """Both callers read streams of tasks that work at the same time, begun and joined."""
    seen: dict[str, set[str]] = {"alice": set(), BOB: set()}

    async def follow(caller: str, binding: str, begun: asyncio.Event) -> None:
        async with scene.peer(caller, binding) as peer:
            async for event in peer.stream("wait"):
                seen[caller].add(task_id_of(event))
                begun.set()

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        for caller in seen:
            for binding in BINDINGS:
                begun = asyncio.Event()
                tasks.create_task(follow(caller, binding, begun))
                await begun.wait()
        scene.executor.go.set()
    assert len(seen["alice"]) == len(seen[BOB]) == len(BINDINGS)
    assert not seen["alice"] & seen[BOB]


async def test_a_name_of_0_1_belongs_to_its_caller(scene: Scene) -> None:
    cell = Cell("0.1", "JSONRPC")
    request = hub.GetTaskRequest(id=CHOSEN)
    found = {
        caller: await scene.asker.ask(cell, ops.GET_TASK, request, {"X-API-Key": scene.keys[caller]})
        for caller in ("alice", BOB)
    }
    assert PRIVATE.encode() in found["alice"].body
    error = found[BOB].error(cell, ops.GET_TASK)
    assert error is not None
    assert error.reason is Reason.TASK_NOT_FOUND


async def test_no_cache_keeps_an_answer(scene: Scene) -> None:
    """A cache before the server, which knows no API keys, would give the answer of one caller to another."""
    names = scene.alice[""][0]
    asked = [
        (ops.GET_TASK, hub.GetTaskRequest(id=names.task)),
        (ops.LIST_TASKS, hub.ListTasksRequest()),
        (ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest()),
        (ops.LIST_PUSH_CONFIGS, hub.ListTaskPushNotificationConfigsRequest(task_id=names.task)),
        (ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=names.task)),
    ]
    count = 0
    for cell in (one for one in CELLS if one.binding != "GRPC"):
        for operation, request in asked:
            if not is_get(cell, operation, request):
                continue  # a POST, which no cache keeps
            for key in ("alice", BOB):
                headers = {"X-API-Key": scene.keys[key]}
                answer = await scene.asker.ask(cell, operation, request, headers)
                count += 1
                assert dict(answer.headers).get("Cache-Control") in ("no-store", "no-cache"), (
                    cell,
                    operation,
                )
    assert count >= 2 * len(asked)


async def test_the_oldest_document_is_kept_by_no_cache(scene: Scene) -> None:
    async with httpx.AsyncClient(base_url=f"http://{scene.server.http}") as http:
        path = "/agent/authenticatedExtendedCard"
        for headers, status in (({"X-API-Key": scene.keys["alice"]}, 200), ({}, 401)):
            answer = await http.get(path, headers=headers)
            assert (answer.status_code, answer.headers["cache-control"]) == (status, "no-store")


async def test_usage_and_metrics_are_for_operators(tmp_path: Path) -> None:
    """Metrics name no caller, tenant or task; counts name the caller alone."""
    file, keys = keys_in(tmp_path)
    options = ServeOptions(
        authentication=Authentication([ApiKeys(file)]), admin=ListenAddress(), usage=Usage()
    )
    async with serve_agent(agent(Working()), INTERFACES, options) as server, asking(server) as asker:
        made = Scene(server, keys, asker, [], Working())
        for binding in BINDINGS:
            async with made.peer("alice", binding) as alice:
                task = (await alice.send("ended")).task
                assert task is not None
                await alice.list_tasks(hub.ListTasksRequest(tenant=TENANT))
                async with made.peer(BOB, binding) as bob:
                    with pytest.raises(A2AError):
                        await bob.get_task(hub.GetTaskRequest(id=task.id, tenant=TENANT))
            made.alice.setdefault("", []).append(Names(task.id, task.context_id, "no hook"))
        async with httpx.AsyncClient() as http:
            metrics = (await http.get(f"http://{server.admin}/metrics")).text
            counts = (await http.get(f"http://{server.admin}/usage")).text
            for path in ("/metrics", "/usage", "/readyz?verbose"):
                open_ = await http.get(
                    f"http://{server.http}{path}", headers={"X-API-Key": keys[BOB], "A2A-Version": "1.0"}
                )
                assert "alice" not in open_.text
                assert (open_.status_code == 404) is (path != "/readyz?verbose")
    assert 'operation="GetTask"' in metrics
    assert "alice" in counts
    for secret in (
        *(key.partition(".")[2] for key in keys.values()),
        TENANT,
        *_of_alice(made, metrics + counts),
    ):
        assert secret not in metrics + counts
    assert "alice" not in metrics
