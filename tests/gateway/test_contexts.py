"""The context of a follow-up that names its task only."""

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.gateway.connections import Contexts
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import chained, task_of


class Agent:
    """Answers a message with its task, in context c; notes the messages. gone: GetTask finds nothing."""

    def __init__(self, state: hub.TaskState = hub.TASK_STATE_INPUT_REQUIRED) -> None:
        self.state = state
        self.heard: list[str] = []
        self.looked = 0
        self.gone = False

    def task(self, task_id: str) -> hub.Task:
        return hub.Task(id=task_id or "t", context_id="c", status=hub.TaskStatus(state=self.state))

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.operation is ops.GET_TASK:
            self.looked += 1
            if self.gone:
                raise A2AError(Reason.TASK_NOT_FOUND)
            return self.task(call.request.id)
        self.heard.append(call.request.message.context_id)
        return hub.SendMessageResponse(task=self.task(call.request.message.task_id))

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.heard.append(call.request.message.context_id)
        update = hub.TaskStatusUpdateEvent(task_id=call.request.message.task_id or "t", context_id="c")
        yield Event(hub.StreamResponse(status_update=update))


def call(task: str = "", context: str = "", who: str = "", *, streaming: bool = False) -> Call[Any, Any]:
    message = hub.Message(message_id="m", task_id=task, context_id=context)
    given = CallContext(parameters={"authorization": who} if who else {})
    operation: Any = ops.SEND_STREAMING_MESSAGE if streaming else ops.SEND_MESSAGE
    return Call(operation, hub.SendMessageRequest(message=message), given)


async def send(service: Contexts, made: Call[Any, Any]) -> None:
    if made.operation is ops.SEND_MESSAGE:
        await service.unary(made)
    else:
        _ = [event async for event in service.stream(made)]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_follow_up_gets_the_context_of_a_task_that_was_seen(streaming: bool) -> None:
    agent = Agent()
    service = Contexts(agent, Tasks())
    await send(service, call(streaming=streaming))
    follow_up = call("t", streaming=streaming)
    await send(service, follow_up)
    await send(service, call("t", "own", streaming=streaming))
    assert (agent.heard, agent.looked) == (["", "c", "own"], 0)
    assert not follow_up.request.message.context_id, "the caller's request stays as it was"


async def test_unknown_contexts_are_requested_with_the_callers_credentials() -> None:
    agent = Agent()
    service = Contexts(agent, Tasks())
    await send(service, call(who="Bearer a"))
    await send(service, call("t", who="Bearer b"))
    assert (agent.heard, agent.looked) == (["", "c"], 1)
    await send(service, call("t", who="Bearer b"))
    assert (agent.heard, agent.looked) == (["", "c", "c"], 1)
    agent.gone = True
    await send(service, call("other"))
    assert (agent.heard, agent.looked) == (["", "c", "c", ""], 2)


async def test_so_many_are_remembered_and_none_that_is_over() -> None:
    agent = Agent()
    tasks = Tasks(most=2)
    service = Contexts(agent, tasks)
    for task in ("1", "2", "3"):
        await send(service, call(task))
    assert len(tasks) == 2
    tasks = Tasks()
    await send(Contexts(Agent(hub.TASK_STATE_COMPLETED), tasks), call())
    assert len(tasks) == 0


def test_a_name_leads_to_the_task_that_got_it_last() -> None:
    """Also after the task that had it before was forgotten, and after its own task was."""
    alice, bob = Scope("", "alice"), Scope("", "bob")
    tasks = Tasks(most=3)
    tasks.keep_name(alice, "1", "mine", "first", 10)
    tasks.keep_name(alice, "2", "mine", "second", 10)
    tasks.keep_name(bob, "1", "mine", "of bob", 10)
    tasks.note(alice, "3", "c")  # in place of alice's task 1
    assert tasks.get(alice, "1") is None
    assert (tasks.find_named(alice, "mine"), tasks.name_of(alice, "2")) == ("second", "mine")
    assert tasks.find_named(bob, "mine") == "of bob"
    for number in range(3):
        tasks.note(alice, f"more {number}", "c")
    assert tasks.find_named(alice, "mine") is tasks.find_named(bob, "mine") is None
    assert not tasks._named


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_through_a_gateway(version: str) -> None:
    """From a caller of 0.3, over either version."""
    async with chained((version, "JSONRPC")) as (client, agent):
        agent.answer = lambda _method, params: task_of(
            {"kind": "message", "messageId": "a", "role": "agent", "parts": []},
            status={"state": "input-required"},
            contextId=(params.get("message") or {}).get("contextId") or "c",
        )
        message = '{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]%s}}'
        await client.call("message/send", message % "")
        await client.call("message/send", message % ',"taskId":"t"')
        assert agent.asked[-1]["message"]["contextId"] == "c"
        assert agent.asked[-1]["message"]["taskId"] == "t"


async def test_a_page_of_tasks_matches_the_request() -> None:
    class Rust(Agent):
        """As a2a-server-lf 0.5.3: artifacts always, and the requested page size."""

        async def unary(self, call: Call[Any, Any], /) -> Any:
            task = hub.Task(id="t", context_id="c", artifacts=[hub.Artifact(artifact_id="a")])
            return hub.ListTasksResponse(tasks=[task], page_size=50, total_size=1)

    service = Contexts(Rust(), Tasks())
    for wanted, artifacts in ((None, 0), (False, 0), (True, 1)):
        request = hub.ListTasksRequest(include_artifacts=wanted)
        page = await service.unary(Call(ops.LIST_TASKS, request, CallContext()))
        assert (page.page_size, page.total_size, len(page.tasks[0].artifacts)) == (1, 1, artifacts)
