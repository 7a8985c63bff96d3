"""Pages of large tasks are read by gRPC clients with default settings, which accept 4 MiB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest

from a2a_bridge import Run
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.hosting.scene import request
from tests.limits.scene import BINDINGS, agent, peers, served
from tests.patience import PATIENCE

SIZE = 1_500_000
COUNT = 6

Read = Callable[[hub.ListTasksRequest], Awaitable[hub.ListTasksResponse]]


class Large:
    """Completes tasks with a large artifact, whose size does not depend on the message."""

    async def execute(self, run: Run) -> AsyncIterator[object]:
        yield run.artifact("x" * SIZE)
        yield run.status("completed")


async def read(one: Read) -> list[list[str]]:
    """The ids of all tasks, by pages."""
    found, token = [], ""
    async with asyncio.timeout(PATIENCE):
        while True:
            page = await one(hub.ListTasksRequest(include_artifacts=True, page_token=token))
            assert page.page_size == len(page.tasks)
            assert page.total_size == COUNT
            assert all(len(task.artifacts[0].parts[0].text) == SIZE for task in page.tasks)
            found.append([task.id for task in page.tasks])
            token = page.next_page_token
            if not token:
                return found


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_every_task_can_be_read(sqlite_url: str, durable: bool) -> None:
    options = ServeOptions(store=sqlite_url if durable else None)
    async with served(agent(Large()), options) as server, peers(server) as callers:
        send = callers["JSONRPC"].send_message
        sent = [(await send(request("go"))).task.id for _ in range(COUNT)]
        wanted = [[sent[5], sent[4]], [sent[3], sent[2]], [sent[1], sent[0]]]
        for kind in BINDINGS:
            assert await read(callers[kind].list_tasks) == wanted, kind
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            call = channel.unary_unary(
                "/lf.a2a.v1.A2AService/ListTasks",
                request_serializer=hub.ListTasksRequest.SerializeToString,
                response_deserializer=hub.ListTasksResponse.FromString,
            )
            assert await read(call) == wanted
