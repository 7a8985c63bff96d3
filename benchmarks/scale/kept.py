"""Dimensions of what is kept: tasks in a store, their webhooks, and the events that a reader gets later."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from aiohttp import web
from aiohttp.test_utils import TestServer

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.ext import hub
from a2a_bridge.push import PushOptions
from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import Store, ignore_loss
from benchmarks.scale.dimension import Dimension, Window
from benchmarks.scale.hosted import Made, options
from benchmarks.scale.hosted import agent as agent_server

PAGES = 50
#: of every third task
CONTEXT = "one of three"


@asynccontextmanager
async def store(_size: int, /, *, sqlite: bool) -> AsyncIterator[Store]:
    """An empty store."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/tasks.db" if sqlite else "memory://"
        async with open_store(url, StoreOptions(max_memory=2**32)) as opened:
            yield opened


async def fill(opened: Store, size: int) -> None:
    """Writes so many tasks that have ended."""
    for number in range(size):
        state = hub.TASK_STATE_COMPLETED if number % 2 else hub.TASK_STATE_FAILED
        task = hub.Task(id=str(uuid4()), context_id=str(uuid4()) if number % 3 else CONTEXT)
        task.status.state = state
        task.status.timestamp.FromNanoseconds(1_700_000_000_000_000_000 + number * 1_000_000)
        task.artifacts.add(artifact_id="a").parts.add(text="It will be sunny.")
        writer = opened.create(Scope(), task.id, ignore_loss)
        writer.append(hub.StreamResponse(task=task), task)
        if number % 500 == 0:
            await writer.sync()
        writer.release()
    await writer.sync()


@asynccontextmanager
async def with_tasks(size: int, /, *, sqlite: bool) -> AsyncIterator[str]:
    """An agent with so many tasks."""
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(store(size, sqlite=sqlite))
        await fill(opened, size)
        given = options(store=opened)
        server = await stack.enter_async_context(
            serve(Agent(Made(), name="Made"), [interface("JSONRPC")], given)
        )
        yield f"http://{server.http}"


@asynccontextmanager
async def pushing(_size: int, /) -> AsyncIterator[str]:
    """An agent that may post to webhooks of this machine, at any port."""
    push = PushOptions(allow=("127.0.0.1",))
    agent = Agent(Made(), name="Made", push_notifications=True)
    async with serve(agent, [interface("JSONRPC")], options(push_options=push)) as server:
        yield f"http://{server.http}"


async def lists(url: str, size: int, window: Window, *, narrow: bool) -> None:
    """The first page, and the pages after it. narrow: of one context and one state."""
    request = hub.ListTasksRequest(page_size=50)
    if narrow:
        request.context_id, request.status = CONTEXT, hub.TASK_STATE_COMPLETED
    expected = len(range(3, size, 6)) if narrow else size
    async with connect(url) as peer:
        await peer.list_tasks(request)
        async with window():
            for number in range(PAGES):
                page = await peer.list_tasks(request)
                assert page.total_size == expected, (page.total_size, expected)
                request.page_token = page.next_page_token if number % 3 else ""


async def webhooks(url: str, size: int, window: Window, *, answers: bool) -> None:
    """So many tasks with a webhook each. answers: False for a receiver that is not there."""
    posted: set[str] = set()
    all_posted = asyncio.Event()

    async def receive(request: web.Request) -> web.Response:
        event = await request.json()
        status = event.get("statusUpdate", {})
        if status.get("status", {}).get("state") == "TASK_STATE_COMPLETED":
            posted.add(status["taskId"])
        if len(posted) == size:
            all_posted.set()
        return web.Response()

    receiver = TestServer(_receiving(receive))
    await receiver.start_server()
    target = str(receiver.make_url("/"))
    if not answers:
        await receiver.close()
    async with connect(url) as peer, window():
        for _ in range(size):
            request = hub.SendMessageRequest()
            request.message.message_id, request.message.role = str(uuid4()), hub.ROLE_USER
            request.message.parts.add(text="artifacts 1")
            request.configuration.task_push_notification_config.url = target
            await peer.send_message(request)
        if answers:
            await all_posted.wait()
    await receiver.close()


def _receiving(handler: Any) -> web.Application:
    application = web.Application()
    application.router.add_post("/", handler)
    return application


async def replay(url: str, size: int, window: Window) -> None:
    """All events of a task that has ended, from the first one on. size: MB of its chunks."""
    async with connect(url) as peer:
        seen = 0
        async for event in peer.stream(f"megabytes {size}"):
            if event.HasField("task"):
                task = event.task.id
        async with window():
            async for event in peer.subscribe(task, after="1"):
                seen += event.HasField("artifact_update")
    assert seen == size, seen


ROWS = (
    *(
        Dimension(
            f"tasks in {'SQLite' if sqlite else 'memory'}", f"{PAGES} pages of {which}",
            (1_000, 6_000, 36_000), 0.0,
            partial(with_tasks, sqlite=sqlite), partial(lists, narrow=narrow), small=(600, 2_400),
        )
        for sqlite in (False, True)
        for narrow, which in ((False, "all"), (True, "one context and state"))
    ),
    Dimension(
        "tasks with a webhook", "each to its end", (300, 1_000, 3_000), 1.0, pushing,
        partial(webhooks, answers=True), small=(20, 80),
    ),
    Dimension(
        "tasks with a webhook that is not there", "each to its end", (1_000, 3_000, 10_000), 1.0, pushing,
        partial(webhooks, answers=False), memory=1.0, small=(20, 80),
    ),
    Dimension(
        "MB of events, in SQLite", "a reader from the first one on", (10, 100, 1_000), 1.0,
        partial(agent_server, sqlite=True), replay, memory=0.3, small=(2, 8),
    ),
)  # fmt: skip
