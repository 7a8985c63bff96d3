"""A task of another caller and an unknown task: the same status, headers and body, byte by byte."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import grpc
import pytest

from a2a_bridge.app.runtime import ServeOptions, Server
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.limits.scene import PATIENCE, Waiting, agent, named, peers, served

BOB = {"x-name": "bob", "A2A-Version": "1.0"}
#: an address that is allowed for notifications, so that only the task can be wrong
HOOK = "https://93.184.216.34/hook"

Answer = tuple[Any, ...]
Ask = Callable[[str], Awaitable[Answer]]


def _requests(task_id: str) -> dict[str, tuple[Any, str, str, dict[str, Any] | None]]:
    """By operation: the request, and its method, path and body in HTTP+JSON."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": task_id}
    send = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")], task_id=task_id)
    )
    task, hooks = f"/tasks/{task_id}", f"/tasks/{task_id}/pushNotificationConfigs"
    return {
        "GetTask": (hub.GetTaskRequest(id=task_id), "GET", task, None),
        "CancelTask": (hub.CancelTaskRequest(id=task_id), "POST", f"{task}:cancel", {}),
        "SubscribeToTask": (hub.SubscribeToTaskRequest(id=task_id), "GET", f"{task}:subscribe", None),
        "SendMessage": (send, "POST", "/message:send", {"message": message}),
        "SendStreamingMessage": (send, "POST", "/message:stream", {"message": message}),
        "CreateTaskPushNotificationConfig": (
            hub.TaskPushNotificationConfig(task_id=task_id, url=HOOK),
            "POST",
            hooks,
            {"url": HOOK},
        ),
        "GetTaskPushNotificationConfig": (
            hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="c"),
            "GET",
            f"{hooks}/c",
            None,
        ),
        "ListTaskPushNotificationConfigs": (
            hub.ListTaskPushNotificationConfigsRequest(task_id=task_id),
            "GET",
            hooks,
            None,
        ),
        "DeleteTaskPushNotificationConfig": (
            hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="c"),
            "DELETE",
            f"{hooks}/c",
            None,
        ),
    }


OPERATIONS = tuple(_requests(""))
STREAMS = ("SubscribeToTask", "SendStreamingMessage")


def _params(operation: str, task_id: str) -> dict[str, Any]:
    _, _, _, body = _requests(task_id)[operation]
    if operation.startswith("Send"):
        return body or {}
    if "PushNotification" in operation:
        return {"taskId": task_id, **(body or {"id": "c"})}
    return {"id": task_id}


async def _over_http(session: aiohttp.ClientSession, method: str, url: str, **more: Any) -> Answer:
    async with session.request(method, url, **more) as response:
        headers = {name: value for name, value in response.headers.items() if name != "Date"}
        return response.status, headers, await response.text()


async def _over_grpc(
    channel: grpc.aio.Channel, operation: str, request: Any, headers: dict[str, str]
) -> Answer:
    metadata = tuple((name.lower(), value) for name, value in headers.items())
    path = f"/lf.a2a.v1.A2AService/{operation}"
    call: Any
    if operation in STREAMS:
        call = channel.unary_stream(path)(request.SerializeToString(), metadata=metadata, timeout=PATIENCE)
        answers = call.read()
    else:
        call = channel.unary_unary(path)(request.SerializeToString(), metadata=metadata, timeout=PATIENCE)
        answers = call
    try:
        return ("answered", await answers)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details(), error.initial_metadata(), error.trailing_metadata()


def _told(answer: Answer, task_id: str) -> str:
    """The answer as a caller sees it, without the id that it sent itself."""
    return repr(answer).replace(task_id, "TASK")


async def _alike(ask: Ask, foreign: str) -> None:
    absent = str(uuid4())
    async with asyncio.timeout(PATIENCE):
        answers = [_told(await ask(task_id), task_id) for task_id in (foreign, absent)]
    assert answers[0] == answers[1]
    # Nor was it rejected for another reason before the lookup of the task.
    assert "TASK_NOT_FOUND" in answers[0]


@pytest.mark.parametrize("state", ["ask", "wait", "ended"])
@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_no_answer_tells_them_apart(store: str, state: str, tmp_path: Path) -> None:
    executor = Waiting()
    url = f"sqlite:///{tmp_path / 'tasks.db'}" if store == "sqlite" else store
    options = ServeOptions(store=url, middleware=(named,))
    async with (
        served(agent(executor, push_notifications=True), options) as server,
        peers(server, name="alice") as alice,
    ):
        if state == "ended":
            executor.go.set()
        text, at_once = ("ask" if state == "ask" else "wait"), state == "wait"
        reply = await alice["GRPC"].send(text, return_immediately=at_once)
        assert reply.task is not None
        try:
            await _compare(server, reply.task.id)
            # It existed all the time, and is unchanged.
            found = await alice["JSONRPC"].get_task(hub.GetTaskRequest(id=reply.task.id))
            assert len(found.history) == len(reply.task.history)
        finally:
            executor.go.set()


async def _compare(server: Server, foreign: str) -> None:
    base = f"http://{server.http}"
    async with (
        aiohttp.ClientSession(headers=BOB) as session,
        grpc.aio.insecure_channel(str(server.grpc)) as channel,
    ):
        for operation in OPERATIONS:
            for more in ({}, {"Last-Event-ID": "1"}) if operation == "SubscribeToTask" else ({},):

                async def rest(task_id: str, operation: str = operation, more: Any = more) -> Answer:
                    _, method, path, body = _requests(task_id)[operation]
                    return await _over_http(session, method, base + path, json=body, headers=more)

                async def rpc(task_id: str, operation: str = operation, more: Any = more) -> Answer:
                    params = _params(operation, task_id)
                    frame = {"jsonrpc": "2.0", "id": 1, "method": operation, "params": params}
                    return await _over_http(session, "POST", base + "/", json=frame, headers=more)

                async def wire(task_id: str, operation: str = operation, more: Any = more) -> Answer:
                    request = _requests(task_id)[operation][0]
                    return await _over_grpc(channel, operation, request, {**BOB, **more})

                for ask in (rest, rpc, wire):
                    await _alike(ask, foreign)
