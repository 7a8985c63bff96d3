"""Callers of 0.1 use their own names for tasks, sessions and artifacts; agents do not see these names."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.callers import Scope, scope_of
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.v0_1.messages import INDEX, MARK, MESSAGE, decode_message
from a2a_bridge.gateway.identity import LONGEST, LegacyCallers, remember_names
from a2a_bridge.gateway.identity_names import IdentityTable
from a2a_bridge.gateway.tasks import Tasks, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.identity_scene import (
    Agent,
    cancel,
    context,
    get,
    rejection,
    send,
    send_streaming,
    subscribe,
)
from tests.patience import PATIENCE
from tests.rejections import rejected


def callers(service: Any) -> LegacyCallers:
    return LegacyCallers(service, IdentityTable(Tasks()))


async def events_of(service: Any, call: Call[Any, Any]) -> list[hub.StreamResponse]:
    async with asyncio.timeout(PATIENCE), aclosing(service.stream(call)) as events:
        return [event.message async for event in events]


def updates(*states: hub.TaskState) -> Any:
    def made(task: hub.Task) -> list[hub.StreamResponse]:
        return [
            hub.StreamResponse(
                status_update=hub.TaskStatusUpdateEvent(
                    task_id=task.id, context_id=task.context_id, status=hub.TaskStatus(state=state)
                )
            )
            for state in states
        ]

    return made


# --- Tasks ---
@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def service(agent: Agent) -> LegacyCallers:
    return callers(agent)


async def test_a_new_name_begins_a_task_and_stands_for_it_from_then_on(
    agent: Agent, service: LegacyCallers
) -> None:
    for count in (1, 2):
        task = (await service.unary(send("c", "s"))).task
        assert (task.id, task.context_id, len(task.history)) == ("c", "s", count)
        assert {(one.task_id, one.context_id) for one in task.history} == {("c", "s")}
    assert (await service.unary(get("c"))).id == "c"
    assert (await service.unary(cancel("c"))).id == "c"
    assert [list(agent.tasks), agent.calls[-1].request.id] == [["T1"], "T1"]


async def test_the_agent_never_hears_of_the_name(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    await service.unary(send("c"))
    await service.unary(get("c"))
    await events_of(service, subscribe("c"))
    assert not [call for call in agent.calls if '"c"' in str(call.request)]
    assert [agent.calls[0].request.message.task_id, agent.calls[1].request.message.task_id] == ["", "T1"]


async def test_the_input_is_not_changed(agent: Agent) -> None:
    call = send("c")
    before = call.request.SerializeToString()
    await callers(agent).unary(call)
    assert call.request.SerializeToString() == before
    assert agent.tasks["T1"].id == "T1"


@pytest.mark.parametrize("version", ["1.0", "0.3", "0.2.5", ""])
async def test_calls_of_other_versions_pass_by_reference(
    version: str, agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c"))
    agent.tasks["c"] = hub.Task(id="c")
    for call in (get("c", version=version, binding="GRPC"), send("", version=version)):
        await service.unary(call)
        assert agent.calls[-1] is call
    streaming = send_streaming("", version=version)
    await events_of(service, streaming)
    assert agent.calls[-1] is streaming


@pytest.mark.parametrize(
    "others", [{"tenant": "blue"}, {"owner": "bob"}, {"tenant": "blue", "owner": "bob"}], ids=str
)
async def test_a_name_means_nothing_in_another_scope(
    others: dict[str, str], agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c", owner="ann"))
    with rejected(Reason.TASK_NOT_FOUND):
        await service.unary(get("c", **others))
    await service.unary(send("c", **others))
    assert list(agent.tasks) == ["T1", "T2"]
    assert (await service.unary(get("c", owner="ann"))).history[0].task_id == "c"


async def test_an_id_of_the_agents_own_works_as_well(agent: Agent, service: LegacyCallers) -> None:
    await agent.unary(send("", version="1.0"))
    assert (await service.unary(get("T1"))).id == "T1"
    task = (await service.unary(send("T1"))).task
    assert (task.id, len(task.history), list(agent.tasks)) == ("T1", 2, ["T1"])


async def test_an_unknown_name_is_not_found_and_the_error_explains_eviction() -> None:
    service = callers(Agent())
    for call in (get("gone"), cancel("gone")):
        with rejected(Reason.TASK_NOT_FOUND) as raised:
            await service.unary(call)
        assert raised.value.metadata["taskId"] == "gone"
        assert "forgets" in raised.value.message
    with pytest.raises(A2AError, match="forgets"):
        await events_of(service, subscribe("gone"))


async def test_an_error_about_a_task_names_it_as_the_caller_does(
    agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c"))
    del agent.tasks["T1"]
    with pytest.raises(A2AError) as raised:
        await service.unary(get("c"))
    assert raised.value.metadata == {"taskId": "c"}


async def test_a_task_that_could_not_be_begun_can_be_begun_again(
    agent: Agent, service: LegacyCallers
) -> None:
    agent.failure = rejection()
    for _ in range(2):
        with pytest.raises(A2AError):
            await service.unary(send("c"))
        with pytest.raises(A2AError):
            await events_of(service, send_streaming("c"))
    agent.failure = None
    assert (await service.unary(send("c"))).task.id == "c"


async def test_who_uses_a_name_while_its_task_is_being_made_waits_and_gets_that_task(
    agent: Agent, service: LegacyCallers
) -> None:
    agent.gate.clear()
    calls = [asyncio.create_task(service.unary(one)) for one in (send("c"), send("c"), get("c"))]
    await asyncio.wait_for(agent.called.wait(), PATIENCE)
    agent.gate.set()
    first, second, third = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
    assert (first.task.id, second.task.id, third.id) == ("c", "c", "c")
    assert list(agent.tasks) == ["T1"]


async def test_waiting_too_long_for_a_name_is_a_retryable_error(agent: Agent) -> None:
    service = LegacyCallers(agent, IdentityTable(Tasks()), patience=0.01)
    agent.gate.clear()
    first = asyncio.create_task(service.unary(send("c")))
    await asyncio.wait_for(agent.called.wait(), PATIENCE)
    with pytest.raises(A2AError) as raised:
        await asyncio.wait_for(service.unary(get("c")), PATIENCE)
    assert (raised.value.reason, raised.value.retry_after) == (Reason.UNAVAILABLE, 1.0)
    agent.gate.set()
    await asyncio.wait_for(first, PATIENCE)


async def test_a_caller_that_leaves_frees_the_name(agent: Agent, service: LegacyCallers) -> None:
    agent.gate.clear()
    first = asyncio.create_task(service.unary(send("c")))
    await asyncio.wait_for(agent.called.wait(), PATIENCE)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    agent.gate.set()
    assert (await asyncio.wait_for(service.unary(send("c")), PATIENCE)).task.id == "c"


async def test_references_to_other_tasks_are_translated_both_ways(
    agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("a"))
    call = send("b")
    call.request.message.reference_task_ids.append("a")
    task = (await service.unary(call)).task
    assert agent.calls[-1].request.message.reference_task_ids == ["T1"]
    assert task.history[0].reference_task_ids == ["a"]


# --- Message ids ---
def synthetic() -> str:
    wire = {"role": "user", "parts": [{"type": "text", "text": "yes"}]}
    return str(decode_message(wire, "c")["messageId"])


async def test_the_same_message_again_is_another_one_once_the_first_was_answered(
    agent: Agent, service: LegacyCallers
) -> None:
    sent = []
    for _ in range(3):
        await service.unary(send("c", message_id=synthetic()))
        sent.append(agent.calls[-1].request.message.message_id)
    assert len(set(sent)) == 3


async def test_the_same_message_again_is_the_same_when_the_first_failed(
    agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c", message_id=synthetic()))
    agent.failure = rejection()
    sent = []
    for _ in range(2):
        with pytest.raises(A2AError):
            await service.unary(send("c", message_id=synthetic()))
        sent.append(agent.calls[-1].request.message.message_id)
    agent.failure = None
    await service.unary(send("c", message_id=synthetic()))
    sent.append(agent.calls[-1].request.message.message_id)
    assert len(set(sent)) == 1


async def test_an_id_that_the_caller_gave_stays(agent: Agent, service: LegacyCallers) -> None:
    for _ in range(2):
        await service.unary(send("c", message_id="mine"))
        assert agent.calls[-1].request.message.message_id == "mine"


# --- Sessions ---
@pytest.mark.parametrize("own_contexts", ["", "replaces", "rejects"])
async def test_a_session_is_one_context_under_any_id_of_the_agent(own_contexts: str) -> None:
    agent = Agent(own_contexts=own_contexts)
    service = callers(agent)
    for name in ("a", "b", "a"):
        assert (await service.unary(send(name, "s"))).task.context_id == "s"
    assert len({task.context_id for task in agent.tasks.values()}) == 1
    assert list(agent.tasks) == ["T1", "T2"]


@pytest.mark.parametrize("own_contexts", ["replaces", "rejects"])
async def test_a_session_in_a_stream_is_translated_too(own_contexts: str) -> None:
    agent = Agent(own_contexts=own_contexts)
    agent.events = updates(hub.TASK_STATE_COMPLETED)
    (event,) = await events_of(callers(agent), send_streaming("a", "s"))
    assert (event.status_update.task_id, event.status_update.context_id) == ("a", "s")
    assert next(iter(agent.tasks.values())).context_id[0] == "K"


async def test_without_a_session_the_agents_own_is_returned_and_usable(
    agent: Agent, service: LegacyCallers
) -> None:
    task = (await service.unary(send("a"))).task
    assert task.context_id == "K1"
    assert (await service.unary(send("b", "K1"))).task.context_id == "K1"
    assert agent.tasks["T2"].context_id == "K1"


async def test_another_session_than_that_of_the_task_is_the_agents_to_judge(
    agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("a", "s"))
    with rejected(Reason.INVALID_PARAMS):
        await service.unary(send("a", "other"))


async def test_a_rejection_for_another_reason_is_not_tried_again(agent: Agent) -> None:
    agent.failure = rejection(Reason.INVALID_PARAMS)
    with pytest.raises(A2AError):
        await callers(agent).unary(send("a", "s"))
    assert len(agent.calls) == 1


# --- Streams ---
async def test_a_stream_begins_a_task_too(agent: Agent) -> None:
    agent.events = updates(hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED)
    service = callers(agent)
    events = await events_of(service, send_streaming("c"))
    assert [one.status_update.task_id for one in events] == ["c", "c"]
    assert (await service.unary(get("c"))).id == "c"


async def test_the_name_is_known_as_soon_as_the_first_event_came(agent: Agent) -> None:
    agent.events = updates(hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED)
    service = callers(agent)
    async with asyncio.timeout(PATIENCE), aclosing(service.stream(send_streaming("c"))) as events:
        await anext(events)
        assert (await service.unary(get("c"))).id == "c"


def whole_task(state: hub.TaskState) -> Any:
    def made(task: hub.Task) -> list[hub.StreamResponse]:
        event = hub.StreamResponse(task=task)
        event.task.status.state = state
        event.task.metadata.update({"k": 1})
        for name in ("one", "two"):
            event.task.artifacts.add(artifact_id=name, parts=[hub.Part(text=name)])
        return [event]

    return made


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (hub.TASK_STATE_WORKING, ["status_update", "artifact_update", "artifact_update"]),
        (hub.TASK_STATE_COMPLETED, ["artifact_update", "artifact_update", "status_update"]),
        (hub.TASK_STATE_INPUT_REQUIRED, ["artifact_update", "artifact_update", "status_update"]),
    ],
)
async def test_a_task_in_a_stream_becomes_its_status_and_its_artifacts(
    state: hub.TaskState, kinds: list[str], agent: Agent
) -> None:
    agent.events = whole_task(state)
    events = await events_of(callers(agent), send_streaming("c", "s"))
    assert [one.WhichOneof("payload") for one in events] == kinds
    (status,) = [one.status_update for one in events if one.HasField("status_update")]
    assert (status.task_id, status.context_id, status.status.state) == ("c", "s", state)
    assert dict(status.metadata) == {"k": 1}
    pieces = [one.artifact_update for one in events if one.HasField("artifact_update")]
    assert [(one.artifact.artifact_id, one.append, one.last_chunk) for one in pieces] == [
        ("one", False, True),
        ("two", False, True),
    ]
    assert [one.artifact.metadata[MARK][INDEX] for one in pieces] == [0, 1]


async def test_a_stream_of_0_1_ends_with_its_final_event_and_closes_the_agents_stream(agent: Agent) -> None:
    agent.events = updates(hub.TASK_STATE_INPUT_REQUIRED, hub.TASK_STATE_COMPLETED)
    events = await events_of(callers(agent), send_streaming("c"))
    assert [one.status_update.status.state for one in events] == [hub.TASK_STATE_INPUT_REQUIRED]
    assert agent.closed == 1


async def test_a_message_is_answered_by_a_completed_task_of_the_name_with_a_mark() -> None:
    task = (await callers(Agent(answers="message")).unary(send("c", "s"))).task
    assert (task.id, task.context_id, task.status.state) == ("c", "s", hub.TASK_STATE_COMPLETED)
    assert (task.status.message.parts[0].text, dict(task.metadata[MARK])) == ("hi", {MESSAGE: True})


async def test_a_message_in_a_stream_is_a_completed_status_of_the_name_with_a_mark(agent: Agent) -> None:
    agent.events = lambda _: [hub.StreamResponse(message=hub.Message(message_id="a", role=hub.ROLE_AGENT))]
    (event,) = await events_of(callers(agent), send_streaming("c", "s"))
    update = event.status_update
    assert (update.task_id, update.context_id, update.status.message.message_id) == ("c", "s", "a")
    assert dict(update.metadata[MARK]) == {MESSAGE: True}


# --- Artifacts ---
def artifacts(*ids: str) -> Any:
    def made(task: hub.Task) -> list[hub.StreamResponse]:
        return [
            hub.StreamResponse(
                artifact_update=hub.TaskArtifactUpdateEvent(
                    task_id=task.id, context_id=task.context_id, artifact=hub.Artifact(artifact_id=one)
                )
            )
            for one in ids
        ]

    return made


def index_told(artifact: hub.Artifact) -> Any:
    return artifact.metadata[MARK][INDEX] if MARK in artifact.metadata else artifact.artifact_id


async def test_artifacts_are_counted_by_first_appearance_and_keep_their_number(agent: Agent) -> None:
    agent.events = artifacts("x", "y", "x")
    service = callers(agent)
    events = await events_of(service, send_streaming("c"))
    assert [index_told(one.artifact_update.artifact) for one in events] == [0, 1, 0]
    agent.tasks["T1"].artifacts.extend(hub.Artifact(artifact_id=one) for one in ("z", "y", "x"))
    task = await service.unary(get("c"))
    assert [index_told(one) for one in task.artifacts] == [2, 1, 0]
    assert not agent.tasks["T1"].artifacts[0].HasField("metadata")


async def test_ids_with_an_index_keep_it_exclusively(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    agent.tasks["T1"].artifacts.extend(hub.Artifact(artifact_id=one) for one in ("x", "index-0", "y"))
    task = await service.unary(get("c"))
    assert [index_told(one) for one in task.artifacts] == [1, "index-0", 2]


# --- Push notification configs ---
def configure(task_id: str = "c") -> Call[Any, Any]:
    request = hub.TaskPushNotificationConfig(task_id=task_id, id="v0.1", url="http://h")
    return Call(ops.CREATE_PUSH_CONFIG, request, context())


def configured(task_id: str = "c") -> Call[Any, Any]:
    request = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="v0.1")
    return Call(ops.GET_PUSH_CONFIG, request, context())


async def test_a_push_config_belongs_to_the_named_task(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    assert (await service.unary(configure())).task_id == "c"
    assert (await service.unary(configured())).task_id == "c"
    assert list(agent.configs) == [("T1", "v0.1")]


async def test_the_first_config_is_returned_if_the_caller_has_set_none(
    agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c"))
    agent.configs["T1", "x"] = hub.TaskPushNotificationConfig(task_id="T1", id="x", url="http://x")
    found = await service.unary(configured())
    assert (found.task_id, found.url) == ("c", "http://x")


async def test_no_config_at_all_is_an_empty_one_and_no_task_is_an_error() -> None:
    service = callers(Agent())
    await service.unary(send("c"))
    assert await service.unary(configured()) == hub.TaskPushNotificationConfig(task_id="c")
    with pytest.raises(A2AError, match="forgets"):
        await service.unary(configured("gone"))


async def test_an_event_that_reaches_the_caller_outside_of_a_call_is_named_too() -> None:
    agent = Agent(own_contexts="replaces")
    middleware, as_known = remember_names(scope_of, Tasks())
    await middleware(agent).unary(send("c", "s", owner="ann"))
    event = hub.StreamResponse(task=agent.tasks["T1"])
    named = as_known(Scope("", "ann"), event).task
    assert (named.id, named.context_id) == ("c", "s")
    assert as_known(Scope("", "bob"), event).task.id == "T1"


@pytest.mark.parametrize("told_by", ["history", "session", "nothing"])
async def test_an_event_may_be_faster_than_the_answer_that_tells_the_name(told_by: str, agent: Agent) -> None:
    middleware, as_known = remember_names(scope_of, Tasks())
    service = middleware(agent)
    agent.gate.clear()
    sent = [
        asyncio.create_task(service.unary(send(one, f"session {one}", message_id=f"m {one}")))
        for one in ("a", "b")
    ]
    await asyncio.wait_for(agent.called.wait(), PATIENCE)
    assert len(agent.calls) == 2
    task = hub.Task(id="T2", context_id="session b" if told_by == "session" else "K")
    if told_by == "history":
        task.history.add(message_id="m b")
    known = as_known(Scope(), hub.StreamResponse(task=task)).task
    assert known.id == ("T2" if told_by == "nothing" else "b")
    assert as_known(Scope("", "bob"), hub.StreamResponse(task=task)).task.id == "T2"
    agent.gate.set()
    answers = await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
    assert [one.task.id for one in answers] == ["a", "b"]
    assert as_known(Scope(), hub.StreamResponse(task=hub.Task(id="T1"))).task.id == "a"


# --- Callers that are taken for callers of a later version ---
@pytest.mark.parametrize("make", [get, cancel])
async def test_a_caller_that_uses_a_name_of_0_1_speaks_0_1(
    make: Any, agent: Agent, service: LegacyCallers
) -> None:
    await service.unary(send("c"))
    call = make("c", version="0.3")
    assert (await service.unary(call)).id == "c"
    assert (call.context.reply, call.context.reply.version) == ({}, "0.1")
    assert agent.calls[-1].context.origin.version == "0.1"


async def test_a_subscriber_by_a_name_of_0_1_is_one_of_0_1(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    call = subscribe("c", version="0.3")
    (event,) = await events_of(service, call)
    assert event.status_update.task_id == "c"
    assert (call.context.reply, call.context.reply.version) == ({}, "0.1")


async def test_who_declares_a_version_is_believed(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    call = get("c", version="0.3")
    call.context.parameters = {"a2a-version": "0.3"}
    with pytest.raises(A2AError):
        await service.unary(call)
    assert call.context.reply == {}


async def test_an_agents_own_id_does_not_imply_0_1(agent: Agent, service: LegacyCallers) -> None:
    await service.unary(send("c"))
    await service.unary(get("T1"))
    call = get("T1", version="0.3")
    await service.unary(call)
    assert agent.calls[-1] is call


# --- Strangers ---
async def test_names_behind_a_gateway_are_scoped_by_credentials(agent: Agent) -> None:
    middleware, as_known = remember_names(visible_to, Tasks())
    service = middleware(agent)
    ann, bob = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}
    for parameters in (ann, bob):
        call = send("task-1")
        await service.unary(Call(call.operation, call.request, call.context.replace(parameters=parameters)))
    assert sorted(agent.tasks) == ["T1", "T2"]
    call = get("task-1")
    as_bob = call.context.replace(parameters=bob)
    await service.unary(Call(call.operation, call.request, as_bob))
    assert agent.calls[-1].request.id == "T2"
    task = hub.StreamResponse(task=agent.tasks["T1"])
    assert as_known(visible_to(call.request, as_bob), task).task.id == "T1"


@pytest.mark.parametrize("member", ["id", "sessionId"])
async def test_a_name_that_is_too_long_to_be_remembered_is_rejected(member: str, agent: Agent) -> None:
    long = "x" * (LONGEST + 1)
    call = send(long, "s") if member == "id" else send("c", long)
    with rejected(Reason.INVALID_PARAMS, member):
        await callers(agent).unary(call)
    assert agent.calls == []
    await callers(agent).unary(send(long[:-1], long[:-1]))
