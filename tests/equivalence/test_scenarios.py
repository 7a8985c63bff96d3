"""Every conversation reads the same over each binding as with the agent itself, word for word."""

from typing import Any

import pytest

from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.messages import text_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent, ScriptedAgent
from tests.equivalence.scenarios import SCENARIOS, rich_parts
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk, sending


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_conversation_reads_the_same_everywhere(name: str) -> None:
    async with stack() as running:
        told = {}
        for way, service in running.ways.items():
            talk = Talk(Client(service))
            await SCENARIOS[name](talk)
            told[way] = talk.lines
    assert told["in process"]
    for binding in BINDINGS:
        assert told[binding] == told["in process"], binding


# --- The history of a task has the messages of the conversation in their order, on every binding ---
@pytest.mark.parametrize("binding", BINDINGS)
async def test_questions_stand_before_their_answers(binding: str) -> None:
    async with stack() as running:
        client = Client(running.ways[binding])
        first = await client.send_message(sending("open", "ask one?"))
        task_id = first.task.id
        await client.send_message(sending("work thinking", "ask two?", task_id=task_id))
        await client.send_message(sending("done bye", task_id=task_id))
        task = await client.get_task(hub.GetTaskRequest(id=task_id))
    said = [text_of(message).removeprefix("script: ") for message in task.history]
    assert said == ["open; ask one?", "one?", "work thinking; ask two?", "thinking", "two?", "done bye"]
    assert text_of(task.status.message) == "bye"


# --- The agents for tests answer alike on every binding: all they can do, and every error there is ---

TEXTS = [
    "message hello",
    "task x",
    "chunks 20",
    "big 200000",
    "input what?",
    "auth",
    "fail",
    "reject",
    "crash",
    "crash task",
    "illegal",
    "unfinished",
    "silent",
    "anything else",
    *(f"error {reason.name}" for reason in Reason),
    *(f"late {reason.name}" for reason in Reason),
]


def request_of(text: str, **members: Any) -> hub.SendMessageRequest:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members)
    return hub.SendMessageRequest(message=message)


async def assert_alike(agent: Any, *requests: hub.SendMessageRequest) -> Talk:
    """Sends the requests in every way, to be answered and as streams; the talk in process."""
    told = {}
    async with stack(agent=agent) as running:
        for way, service in running.ways.items():
            told[way] = talk = Talk(Client(service))
            for request in requests:
                await talk.ask("send", talk.client.send_message(request))
                await talk.watch("stream", talk.client.send_streaming_message(request))
    for binding in BINDINGS:
        assert told[binding].lines == told["in process"].lines, binding
    return told["in process"]


@each("text", TEXTS)
async def test_the_scripted_agent_answers_alike(text: str) -> None:
    talk = await assert_alike(ScriptedAgent(), request_of(text))
    kind, _, reason = text.partition(" ")
    if kind == "error":
        assert dict(talk.lines)["send"]["error"]["reason"] == reason


async def test_the_echo_agent_answers_alike() -> None:
    request = request_of("x", extensions=["https://e.example/1"])
    request.message.parts.extend(rich_parts())
    request.message.metadata.update({"a": [1, None, {"b": 0.5}]})
    talk = await assert_alike(EchoAgent(), request)
    assert [label for label, _ in talk.lines] == ["send", "stream 1", "stream ended"]
