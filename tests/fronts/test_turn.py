"""One turn of a front with its agent: whole artifacts, however they come, and an end of the caller's patience."""

import asyncio

import pytest

from a2a_bridge import connect
from a2a_bridge.app.peer import Peer
from a2a_bridge.core import service as core_service
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.messages import text_part
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, yielding
from a2a_bridge_adapters.fronts import turn
from tests.fronts.desk import At
from tests.fronts.test_openai import chat, client, fronted, user


def _task(*artifacts: tuple[str, str]) -> hub.StreamResponse:
    event = hub.StreamResponse()
    event.task.CopyFrom(hub.Task(id="t", context_id="c", status={"state": hub.TASK_STATE_COMPLETED}))
    for name, text in artifacts:
        event.task.artifacts.add(artifact_id=name).parts.add(text=text)
    return event


def _chunk(text: str) -> hub.StreamResponse:
    update = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=text != "Hello")
    update.artifact.CopyFrom(hub.Artifact(artifact_id="x", parts=[hub.Part(text=text)]))
    return hub.StreamResponse(artifact_update=update)


@pytest.mark.parametrize(
    "said",
    [
        [_task(("x", "Hello"), ("x", " world"))],
        [_task(("", "Hello"), ("", " world"))],
        # a stream that ends with the bare task
        [_chunk("Hello"), _chunk(" world"), _task()],
        [_chunk("Hello"), _chunk(" world"), _task(("x", "Hello world"))],
    ],
)
async def test_artifacts_are_whole(said: list[hub.StreamResponse]) -> None:
    probe = Probe()
    probe.on_stream = yielding(*map(core_service.Event, said))
    card = hub.AgentCard(name="desk", capabilities=hub.AgentCapabilities(streaming=True))
    async with fronted(Peer(probe, card)) as url, client(url) as api:
        assert await chat(api, "x") == "Hello world"
        stream = await api.chat.completions.create(model="desk", messages=[user("x")], stream=True)  # type: ignore[list-item]
        assert "".join([one.choices[0].delta.content or "" async for one in stream]) == "Hello world"


async def test_an_agent_that_always_has_news_does_not_keep_its_caller(desk_at: At) -> None:
    desk, target = desk_at
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[text_part("chatter")])
    async with connect(target) as peer:
        upstream = turn.Upstream(peer)
        async with turn.Turn(upstream, message, CallContext()) as one:
            # The caller is slower than the agent.
            while not one._pending.full():  # noqa: ASYNC110  a queue has no event for this
                await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                await one.next_until(asyncio.get_running_loop().time())
            desk.released.set()
        await upstream.close()
