"""Agents of 0.1 get the ids that they require from callers, and omitted members are filled in."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason, task_not_found
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import V1_0, v0_1
from a2a_bridge.gateway.identity_agents import LegacyAgent, agents
from a2a_bridge.gateway.legacy import adapt_dial
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.identity_scene import get, rejection, send, send_streaming, subscribe
from tests.patience import PATIENCE
from tests.rejections import rejected


class Old:
    """An agent of 0.1: begins a task for any unknown id; names a session only if `tells`."""

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells
        self.tasks: dict[str, hub.Task] = {}
        self.calls: list[Call[Any, Any]] = []
        self.failure: A2AError | None = None

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        if call.operation is ops.SEND_MESSAGE:
            return hub.SendMessageResponse(task=self._begun(call.request.message))
        if call.operation in (ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG):
            return hub.TaskPushNotificationConfig(task_id=call.request.task_id, id="v0.1", url="http://h")
        return self._known(call.request.id)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            task = self._known(call.request.id)
        else:
            task = self._begun(call.request.message)
        artifact = hub.Artifact(artifact_id="index-0")
        piece = hub.TaskArtifactUpdateEvent(task_id=task.id, artifact=artifact)
        yield Event(hub.StreamResponse(artifact_update=piece))
        update = hub.TaskStatusUpdateEvent(task_id=task.id, status=task.status)
        yield Event(hub.StreamResponse(status_update=update))

    def _begun(self, message: hub.Message) -> hub.Task:
        assert message.task_id
        assert message.context_id
        task = self.tasks.get(message.task_id)
        if task is None:
            task = self.tasks[message.task_id] = hub.Task(id=message.task_id)
            task.context_id = message.context_id if self.tells else ""
        task.status.state = hub.TASK_STATE_COMPLETED
        return self._shown(task)

    def _known(self, task_id: str) -> hub.Task:
        if task_id not in self.tasks:
            raise task_not_found(task_id)
        return self._shown(self.tasks[task_id])

    def _shown(self, task: hub.Task) -> hub.Task:
        copy = hub.Task()
        copy.CopyFrom(task)
        return copy


def client(agent: Old, most: int = 10) -> LegacyAgent:
    numbers = itertools.count(1)
    return LegacyAgent(agent, Tasks(most=most), new_id=lambda: f"made-{next(numbers)}")


async def events_of(service: LegacyAgent, call: Call[Any, Any]) -> list[hub.StreamResponse]:
    async with asyncio.timeout(PATIENCE), aclosing(service.stream(call)) as events:
        return [event.message async for event in events]


def contexts(events: list[hub.StreamResponse]) -> set[str]:
    return {(one.status_update.context_id or one.artifact_update.context_id) for one in events}


@pytest.fixture
def agent() -> Old:
    return Old()


async def test_a_message_without_a_task_begins_one_with_ids_made_here(agent: Old) -> None:
    call = send("")
    task = (await client(agent).unary(call)).task
    assert (task.id, task.context_id) == ("made-1", "made-2")
    assert call.request.message.task_id == ""


async def test_made_ids_cannot_be_guessed(agent: Old) -> None:
    service = LegacyAgent(agent, Tasks())
    for _ in range(2):
        await service.unary(send(""))
    assert len(agent.tasks) == 2
    assert all(len(one) == 32 for one in agent.tasks)


async def test_the_callers_session_is_kept() -> None:
    assert (await client(Old()).unary(send("", "mine"))).task.context_id == "mine"


async def test_a_message_for_a_task_continues_it_in_its_session(agent: Old) -> None:
    service = client(agent)
    task = (await service.unary(send(""))).task
    again = (await service.unary(send(task.id))).task
    assert (again.id, list(agent.tasks)) == (task.id, [task.id])
    assert agent.calls[-1].request.message.context_id == task.context_id


async def test_a_message_for_an_unknown_task_begins_none(agent: Old) -> None:
    with rejected(Reason.TASK_NOT_FOUND):
        await client(agent).unary(send("unknown"))
    assert agent.tasks == {}


async def test_a_task_that_is_not_remembered_is_asked_for_once(agent: Old) -> None:
    task = (await client(agent).unary(send(""))).task
    service = client(agent)
    for _ in range(2):
        await service.unary(send(task.id))
    operations = [call.operation.name for call in agent.calls]
    assert operations == ["SendMessage", "GetTask", "SendMessage", "SendMessage"]


async def test_events_get_the_session_of_their_task(agent: Old) -> None:
    service = client(agent)
    assert contexts(await events_of(service, send_streaming("", "mine"))) == {"mine"}
    (task_id,) = agent.tasks
    assert contexts(await events_of(service, subscribe(task_id))) == {"mine"}
    assert [call.operation.name for call in agent.calls] == ["SendStreamingMessage", "SubscribeToTask"]


async def test_a_forgotten_session_is_asked_of_the_agent(agent: Old) -> None:
    await client(agent).unary(send("", "mine"))
    (task_id,) = agent.tasks
    events = await events_of(client(agent), subscribe(task_id))
    assert contexts(events) == {"mine"}


async def test_the_task_id_replaces_an_unknown_session() -> None:
    agent = Old(tells=False)
    await client(agent).unary(send("", "mine"))
    (task_id,) = agent.tasks
    service = client(agent)
    assert (await service.unary(get(task_id))).context_id == task_id
    assert contexts(await events_of(service, subscribe(task_id))) == {task_id}


async def test_a_remembered_session_is_added_if_the_agent_omits_it() -> None:
    service = client(Old(tells=False))
    task = (await service.unary(send("", "mine"))).task
    assert task.context_id == "mine"
    assert (await service.unary(get(task.id))).context_id == "mine"


async def test_sessions_used_least_recently_are_forgotten() -> None:
    service = client(Old(tells=False), most=1)
    first = (await service.unary(send("", "one"))).task
    await service.unary(send("", "two"))
    assert (await service.unary(get(first.id))).context_id == first.id


async def test_a_push_config_keeps_the_id_its_caller_gave() -> None:
    service = client(Old())
    request = hub.TaskPushNotificationConfig(task_id="t", id="mine", url="http://h")
    assert (await service.unary(Call(ops.CREATE_PUSH_CONFIG, request, CallContext()))).id == "mine"
    request = hub.TaskPushNotificationConfig(task_id="t", url="http://h")
    assert (await service.unary(Call(ops.CREATE_PUSH_CONFIG, request, CallContext()))).id == "v0.1"


async def test_errors_of_the_agent_pass(agent: Old) -> None:
    agent.failure = rejection()
    with pytest.raises(A2AError, match="not now"):
        await client(agent).unary(send(""))


async def test_only_agents_of_0_1_are_wrapped(agent: Old) -> None:
    @asynccontextmanager
    async def dial(_: Candidate, __: DialOptions) -> AsyncIterator[Old]:
        yield agent

    for wrapped in (agents(dial, Tasks), adapt_dial(dial, Tasks)):
        async with wrapped(Candidate(interface("JSONRPC", "u"), V1_0), DialOptions()) as service:
            assert service is agent
        async with wrapped(Candidate(interface("JSONRPC", "u"), v0_1.DIALECT), DialOptions()) as service:
            assert isinstance(service, LegacyAgent)
