"""The history of a task has the messages of the conversation in their order, on every binding."""

from __future__ import annotations

import pytest

from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.messages import text_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import sending


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
    assert said == [
        "open; ask one?",
        "one?",
        "work thinking; ask two?",
        "thinking",
        "two?",
        "done bye",
    ]
    assert text_of(task.status.message) == "bye"
