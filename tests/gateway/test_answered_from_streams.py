"""An interface whose address is that of streams: SendMessage is answered from the stream."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.ext import interface
from a2a_bridge.gateway.polyfill import StreamOnly, is_stream_only
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.rejections import rejected

SEND = hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER))


class Streaming:
    """An agent that takes streams and nothing else."""

    def __init__(self, responses: Sequence[hub.StreamResponse]) -> None:
        self.responses = responses

    async def unary(self, call: Call[Any, Any], /) -> Any:
        raise AssertionError(call.operation)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        assert call.operation is ops.SEND_STREAMING_MESSAGE
        for response in self.responses:
            yield Event(response)


def status(state: hub.TaskState) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    return hub.StreamResponse(status_update=update)


def said(number: int, task_id: str = "") -> hub.StreamResponse:
    message = hub.Message(message_id=f"a{number}", role=hub.ROLE_AGENT, task_id=task_id)
    message.parts.add(text=f"text {number}")
    return hub.StreamResponse(message=message)


async def sent(*responses: hub.StreamResponse) -> hub.SendMessageResponse:
    found: hub.SendMessageResponse = await StreamOnly(Streaming(responses)).unary(
        Call(ops.SEND_MESSAGE, SEND, CallContext())
    )
    return found


async def test_messages_beside_a_task_are_its_history_and_its_status_message() -> None:
    working, done = status(hub.TASK_STATE_WORKING), status(hub.TASK_STATE_COMPLETED)
    task = (await sent(working, said(1, "t"), said(2, "t"), done)).task
    assert (task.id, task.context_id, task.status.state) == ("t", "c", hub.TASK_STATE_COMPLETED)
    assert [one.message_id for one in task.history] == ["a1", "a2"]
    assert task.status.message.parts[0].text == "text 2"


async def test_a_snapshot_at_the_end_is_the_task_and_no_message_is_there_twice() -> None:
    last = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
    last.history.append(said(1, "t").message)
    last.artifacts.add(artifact_id="x").parts.add(text="result")
    task = (await sent(status(hub.TASK_STATE_WORKING), said(1, "t"), hub.StreamResponse(task=last))).task
    assert task == last


async def test_messages_without_a_task_are_one_message() -> None:
    message = (await sent(said(1), said(2))).message
    assert (message.message_id, [part.text for part in message.parts]) == ("a2", ["text 1", "text 2"])


@pytest.mark.parametrize(
    "responses", [(), (status(hub.TASK_STATE_COMPLETED), status(hub.TASK_STATE_WORKING))]
)
async def test_a_stream_that_adds_up_to_nothing_is_no_response(
    responses: tuple[hub.StreamResponse, ...],
) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        await sent(*responses)


async def test_other_operations_are_not_offered() -> None:
    service = StreamOnly(Streaming(()))
    with rejected(Reason.UNSUPPORTED_OPERATION) as raised:
        await service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext()))
    assert "GetTask" in raised.value.message
    with pytest.raises(A2AError):
        await anext(
            service.stream(Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext()))
        )


@pytest.mark.parametrize(
    ("binding", "url", "found"),
    [
        ("JSONRPC", "http://127.0.0.1:9/agents/a/v1/message:stream", True),
        ("JSONRPC", "http://127.0.0.1:9/message:stream/?key=1", True),
        ("JSONRPC", "http://127.0.0.1:9/", False),
        ("JSONRPC", "http://[", False),
        ("HTTP+JSON", "http://127.0.0.1:9/v1/message:stream", False),
    ],
)
def test_the_address_tells(binding: str, url: str, found: bool) -> None:
    assert is_stream_only(interface(binding, url)) is found


async def test_a_caller_that_leaves_ends_the_stream() -> None:
    closed = asyncio.Event()

    class Waiting(Streaming):
        async def stream(self, call: Call[Any, Any], /) -> Events:
            try:
                yield Event(status(hub.TASK_STATE_WORKING))
                await asyncio.Event().wait()
            finally:
                closed.set()

    call = asyncio.create_task(StreamOnly(Waiting(())).unary(Call(ops.SEND_MESSAGE, SEND, CallContext())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert closed.is_set()
