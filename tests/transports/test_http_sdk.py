"""The official SDK's client against our server sides. The whole matrix is in tests/interop."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2
from a2a.utils import errors as sdk_errors

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.testing.probe import answering, yielding
from tests.patience import PATIENCE
from tests.transports.http_scene import BINDINGS, Scripted, hosting, update

pytestmark = [pytest.mark.sdk, pytest.mark.parametrize("kind", list(BINDINGS))]

MESSAGE = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="hello")])


@asynccontextmanager
async def client(url: str, kind: str, *, streaming: bool = False) -> AsyncIterator[Any]:
    interface = a2a_pb2.AgentInterface(url=url, protocol_binding=kind, protocol_version="1.0")
    card = a2a_pb2.AgentCard(
        name="agent",
        version="1",
        supported_interfaces=[interface],
        capabilities=a2a_pb2.AgentCapabilities(
            streaming=True, push_notifications=True, extended_agent_card=True
        ),
    )
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        config = ClientConfig(streaming=streaming, supported_protocol_bindings=[kind], httpx_client=http)
        async with ClientFactory(config).create(card) as sdk:
            yield sdk


async def test_a_message(kind: str) -> None:
    async with hosting(Scripted()) as host, client(f"http://{host.address}", kind) as sdk:
        request = a2a_pb2.SendMessageRequest(message=MESSAGE)
        [answer] = [event async for event in sdk.send_message(request)]
    assert answer.message.parts[0].text == "hi"


async def test_a_stream(kind: str) -> None:
    odd = "a\u2028b\x85c…"

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for text in ("one", odd):
            yield update(text)

    service = Scripted(on_stream=script)
    async with hosting(service) as host, client(f"http://{host.address}", kind, streaming=True) as sdk:
        request = a2a_pb2.SendMessageRequest(message=MESSAGE)
        events = [event async for event in sdk.send_message(request)]
    assert [event.status_update.status.message.parts[0].text for event in events] == ["one", odd]


async def test_tasks_and_push_configs(kind: str) -> None:
    service = Scripted()
    async with hosting(service) as host, client(f"http://{host.address}", kind) as sdk:
        task = await sdk.get_task(a2a_pb2.GetTaskRequest(id="7", history_length=2))
        await sdk.list_tasks(a2a_pb2.ListTasksRequest(page_size=5, include_artifacts=True))
        await sdk.cancel_task(a2a_pb2.CancelTaskRequest(id="7"))
        config = a2a_pb2.TaskPushNotificationConfig(task_id="7", id="c", url="http://x")
        await sdk.create_task_push_notification_config(config)
        one = {"task_id": "7", "id": "c"}
        await sdk.get_task_push_notification_config(a2a_pb2.GetTaskPushNotificationConfigRequest(**one))
        await sdk.list_task_push_notification_configs(
            a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id="7")
        )
        await sdk.delete_task_push_notification_config(a2a_pb2.DeleteTaskPushNotificationConfigRequest(**one))
    assert task.id == "7"
    assert len(service.calls) == 7
    assert service.calls[0].request.history_length == 2
    assert service.calls[1].request.page_size == 5
    assert service.calls[1].request.include_artifacts
    assert (service.calls[3].request.task_id, service.calls[3].request.url) == ("7", "http://x")
    assert service.calls[6].request.id == "c"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.TASK_NOT_FOUND, sdk_errors.TaskNotFoundError),
        (Reason.TASK_NOT_CANCELABLE, sdk_errors.TaskNotCancelableError),
        (Reason.UNSUPPORTED_OPERATION, sdk_errors.UnsupportedOperationError),
        (Reason.VERSION_NOT_SUPPORTED, sdk_errors.VersionNotSupportedError),
    ],
)
async def test_errors(kind: str, reason: Reason, expected: type[Exception]) -> None:
    service = Scripted(
        on_unary=answering(A2AError(reason)), on_stream=yielding(update("one"), A2AError(reason))
    )
    async with hosting(service) as host, client(f"http://{host.address}", kind, streaming=True) as sdk:
        with pytest.raises(expected):
            await sdk.get_task(a2a_pb2.GetTaskRequest(id="7"))
        stream = sdk.subscribe(a2a_pb2.SubscribeToTaskRequest(id="7"))
        assert (await anext(stream)).HasField("status_update")
        with pytest.raises(expected):
            await anext(stream)
