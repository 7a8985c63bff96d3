"""Slow and leaving readers of a hosted agent's streams, over real sockets. Contents are tested elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from a2a_bridge.core.agent_api import Client
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.scenarios import unique
from tests.equivalence.stack import BINDINGS, Stack, stack
from tests.equivalence.talk import PATIENCE, sending

bindings = pytest.mark.parametrize("binding", BINDINGS)
#: one chunk; more of them than a log of the bus and the sockets' buffers can hold
CHUNK = "x" * 16_384
CHUNKS = 1200


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack() as running:
        yield running


def chunk_texts(events: list[hub.StreamResponse]) -> list[str]:
    """The texts of the artifact updates."""
    return [
        event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")
    ]


@bindings
async def test_a_slow_subscriber_gets_everything_and_delays_no_other(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    script = ("open", f"hold {gate}", f"flood {CHUNKS} {CHUNK}", "done")
    async with asyncio.timeout(3 * PATIENCE):
        sent = await client.send_message(sending(*script, immediately=True))
        slow = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=sent.task.id))
        async with aclosing(slow):
            seen = [await anext(slow)]
            await client.send_message(sending(f"free {gate}", "say freed"))
            # While it does not read, the agent's other callers are served.
            for _ in range(50):
                answer = await client.send_message(sending("say hello"))
                assert answer.message.parts[0].text == "hello"
            seen += [event async for event in slow]
    assert len(chunk_texts(seen)) == CHUNKS
    assert seen[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_who_leaves_a_stream_leaves_the_task_alone(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    async with asyncio.timeout(PATIENCE):
        stream = client.send_streaming_message(sending("open", "work", f"hold {gate}", "chunk a", "done"))
        first = await anext(stream)
        watcher = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=first.task.id))
        async with aclosing(watcher):
            await anext(watcher)
            await stream.aclose()
            await client.send_message(sending(f"free {gate}", "say freed"))
            rest = [event async for event in watcher]
    assert chunk_texts(rest) == ["a"]
    assert rest[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_who_stops_waiting_for_a_task_leaves_it_alone(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    context_id = unique("context")
    async with asyncio.timeout(PATIENCE):
        waiting = asyncio.create_task(
            client.send_message(
                sending("open", f"free {gate}", f"hold {gate}-2", "done", context_id=context_id)
            )
        )
        # The task exists once it has opened the first gate.
        await client.send_message(sending(f"hold {gate}", "say go"))
        waiting.cancel()
        await asyncio.wait({waiting})
        (task,) = (await client.list_tasks(hub.ListTasksRequest(context_id=context_id))).tasks
        watcher = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id))
        async with aclosing(watcher):
            await anext(watcher)
            await client.send_message(sending(f"free {gate}-2", "say freed"))
            rest = [event async for event in watcher]
    assert rest[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_many_subscribers_see_the_same(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    script = ("open", f"hold {gate}", "flood 300 y", "done")
    async with asyncio.timeout(2 * PATIENCE):
        sent = await client.send_message(sending(*script, immediately=True))
        request = hub.SubscribeToTaskRequest(id=sent.task.id)
        streams = [Client(running.ways[way]).subscribe_to_task(request) for way in BINDINGS * 3]
        for stream in streams:
            await anext(stream)
        await client.send_message(sending(f"free {gate}", "say freed"))
        seen = await asyncio.gather(*(_rest(stream) for stream in streams))
    assert len(seen[0]) == 301
    assert all(one == seen[0] for one in seen)


async def _rest(stream: AsyncIterator[hub.StreamResponse]) -> list[hub.StreamResponse]:
    return [event async for event in stream]
