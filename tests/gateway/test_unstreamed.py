"""An agent that declares streaming and rejects it: streams are answered with a send, in every version."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.ext import interface
from a2a_bridge.gateway.polyfill import StreamOnly, Unstreamed, is_stream_only
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import chained, task_of
from tests.rejections import rejected


class Agent:
    """Rejects streams with an error; sends are answered, or rejected as well."""

    def __init__(self, rejection: A2AError, sent: A2AError | None = None, after: int = 0) -> None:
        self.rejection, self.sent, self.after = rejection, sent, after
        self.asked: list[str] = []

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.asked.append(call.operation.name)
        assert not call.request.configuration.return_immediately
        if self.sent is not None:
            raise self.sent
        return hub.SendMessageResponse(task=hub.Task(id="t"))

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.asked.append(call.operation.name)
        for _ in range(self.after):
            yield Event(hub.StreamResponse(task=hub.Task(id="t")))
        raise self.rejection


def streaming() -> Call[Any, Any]:
    request = hub.SendMessageRequest(configuration=hub.SendMessageConfiguration(return_immediately=True))
    return Call(ops.SEND_STREAMING_MESSAGE, request, CallContext())


async def read(service: Unstreamed) -> list[str]:
    return [event.message.task.id async for event in service.stream(streaming())]


def rejection(reason: Reason = Reason.UNSUPPORTED_OPERATION) -> A2AError:
    return A2AError(reason, "Streaming is not supported by the agent")


@pytest.mark.parametrize("reason", [Reason.UNSUPPORTED_OPERATION, Reason.METHOD_NOT_FOUND])
async def test_it_is_answered_from_a_send_and_logged_once(
    reason: Reason, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(rejection(reason))
    service = Unstreamed(agent)
    assert await read(service) == ["t"]
    assert await read(service) == ["t"]
    assert agent.asked == ["SendStreamingMessage", "SendMessage", "SendMessage"]
    assert caplog.text.count("declares streaming and rejects it") == 1


async def test_other_errors_and_breaks_are_not_answered_from_a_send() -> None:
    for agent in (Agent(rejection(Reason.TASK_NOT_FOUND)), Agent(rejection(), after=1)):
        with pytest.raises(A2AError) as caught:
            await read(Unstreamed(agent))
        assert caught.value is agent.rejection
        assert agent.asked == ["SendStreamingMessage"]


async def test_other_rejections_pass_unchanged() -> None:
    ended = A2AError(Reason.UNSUPPORTED_OPERATION, "the task has ended")
    agent = Agent(ended)
    service = Unstreamed(agent)
    for _ in range(2):
        with pytest.raises(A2AError) as caught:
            await read(service)
        assert caught.value is ended
    assert agent.asked == ["SendStreamingMessage"] * 2, "the agent must not get a message twice"


async def test_an_error_of_the_send_is_returned() -> None:
    failed = A2AError(Reason.UNAUTHENTICATED)
    agent = Agent(rejection(), sent=failed)
    with pytest.raises(A2AError) as caught:
        await read(Unstreamed(agent))
    assert caught.value is failed


async def test_a_caller_of_0_3_gets_a_stream_with_an_end() -> None:
    """The frames of google-adk 1.19: an error for the stream, a task for the send."""
    async with chained() as (client, agent):

        def answer(method: str, params: Any) -> Any:
            if method == "message/stream":
                return {"error": {"code": -32004, "message": "Streaming is not supported by the agent"}}
            return task_of(params["message"])

        agent.answer = answer
        message = '{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}'
        events = await client.call("message/stream", message)
    assert events[0]["kind"] == "task"
    assert events[-1].get("final") is True or events[-1]["status"]["state"] == "completed"


# --- An interface whose address is that of streams: SendMessage is answered from the stream ---

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
