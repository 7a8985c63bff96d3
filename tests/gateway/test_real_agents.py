"""Callers of 1.0 and agents of the 0.3 SDK with a gateway between: the additions of the gateway."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V0_3
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.test_versions import asking, events_of
from tests.patience import PATIENCE
from tests.peers.processes import Agent
from tests.push.version_scene import bridged
from tests.rejections import rejected

pytestmark = [pytest.mark.process, pytest.mark.sdk]

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]
RELEASE = "0.3.26"
everywhere = pytest.mark.parametrize("binding", BINDINGS)
Agents = Callable[..., Agent]


@asynccontextmanager
async def client_of(agents: Agents, binding: str, version: str = "1.0") -> AsyncIterator[Client]:
    upstream = Candidate(interface(binding, agents(RELEASE).url(binding), version="0.3"), V0_3)
    async with bridged(upstream) as front:
        near = front.candidate(version)
        async with find("JSONRPC").dial(
            near.interface, near.dialect, DialOptions(timeout=PATIENCE)
        ) as service:
            yield Client(service)


def payloads(events: list[Any]) -> list[str]:
    return [event.WhichOneof("payload") for event in events]


@everywhere
async def test_streams_begin_with_a_task_and_bring_nothing_twice(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        events = await events_of(
            client.send_streaming_message(asking("script:work;chunk a;chunk b;last c;done"))
        )
        assert payloads(events)[0] == "task"
        assert not events[0].task.artifacts
        chunks = [one.artifact_update for one in events if one.HasField("artifact_update")]
        assert [chunk.artifact.parts[0].text for chunk in chunks] == ["a", "b", "c"]
        assert events[-1].status_update.status.state == hub.TASK_STATE_COMPLETED
        task = await client.get_task(hub.GetTaskRequest(id=events[0].task.id))
        assert [part.text for part in task.artifacts[0].parts] == ["a", "b", "c"]


@everywhere
async def test_streams_of_0_3_are_the_agents_own_with_a_final_event(
    peer_agents: Agents, binding: str
) -> None:
    async with client_of(peer_agents, binding, "0.3") as client:
        for script, state in (
            ("script:work;done", hub.TASK_STATE_COMPLETED),
            ("script:ask", hub.TASK_STATE_INPUT_REQUIRED),
            ("script:work;auth", hub.TASK_STATE_AUTH_REQUIRED),
        ):
            events = await events_of(client.send_streaming_message(asking(script)))
            last = events[-1].status_update
            assert last.status.state == state
            # final by its state, or else by the closing event of the stream
            assert (state == hub.TASK_STATE_AUTH_REQUIRED) is last.HasField("metadata")


@everywhere
async def test_tasks_are_listed(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        scripts = ("script:work;done", "script:ask why", "script:work;fail")
        made = [(await client.send_message(asking(script))).task.id for script in scripts]
        listed = await client.list_tasks(hub.ListTasksRequest())
        assert [task.id for task in listed.tasks] == made[::-1]
        failed = await client.list_tasks(hub.ListTasksRequest(status=hub.TASK_STATE_FAILED))
        assert [task.id for task in failed.tasks] == made[2:]
        await client.send_message(asking("script:done", task_id=made[1]))
        waiting = await client.list_tasks(hub.ListTasksRequest(status=hub.TASK_STATE_INPUT_REQUIRED))
        assert not waiting.tasks


@everywhere
async def test_an_ended_task_cannot_be_subscribed_to(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        task = (await client.send_message(asking("script:work;done"))).task
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await events_of(client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id)))


@everywhere
async def test_subscribers_get_a_task_first_and_then_its_events(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        gate = f"sub {binding}".replace(" ", "-")
        now = hub.SendMessageConfiguration(return_immediately=True)
        begun = asking(f"script:open;work;tick {gate};done")
        begun.configuration.CopyFrom(now)
        task = (await client.send_message(begun)).task
        events = []
        async for event in client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id)):
            events.append(event)
            if len(events) == 3:
                await client.send_message(asking(f"script:free {gate};say ok"))
        assert events[0].task.id == task.id
        assert events[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@everywhere
async def test_push_configs_as_far_as_the_agent_has_them(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        task = (await client.send_message(asking("script:ask"))).task
        config = hub.TaskPushNotificationConfig(task_id=task.id, id="p", url="http://127.0.0.1:9/")
        made = await client.create_task_push_notification_config(config)
        assert (made.task_id, made.id, made.url) == (config.task_id, config.id, config.url)
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task.id, id="p")
        assert (await client.get_task_push_notification_config(asked)).url == config.url
        listing = hub.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="p")
        if binding == "JSONRPC":
            assert len((await client.list_task_push_notification_configs(listing)).configs) == 1
            await client.delete_task_push_notification_config(gone)
            return
        # On other bindings that SDK's agents have neither.
        for call in (
            client.list_task_push_notification_configs(listing),
            client.delete_task_push_notification_config(gone),
        ):
            with pytest.raises(A2AError) as caught:
                await call
            assert caught.value.reason in (Reason.UNSUPPORTED_OPERATION, Reason.INTERNAL_ERROR)
            if binding == "GRPC":
                assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


@everywhere
async def test_history_as_long_as_asked_for(peer_agents: Agents, binding: str) -> None:
    async with client_of(peer_agents, binding) as client:
        task = (await client.send_message(asking("script:work one;ask two"))).task
        assert not (await client.get_task(hub.GetTaskRequest(id=task.id, history_length=0))).history
        assert len((await client.get_task(hub.GetTaskRequest(id=task.id, history_length=1))).history) == 1
        everything = await client.get_task(hub.GetTaskRequest(id=task.id))
        assert len(everything.history) >= 2
