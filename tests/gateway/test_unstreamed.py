"""An agent that declares streaming and rejects it: streams are answered with a send, in every version."""

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.gateway.polyfill import Unstreamed
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import chained, task_of


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
