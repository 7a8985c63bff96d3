"""The agents for the conformance suites do what the suites' scenarios say."""

import pytest

from a2a_bridge.app.runtime import connect
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.tck import agent


def saying(message_id: str) -> hub.SendMessageRequest:
    message = hub.Message(message_id=message_id, role=hub.ROLE_USER, parts=[hub.Part(text="x")])
    return hub.SendMessageRequest(message=message)


@pytest.mark.parametrize(
    ("said", "state", "parts"),
    [
        ("tck-complete-task-1", hub.TASK_STATE_COMPLETED, []),
        ("tck-delayed-complete-1", hub.TASK_STATE_COMPLETED, []),
        ("tck-artifact-text-1", hub.TASK_STATE_COMPLETED, ["text"]),
        ("tck-artifact-file-1", hub.TASK_STATE_COMPLETED, ["raw"]),
        ("tck-artifact-file-url-1", hub.TASK_STATE_COMPLETED, ["url"]),
        ("tck-artifact-data-1", hub.TASK_STATE_COMPLETED, ["data"]),
        ("tck-input-required-1", hub.TASK_STATE_INPUT_REQUIRED, []),
        ("tck-reject-task-1", hub.TASK_STATE_REJECTED, []),
        ("tck-stream-artifact-chunked-1", hub.TASK_STATE_COMPLETED, ["text", "text"]),
        ("test-resubscribe-message-id-1", hub.TASK_STATE_COMPLETED, []),
        ("something else", hub.TASK_STATE_COMPLETED, []),
    ],
)
async def test_scenarios_of_1_0(
    said: str, state: hub.TaskState, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_TIMEOUT", 0.0)
    async with connect(agent.scenarios) as client:
        task = (await client.send_message(saying(said))).task
    assert task.status.state == state
    assert [part.WhichOneof("content") for one in task.artifacts for part in one.parts] == parts


async def test_a_direct_answer() -> None:
    async with connect(agent.scenarios) as client:
        answer = await client.send_message(saying("tck-message-response-1"))
    assert answer.message.parts[0].text == "Direct message response"


async def test_tasks_of_0_x_can_be_continued_and_cancelled() -> None:
    async with connect(agent.waiting) as client:
        task = (await client.send_message(saying("m-1"))).task
        again = saying("m-2")
        again.message.task_id, again.message.context_id = task.id, task.context_id
        task = (await client.send_message(again)).task
        assert task.status.state == hub.TASK_STATE_INPUT_REQUIRED
        task = await client.cancel_task(hub.CancelTaskRequest(id=task.id))
    assert task.status.state == hub.TASK_STATE_CANCELED


async def test_the_task_that_the_suite_of_0_2_5_joins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_TIMEOUT", 0.0)
    async with connect(agent.waiting) as client:
        task = (await client.send_message(saying("test-resubscribe-message-id-1"))).task
    assert task.status.state == hub.TASK_STATE_COMPLETED
