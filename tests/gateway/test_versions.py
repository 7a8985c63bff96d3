"""Versions over real sockets: raw 0.3 callers, hosted agents, agents of 0.3 behind a gateway."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.annotation import SNAPSHOT, annotate_final, read_final, synthetic_kind
from a2a_bridge.dialects.v0_3 import DIALECT as V0_3
from a2a_bridge.hosting import Run
from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, yielding
from tests.agents import ScriptedAgent
from tests.hosting.scene import agent_of
from tests.identity import says
from tests.patience import PATIENCE
from tests.push.version_scene import Front, bridged, hosted, served
from tests.sites import listening

WORKING = hub.TASK_STATE_WORKING


def message(text: str, **members: Any) -> Any:
    return {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
        **members,
    }


async def sent(front: Front, text: str, **members: Any) -> Any:
    configuration = members.pop("configuration", None)
    params: dict[str, Any] = {"message": message(text, **members)}
    if configuration is not None:
        params["configuration"] = configuration
    return await front.call("message/send", params)


async def streamed(front: Front, text: str, **members: Any) -> list[Any]:
    return await front.stream("message/stream", {"message": message(text, **members)})


@asynccontextmanager
async def fronts(agent: Any, upstream: str | None) -> AsyncIterator[Front]:
    """The agent itself, or a gateway to it that speaks `upstream` to it."""
    async with hosted(agent) as near:
        if upstream is None:
            yield near
        else:
            async with bridged(near.candidate(upstream)) as front:
                yield front


everywhere = pytest.mark.parametrize("upstream", [None, "1.0", "0.3"], ids=["hosted", "1.0", "0.3"])


@everywhere
@pytest.mark.parametrize(
    ("text", "state"), [("task x", "completed"), ("input what?", "input-required"), ("fail", "failed")]
)
async def test_streams_of_0_3_end_with_the_one_final_event(
    upstream: str | None, text: str, state: str
) -> None:
    async with fronts(ScriptedAgent(), upstream) as front:
        events = await streamed(front, text)
    finals = [event.get("final") for event in events if event["kind"] == "status-update"]
    assert finals == [False] * (len(finals) - 1) + [True]
    assert (events[-1]["kind"], events[-1]["status"]["state"]) == ("status-update", state)
    assert events[0]["kind"] == "task"


@everywhere
async def test_a_direct_answer_is_the_whole_stream(upstream: str | None) -> None:
    async with fronts(ScriptedAgent(), upstream) as front:
        [event] = await streamed(front, "message hi")
    assert event["kind"] == "message"


@everywhere
async def test_errors_and_capabilities_are_those_of_0_3(upstream: str | None) -> None:
    async with fronts(ScriptedAgent(streaming=False, push_notifications=False), upstream) as front:
        task = await sent(front, "task x")
        assert task["status"]["state"] == "completed"
        ended = await sent(front, "more", taskId=task["id"])
        assert ended["code"] == -32004
        assert (await sent(front, "more", taskId="none"))["code"] == -32001
        assert (await sent(front, "more", taskId=task["id"], contextId="other"))["code"] == -32602
        assert (await front.call("tasks/get", {"id": "none"}))["code"] == -32001
        assert (await front.call("tasks/cancel", {"id": task["id"]}))["code"] == -32002
        [rejected] = await streamed(front, "task x")
        assert rejected["code"] == -32004
        config = {"taskId": task["id"], "pushNotificationConfig": {"url": "http://127.0.0.1:9/"}}
        assert (await front.call("tasks/pushNotificationConfig/set", config))["code"] == -32003
        assert (await front.call("tasks/pushNotificationConfig/get", {"id": task["id"]}))["code"] == -32003
        assert (await front.call("tasks/list", {}))["code"] == -32601


@everywhere
async def test_sending_waits_by_default(upstream: str | None) -> None:
    async with fronts(ScriptedAgent(), upstream) as front:
        for configuration in (None, {}, {"blocking": True}, {"acceptedOutputModes": []}):
            task = await sent(front, "task x", configuration=configuration)
            assert task["status"]["state"] == "completed"
        task = await sent(front, "slow", configuration={"blocking": False})
        assert task["status"]["state"] in ("submitted", "working")
        cancelled = await front.call("tasks/cancel", {"id": task["id"]})
        assert cancelled["status"]["state"] == "canceled"


@everywhere
async def test_push_configs_as_0_3_asks_for_them(upstream: str | None) -> None:
    async with fronts(ScriptedAgent(), upstream) as front:
        task = await sent(front, "input what?")
        missing = await front.call("tasks/pushNotificationConfig/get", {"id": task["id"]})
        assert missing["code"] == -32001
        for name in "abc":
            config = {"id": name, "url": "http://127.0.0.1:9/"}
            params = {"taskId": task["id"], "pushNotificationConfig": config}
            assert await front.call("tasks/pushNotificationConfig/set", params) == params
        first = await front.call("tasks/pushNotificationConfig/get", {"id": task["id"]})
        assert first["pushNotificationConfig"]["id"] == "a"
        listed = await front.call("tasks/pushNotificationConfig/list", {"id": task["id"]})
        assert [one["pushNotificationConfig"]["id"] for one in listed] == list("abc")


@everywhere
async def test_content_of_0_3_comes_back_unchanged_and_agents_do_not_see_the_carrier(
    upstream: str | None,
) -> None:
    seen: list[Any] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        seen.append(run.message.SerializeToString() + run.request.SerializeToString())
        yield run.status("completed")

    odd = message("x", metadata={"n": 2**60 + 1, "f": 1.0}, extensions=[], own={"a": None})
    odd["parts"].append({"kind": "file", "file": {"bytes": "aGk", "name": ""}, "x": 1})
    async with fronts(agent_of(execute), upstream) as front:
        task = await front.call("message/send", {"message": odd})
    got = task["history"][0]
    assert says({name: got[name] for name in odd}, odd)
    assert isinstance(got["metadata"]["n"], int)
    assert b"urn:a2a-bridge" not in seen[0]


# ---------------------------------------------------------------------- all bindings

KINDS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def asking(text: str, **members: Any) -> hub.SendMessageRequest:
    return hub.SendMessageRequest(
        message={"message_id": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}
    )


@pytest.mark.parametrize("upstream", KINDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("version", "behind"), [("0.3", "1.0"), ("1.0", "0.3"), ("0.3", "0.3")])
async def test_conversations_over_every_binding(version: str, behind: str, kind: str, upstream: str) -> None:
    async with (
        hosted(ScriptedAgent(), kind=upstream) as agent,
        bridged(agent.candidate(behind), kind=kind) as front,
        caller(front, version) as client,
    ):
        events = await events_of(client.send_streaming_message(asking("task x")))
        assert events[0].HasField("task")
        states = [one.status_update.status.state for one in events if one.HasField("status_update")]
        assert states == [WORKING, hub.TASK_STATE_COMPLETED]
        assert not any(read_final(one.status_update) for one in events if one.HasField("status_update"))
        task = (await client.send_message(asking("input what?"))).task
        assert task.status.state == hub.TASK_STATE_INPUT_REQUIRED
        if version == "1.0":
            waiting = hub.ListTasksRequest(status=hub.TASK_STATE_INPUT_REQUIRED)
            assert [one.id for one in (await client.list_tasks(waiting)).tasks] == [task.id]
        else:
            with pytest.raises(A2AError) as caught:
                await client.list_tasks(hub.ListTasksRequest())
            assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
        config = hub.TaskPushNotificationConfig(task_id=task.id, id="p", url="http://127.0.0.1:9/")
        assert await client.create_task_push_notification_config(config) == config
        listing = hub.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert list((await client.list_task_push_notification_configs(listing)).configs) == [config]
        gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="p")
        await client.delete_task_push_notification_config(gone)
        done = (await client.send_message(asking("x", task_id=task.id))).task
        assert done.status.state == hub.TASK_STATE_COMPLETED
        with pytest.raises(A2AError) as caught:
            await events_of(client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id)))
        assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
        with pytest.raises(A2AError) as caught:
            await client.send_message(asking("x", task_id=task.id))
        assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


# --- agents of 0.3 ---
def status(state: Any = WORKING, *, final: bool | None = None) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    if final is not None:
        annotate_final(update, final)
    return hub.StreamResponse(status_update=update)


@asynccontextmanager
async def old_agent(probe: Probe) -> AsyncIterator[Front]:
    """A gateway to an agent that sends the events of the probe in 0.3, unchanged."""
    async with (
        listening(probe, "JSONRPC", [V0_3]) as address,
        bridged(Front(f"http://{address}/").candidate("0.3")) as front,
    ):
        yield front


@asynccontextmanager
async def caller(front: Front, version: str = "1.0") -> AsyncIterator[Client]:
    candidate = front.candidate(version)
    dialling = find(front.kind).dial(candidate.interface, candidate.dialect, DialOptions(timeout=PATIENCE))
    async with dialling as service:
        yield Client(service)


REQUEST = hub.SendMessageRequest(message={"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})


async def events_of(stream: Any) -> list[Any]:
    async with aclosing(stream) as events:
        return [event async for event in events]


def old_probe(*events: Any, state: Any = WORKING) -> Probe:
    probe = Probe()
    probe.on_stream = yielding(*events)

    async def on_unary(call: Call[Any, Any]) -> Any:
        if call.operation is ops.SEND_MESSAGE:
            return hub.SendMessageResponse(task=hub.Task(id="t", context_id="c", status={"state": state}))
        assert call.operation is ops.GET_TASK
        return hub.Task(
            id="t", context_id="c", status={"state": state}, history=[REQUEST.message, REQUEST.message]
        )

    probe.on_unary = on_unary
    return probe


async def test_an_agents_final_event_ends_the_stream_of_1_0_in_any_state() -> None:
    probe = old_probe(status(), status(final=True), status())
    async with old_agent(probe) as front, caller(front) as client:
        events = await events_of(client.send_streaming_message(REQUEST))
    assert [event.WhichOneof("payload") for event in events] == ["task", "status_update", "status_update"]
    assert synthetic_kind(events[0].task) == SNAPSHOT
    # and callers of 0.3 get exactly the sent content
    async with old_agent(probe) as front:
        old = await streamed(front, "x")
    assert [(event["kind"], event["final"]) for event in old] == [
        ("status-update", False),
        ("status-update", True),
    ]


async def test_a_stream_without_final_is_closed_for_0_3() -> None:
    async with old_agent(old_probe(status(), status())) as front:
        old = await streamed(front, "x")
    assert [event["final"] for event in old] == [False, False, True]
    assert old[-1]["status"] == old[-2]["status"]
    # a bridge before this one drops it for its own callers of 1.0
    async with old_agent(old_probe(status(), status())) as inner, bridged(inner.candidate("0.3")) as front:
        async with caller(front) as client:
            events = await events_of(client.send_streaming_message(REQUEST))
        assert [event.WhichOneof("payload") for event in events] == ["task", "status_update", "status_update"]
        assert [event["final"] for event in await streamed(front, "x")] == [False, False, True]


async def test_an_agents_task_that_has_ended_cannot_be_subscribed_to() -> None:
    probe = old_probe(status(), state=hub.TASK_STATE_COMPLETED)
    async with old_agent(probe) as front, caller(front) as client:
        with pytest.raises(A2AError) as caught:
            await events_of(client.subscribe_to_task(hub.SubscribeToTaskRequest(id="t")))
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


async def test_tasks_of_an_agent_of_0_3_are_listed_and_their_history_cut() -> None:
    async with old_agent(old_probe()) as front, caller(front) as client:
        assert (await client.list_tasks(hub.ListTasksRequest())).total_size == 0
        await client.send_message(REQUEST)
        listed = await client.list_tasks(hub.ListTasksRequest(history_length=1))
        assert [(task.id, len(task.history)) for task in listed.tasks] == [("t", 1)]
        assert not (await client.get_task(hub.GetTaskRequest(id="t", history_length=0))).history


async def test_a_whole_conversation_of_1_0_with_an_agent_of_0_3() -> None:
    async with hosted(ScriptedAgent(), [V0_3]) as agent, AsyncExitStack() as stack:
        front = await stack.enter_async_context(bridged(agent.candidate("0.3")))
        async with caller(front) as client:
            asking = hub.SendMessageRequest()
            asking.CopyFrom(REQUEST)
            asking.message.parts[0].text = "input what?"
            events = await events_of(client.send_streaming_message(asking))
            assert events[0].HasField("task")
            assert not synthetic_kind(events[0].task)
            task = events[0].task
            assert events[-1].status_update.status.state == hub.TASK_STATE_INPUT_REQUIRED
            waiting = hub.ListTasksRequest(status=hub.TASK_STATE_INPUT_REQUIRED)
            assert [one.id for one in (await client.list_tasks(waiting)).tasks] == [task.id]
            asking.message.task_id = task.id
            assert (await client.send_message(asking)).task.status.state == hub.TASK_STATE_COMPLETED
            assert not (await client.list_tasks(waiting)).tasks
            with pytest.raises(A2AError) as caught:
                await client.get_extended_agent_card()
            assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


async def test_callers_of_1_0_with_an_agent_of_1_0_are_not_concerned() -> None:
    probe = old_probe(status(final=True), status())
    async with served(probe) as agent, bridged(agent.candidate("1.0")) as front, caller(front) as client:
        events = await events_of(client.send_streaming_message(REQUEST))
    assert [event.WhichOneof("payload") for event in events] == ["status_update", "status_update"]
