"""Streams of a store that is gone for good end with UNAVAILABLE, like other calls; they are not silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.store_scene import Author
from tests.hosting.scene import request
from tests.limits.scene import BINDINGS, Waiting, agent, peers, served
from tests.patience import PATIENCE


def remove(url: str) -> None:
    Path(url.removeprefix("sqlite:///")).unlink()


def move(path: Path, there: Path) -> None:
    path.rename(there)


async def ended(events: AsyncIterator[Any]) -> Reason:
    """The reason with which a stream ends."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError) as caught:
            async for _ in events:
                pass
    return caught.value.reason


async def test_a_reader_ends_with_its_store(sqlite_url: str) -> None:
    async with open_store(sqlite_url, StoreOptions(ack_timeout=0.1)) as store:
        author = Author(store).begin("task")
        await author.writer.sync()
        subscription = store.subscribe("task", 0)
        async with asyncio.timeout(PATIENCE):
            assert len(await subscription.take()) == author.writer.last
            remove(sqlite_url)
            with pytest.raises(A2AError) as caught:
                await subscription.take()
        assert caught.value.reason is Reason.UNAVAILABLE
        subscription.close()


async def test_readers_stay_while_an_outage_is_short(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    away = path.with_name("away")
    async with open_store(sqlite_url, StoreOptions(ack_timeout=PATIENCE)) as store:
        author = Author(store).begin("task")
        await author.writer.sync()
        subscription = store.subscribe("task", author.writer.last)
        move(path, away)
        async with asyncio.timeout(PATIENCE):
            while store.rejection() is None:  # noqa: ASYNC110  there is no notification
                await asyncio.sleep(0.01)
            author.chunk("x")
            move(away, path)
            assert len(await subscription.take()) == 1
        subscription.close()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_streams_end_over_every_binding(sqlite_url: str, version: str) -> None:
    options = ServeOptions(store=sqlite_url, store_options=StoreOptions(ack_timeout=0.5))
    waiting = Waiting()
    async with served(agent(waiting), options, version=version) as server:
        async with peers(server, version=version) as callers:
            streams = {}
            for kind in BINDINGS:
                events = callers[kind].send_streaming_message(request("wait"))
                async with asyncio.timeout(PATIENCE):
                    first = await anext(events)
                    task_id = first.task.id or first.status_update.task_id
                    other = callers[kind].subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id))
                    await anext(other)
                streams[kind] = (events, other)
            remove(sqlite_url)
            for kind, both in streams.items():
                for events in both:
                    assert await ended(events) is Reason.UNAVAILABLE, kind
        waiting.go.set()
