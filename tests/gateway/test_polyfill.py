"""Operations that an agent of an older version lacks: lists of tasks, and clear errors for the rest."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import JSONRPC, V1_0, Dialect, Form
from a2a_bridge.gateway.polyfill import polyfill
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Timestamp
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.agents import ScriptedAgent
from tests.patience import PATIENCE
from tests.rejections import rejected


def lacking(*operations: Any) -> Dialect:
    """A version like 0.3, as far as gateways need it: some operations, and final events."""
    full = V1_0.forms[JSONRPC]
    rows = tuple(row for row in full.rows if row.operation not in operations)
    form = Form(rows, full.encode_error, full.decode_error)
    return Dialect("0.3", V1_0.card, {JSONRPC: form}, final_events=True)


OLD = lacking(ops.LIST_TASKS)
NEAR = interface("JSONRPC", "http://near")


def agent_of(service: Any, dialect: Dialect = OLD, most: int = 100) -> Client:
    tasks = Tasks(most=most, now=Clock().now) if most else None
    return Client(polyfill(service, Candidate(NEAR, dialect), tasks))


class Clock:
    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        self._now += 1
        return self._now


class Agent:
    """Tasks of messages, with the states that a test sets."""

    def __init__(self) -> None:
        self.tasks: dict[str, hub.Task] = {}
        self.asked: list[str] = []
        self.probe = Probe()
        self.probe.on_unary = self._answer

    async def _answer(self, call: Call[Any, Any]) -> Any:
        if call.operation is ops.SEND_MESSAGE:
            return hub.SendMessageResponse(task=self.tasks[call.request.message.message_id])
        assert call.operation is ops.GET_TASK
        self.asked.append(call.request.id)
        task = self.tasks.get(call.request.id)
        if task is None:
            raise A2AError(Reason.TASK_NOT_FOUND)
        copy = hub.Task()
        copy.CopyFrom(task)
        return copy

    def task(
        self, task_id: str, state: Any = hub.TASK_STATE_COMPLETED, second: int = 0, **members: Any
    ) -> None:
        status = hub.TaskStatus(state=state)
        if second:
            status.timestamp.CopyFrom(Timestamp(seconds=second))
        self.tasks[task_id] = hub.Task(id=task_id, status=status, **members)


async def send(client: Client, *task_ids: str, context: CallContext | None = None) -> None:
    for task_id in task_ids:
        message = hub.Message(message_id=task_id, role=hub.ROLE_USER, parts=[hub.Part(text="x")])
        await client.send_message(hub.SendMessageRequest(message=message), context)


async def ids(client: Client, context: CallContext | None = None, **members: Any) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        response = await client.list_tasks(hub.ListTasksRequest(**members), context)
    return [task.id for task in response.tasks]


def test_an_agent_that_lacks_nothing_is_not_wrapped() -> None:
    probe = Probe()
    assert polyfill(probe, Candidate(NEAR, V1_0), None) is probe


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_tasks_are_listed_by_the_time_of_their_status(agent: Agent) -> None:
    for task_id, second in (("a", 5), ("b", 9), ("c", 7), ("d", 7)):
        agent.task(task_id, second=second)
    client = agent_of(agent.probe)
    assert await ids(client) == []
    await send(client, "a", "b", "c", "d")
    response = await client.list_tasks(hub.ListTasksRequest())
    assert [task.id for task in response.tasks] == ["b", "d", "c", "a"]
    assert (response.total_size, response.page_size, response.next_page_token) == (4, 4, "")


async def test_pages_follow_each_other_and_their_tokens_belong_to_the_query(agent: Agent) -> None:
    for number in range(5):
        agent.task(f"t{number}", second=number + 1, context_id="c")
    client = agent_of(agent.probe)
    await send(client, *agent.tasks)
    found, token = [], ""
    for size in (2, 2, 1):
        response = await client.list_tasks(hub.ListTasksRequest(page_size=2, page_token=token))
        assert (len(response.tasks), response.page_size, response.total_size) == (size, size, 5)
        found += [task.id for task in response.tasks]
        token = response.next_page_token
    assert found == ["t4", "t3", "t2", "t1", "t0"]
    assert token == ""
    first = await client.list_tasks(hub.ListTasksRequest(page_size=2))
    for request in (
        hub.ListTasksRequest(page_size=2, page_token="x"),  # noqa: S106
        hub.ListTasksRequest(page_size=2, page_token=first.next_page_token, context_id="c"),
        hub.ListTasksRequest(page_size=0),
        hub.ListTasksRequest(page_size=101),
        hub.ListTasksRequest(history_length=-1),
    ):
        with rejected(Reason.INVALID_PARAMS):
            await client.list_tasks(request)


async def test_large_tasks_end_a_page(agent: Agent) -> None:
    for number, size in enumerate((10, 2 << 20, 5 << 20, 1 << 20, 1 << 20)):
        artifacts = [hub.Artifact(artifact_id="a", parts=[hub.Part(text="x" * size)])]
        agent.task(f"t{number}", second=number + 1, artifacts=artifacts)
    client = agent_of(agent.probe)
    await send(client, *agent.tasks)
    found, token = [], ""
    while token or not found:
        page = await client.list_tasks(hub.ListTasksRequest(include_artifacts=True, page_token=token))
        found.append([task.id for task in page.tasks])
        token = page.next_page_token
    assert found == [["t4", "t3"], ["t2"], ["t1", "t0"]]
    assert len(await ids(client)) == 5


async def test_filters(agent: Agent) -> None:
    agent.task("a", hub.TASK_STATE_COMPLETED, 3, context_id="x")
    agent.task("b", hub.TASK_STATE_FAILED, 5, context_id="x")
    agent.task("c", hub.TASK_STATE_COMPLETED, 7, context_id="y")
    client = agent_of(agent.probe)
    await send(client, "a", "b", "c")
    assert await ids(client, context_id="x") == ["b", "a"]
    assert await ids(client, status=hub.TASK_STATE_COMPLETED) == ["c", "a"]
    assert await ids(client, status_timestamp_after=Timestamp(seconds=5)) == ["c", "b"]  # that time counts
    assert await ids(client, context_id="z") == []


async def test_working_tasks_are_refreshed_before_filtering_and_ended_ones_are_not(agent: Agent) -> None:
    agent.task("a", hub.TASK_STATE_WORKING, 3)
    agent.task("b", hub.TASK_STATE_COMPLETED, 5)
    client = agent_of(agent.probe)
    await send(client, "a", "b")
    agent.task("a", hub.TASK_STATE_COMPLETED, 9)
    assert await ids(client, status=hub.TASK_STATE_COMPLETED) == ["a", "b"]
    agent.asked.clear()
    assert await ids(client, status=hub.TASK_STATE_WORKING) == []
    assert agent.asked == []


async def test_artifacts_and_history_only_as_asked_for(agent: Agent) -> None:
    messages = [hub.Message(message_id=str(number)) for number in range(4)]
    agent.task("a", artifacts=[hub.Artifact(artifact_id="1")], history=messages)
    client = agent_of(agent.probe)
    await send(client, "a")
    [task] = (await client.list_tasks(hub.ListTasksRequest())).tasks
    assert not task.artifacts
    assert len(task.history) == 4
    asked = hub.ListTasksRequest(include_artifacts=True, history_length=2)
    [task] = (await client.list_tasks(asked)).tasks
    assert [one.artifact_id for one in task.artifacts] == ["1"]
    assert [one.message_id for one in task.history] == ["2", "3"]


async def test_tasks_the_agent_has_forgotten_are_left_out_for_good(agent: Agent) -> None:
    agent.task("a", second=1)
    agent.task("b", second=2)
    client = agent_of(agent.probe)
    await send(client, "a", "b")
    del agent.tasks["b"]
    assert await ids(client) == ["a"]
    agent.asked.clear()
    assert await ids(client) == ["a"]
    assert agent.asked == ["a"]


async def test_an_agent_that_cannot_be_asked_fails_the_list(agent: Agent) -> None:
    agent.task("a")
    client = agent_of(agent.probe)
    await send(client, "a")
    agent.probe.on_unary = answering(A2AError(Reason.UNAVAILABLE))
    with rejected(Reason.UNAVAILABLE):
        await ids(client)


async def test_callers_see_their_own_tasks_only(agent: Agent) -> None:
    client = agent_of(agent.probe)
    callers = {
        "alice": CallContext(principal=Principal("alice")),
        "bob": CallContext(principal=Principal("bob")),
        "x": CallContext(parameters={"authorization": "Bearer x"}),
        "y": CallContext(parameters={"authorization": "Bearer y"}),
        "acme": CallContext(tenant="acme"),
        "anybody": CallContext(),
    }
    for name, context in callers.items():
        agent.task(name)
        await send(client, name, context=context)
    for name, context in callers.items():
        assert await ids(client, context) == [name]


async def test_tasks_are_seen_in_streams_too(agent: Agent) -> None:
    client = agent_of(agent.probe)
    update = hub.TaskStatusUpdateEvent(task_id="s", context_id="c")
    piece = hub.TaskArtifactUpdateEvent(task_id="p", context_id="c")
    task = hub.StreamResponse(task=hub.Task(id="t", context_id="c"))
    for task_id in "spt":
        agent.task(task_id, context_id="c")
    agent.probe.on_stream = yielding(
        hub.StreamResponse(status_update=update), hub.StreamResponse(artifact_update=piece), task
    )
    async for _ in client.send_streaming_message(hub.SendMessageRequest()):
        pass
    assert sorted(await ids(client, context_id="c")) == ["p", "s", "t"]


def test_the_memory_is_bounded() -> None:
    tasks = Tasks(most=3, now=Clock().now)
    scopes = [Scope("", "a"), Scope("", "b")]
    for number in range(6):
        tasks.note(scopes[number % 2], str(number), "c")
        tasks.note(scopes[1], "1", "c")  # seen again and again
    assert len(tasks) == 3
    left = [[one.id for one in tasks.list_of(scope)] for scope in scopes]
    assert left == [["4"], ["5", "1"]]


def test_a_list_has_so_many_tasks_of_each_caller() -> None:
    tasks = Tasks(most_listed=2, now=Clock().now)
    scopes = [Scope("", "a"), Scope("", "b")]
    for number in range(8):
        tasks.note(scopes[number % 2], str(number), "c")
        tasks.note(scopes[0], "0", "c")  # seen again and again
    assert [[one.id for one in tasks.list_of(scope)] for scope in scopes] == [["6", "0"], ["7", "5"]]
    tasks.unlist(scopes[0], "0")
    tasks.unlist(Scope("", "c"), "6")
    assert [one.id for one in tasks.list_of(scopes[0])] == ["6"]
    assert tasks.context_of(scopes[0], "0") == "c"
    tasks.unlist(scopes[0], "6")
    assert tasks.list_of(scopes[0]) == []


async def test_without_memory_listing_is_rejected() -> None:
    client = agent_of(Probe(), most=0)
    with rejected(Reason.UNSUPPORTED_OPERATION) as caught:
        await ids(client)
    assert "0.3" in caught.value.message
    assert "ListTasks" in caught.value.message


async def test_operations_that_a_version_lacks_are_rejected_without_a_call() -> None:
    probe = Probe()
    client = agent_of(probe, lacking(ops.GET_EXTENDED_AGENT_CARD, ops.SUBSCRIBE_TO_TASK))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await client.get_extended_agent_card()
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await anext(client.subscribe_to_task(hub.SubscribeToTaskRequest(id="t")))
    assert probe.calls == []


async def test_operations_that_an_agent_lacks_are_a_clear_error() -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.METHOD_NOT_FOUND, blame=Blame.PEER))
    client = agent_of(probe)
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await client.list_task_push_notification_configs(
            hub.ListTaskPushNotificationConfigsRequest(task_id="t")
        )
    with rejected(Reason.METHOD_NOT_FOUND):
        await client.get_task(hub.GetTaskRequest(id="t"))


@pytest.mark.parametrize(("limit", "left"), [(0, 0), (2, 2), (9, 4), (None, 4)])
async def test_history_is_cut_for_agents_that_do_not(limit: int | None, left: int, agent: Agent) -> None:
    client = agent_of(agent.probe)
    request = hub.GetTaskRequest(id="a", history_length=limit)
    agent.task("a", history=[hub.Message(message_id=str(number)) for number in range(4)])
    assert len((await client.get_task(request)).history) == left
    agent.probe.on_stream = yielding(
        hub.StreamResponse(task=await client.get_task(hub.GetTaskRequest(id="a")))
    )
    sent = hub.SendMessageRequest(configuration={"history_length": limit})
    async for event in client.send_streaming_message(sent):
        assert len(event.task.history) == left


@pytest.mark.parametrize(("length", "left"), [(1, 2), (0, 0)])
async def test_history_for_older_callers_is_the_agents_affair_unless_they_want_none(
    length: int, left: int, agent: Agent
) -> None:
    agent.task("a", history=[hub.Message(message_id="m"), hub.Message(message_id="n")])
    context = CallContext(origin=Origin("JSONRPC", "0.3"))
    task = await agent_of(agent.probe).get_task(hub.GetTaskRequest(id="a", history_length=length), context)
    assert len(task.history) == left


async def test_a_whole_agent_behind_it() -> None:
    engine = Engine(ScriptedAgent())
    client = agent_of(service_of(engine), replace(OLD, version="0.2.5"))
    for text in ("task", "input", "fail"):
        message = hub.Message(message_id=text, role=hub.ROLE_USER, parts=[hub.Part(text=text)])
        await client.send_message(hub.SendMessageRequest(message=message))
    response = await client.list_tasks(hub.ListTasksRequest())
    own = await Client(service_of(engine)).list_tasks(hub.ListTasksRequest())
    assert list(response.tasks) == list(own.tasks)
    assert len(own.tasks) >= 2
    await engine.close()
