"""Dimensions of several replicas on one PostgreSQL, which is not in the measured process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.ext import hub
from a2a_bridge.stores.records import Expiry
from a2a_bridge.stores.sql.store import open_sql_store
from benchmarks.databases import POSTGRESQL, Databases, with_tables
from benchmarks.processes import Cores
from benchmarks.scale.dimension import Dimension, Window
from benchmarks.scale.hosted import TIMES, Made, options
from benchmarks.scale.kept import fill

#: how many replicas delete at the same time
DELETING = 4
#: seconds, of what does not expire
_LONG = 1e9


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """A database with our tables."""
    with Databases(Cores(None, None, None)) as databases:
        url = await asyncio.to_thread(databases.url, POSTGRESQL)
        await asyncio.to_thread(with_tables, url)
        yield url


@asynccontextmanager
async def replicas(size: int, /) -> AsyncIterator[list[str]]:
    """So many replicas of an agent."""
    async with database() as store, AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                serve(Agent(Made(), name="Made"), [interface("JSONRPC")], options(store=store))
            )
            for _ in range(size)
        ]
        yield [f"http://{one.http}" for one in servers]


async def tasks_elsewhere(urls: list[str], _size: int, window: Window) -> None:
    """Tasks of all replicas in turn, each read at the next replica."""
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(connect(url)) for url in urls]

        async def once(number: int) -> None:
            task = (await peers[number % len(peers)].send("artifacts 1")).task
            assert task is not None
            found = await peers[(number + 1) % len(peers)].get_task(hub.GetTaskRequest(id=task.id))
            assert len(found.artifacts) == 1

        for number in range(len(peers)):
            await once(number)
        async with window():
            for number in range(TIMES):
                await once(number)


@asynccontextmanager
async def expired(size: int, /) -> AsyncIterator[str]:
    """Replicas with so many logs that have expired. A request has all of them delete at once."""
    async with database() as url, AsyncExitStack() as stack:
        keeping = StoreOptions(events_kept=_LONG)
        stores = [await stack.enter_async_context(open_sql_store(url, keeping)) for _ in range(DELETING)]
        await fill(stores[0], size)

        async def delete(_: web.Request) -> web.Response:
            due = Expiry(sends=_LONG, events=-1.0, tasks=None)
            await asyncio.gather(*(one.delete_expired(due) for one in stores))
            return web.Response()

        application = web.Application()
        application.router.add_post("/", delete)
        server = TestServer(application)
        await server.start_server()
        stack.push_async_callback(server.close)
        yield str(server.make_url("/"))


async def deletions(url: str, _size: int, window: Window) -> None:
    """A round of all replicas."""
    async with aiohttp.ClientSession() as session, window(), session.post(url) as response:
        assert response.status == 200, await response.text()


ROWS = (
    Dimension(
        "replicas on PostgreSQL", f"{TIMES} tasks, each read elsewhere", (2, 4, 8), 0.0,
        replicas, tasks_elsewhere, small=(2, 6),
    ),
    Dimension(
        "expired logs on PostgreSQL", f"{DELETING} replicas delete at once", (1_000, 3_000, 9_000), 1.0,
        expired, deletions,
    ),
)  # fmt: skip
