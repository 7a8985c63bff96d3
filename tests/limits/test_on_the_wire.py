"""Each limit over each binding: the same error, and room again once a call has ended."""

import asyncio
from contextlib import aclosing
from itertools import count
from typing import Any

import aiohttp
import pytest

from a2a_bridge import A2AError, Reason
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.middleware import Limits
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.limits.scene import PATIENCE, Waiting, agent, first_event, named, peers, rejected, served

#: message ids
NUMBERS = count()


async def test_a_request_has_so_many_bytes() -> None:
    options = ServeOptions(host=HostOptions(max_body=4096))
    async with served(agent(Waiting()), options) as server, peers(server) as callers:
        error = await rejected(callers, lambda peer: peer.send("x" * 8192))
        assert error.reason is Reason.REQUEST_TOO_LARGE
        for peer in callers.values():
            assert (await peer.send("y")).text == "y"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_message_has_so_many_parts(version: str) -> None:
    options = ServeOptions(limits=Limits(parts=3))
    async with (
        served(agent(Waiting()), options, version=version) as server,
        peers(server, version=version) as callers,
    ):
        error = await rejected(callers, lambda peer: peer.send(*"abcd"))
        assert error.reason is Reason.INVALID_PARAMS
        if version == "1.0":
            assert [one.field for one in error.violations] == ["message.parts"]
        for peer in callers.values():
            assert (await peer.send("x", "y", "z")).message is not None


async def test_a_principal_has_so_many_streams() -> None:
    executor = Waiting()
    options = ServeOptions(limits=Limits(streams=2), middleware=(named,))
    async with (
        served(agent(executor), options) as server,
        peers(server, name="alice") as alice,
        peers(server, name="bob") as bob,
    ):
        async with aclosing(alice["GRPC"].stream("wait")) as one:
            await first_event(one)
            async with aclosing(alice["JSONRPC"].stream("wait")) as other:
                await first_event(other)
                error = await rejected(alice, _streamed)
                assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
                # Other callers have their own allowance, and calls are no streams.
                async with aclosing(bob["HTTP+JSON"].stream("wait")) as third:
                    await first_event(third)
                assert (await alice["JSONRPC"].send("x")).text == "x"
                executor.go.set()
                await _read(other)
            await _read(one)
        await _read(alice["HTTP+JSON"].stream("x"))


async def test_callers_without_a_name_share_their_streams() -> None:
    executor = Waiting()
    options = ServeOptions(limits=Limits(streams=1))
    async with (
        served(agent(executor), options) as server,
        peers(server) as some,
        peers(server) as others,
        aclosing(some["JSONRPC"].stream("wait")) as one,
    ):
        await first_event(one)
        error = await rejected(others, _streamed)
        assert error.reason is Reason.RESOURCE_EXHAUSTED
        executor.go.set()
        await _read(one)


async def test_a_principal_has_so_many_calls() -> None:
    executor = Waiting()
    options = ServeOptions(limits=Limits(calls=1))
    async with served(agent(executor), options) as server, peers(server) as callers:
        task = await _begun(callers["JSONRPC"])
        waiting = asyncio.create_task(callers["GRPC"].send("wait"))
        await _until_rejected(callers["JSONRPC"], task.id)
        error = await rejected(callers, lambda peer: peer.send("x"))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        executor.go.set()
        assert (await asyncio.wait_for(waiting, PATIENCE)).state == "completed"
        assert (await callers["HTTP+JSON"].send("x")).text == "x"


async def test_a_principal_has_so_many_tasks_at_work() -> None:
    executor = Waiting()
    options = ServeOptions(engine=EngineOptions(tasks=2), middleware=(named,))
    async with (
        served(agent(executor), options) as server,
        peers(server, name="alice") as alice,
        peers(server, name="bob") as bob,
    ):
        first = await _begun(alice["JSONRPC"])
        second = await _begun(alice["GRPC"])
        error = await rejected(alice, lambda peer: peer.send("wait"))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        error = await rejected(alice, _streamed)
        assert error.reason is Reason.RESOURCE_EXHAUSTED
        await _begun(bob["GRPC"])
        assert (await alice["JSONRPC"].get_task(hub.GetTaskRequest(id=first.id))).id == first.id
        # A task that is canceled makes room, and one that only waits for its caller takes none.
        await alice["HTTP+JSON"].cancel_task(hub.CancelTaskRequest(id=second.id))
        assert (await alice["HTTP+JSON"].send("ask")).state == "input-required"
        assert (await alice["HTTP+JSON"].send("ask")).state == "input-required"
        executor.go.set()


async def _begun_for(peer: Peer, tenant: str) -> str:
    """The id of a new task at work for a tenant."""
    message = hub.Message(message_id=f"m-{next(NUMBERS)}", role=hub.ROLE_USER, parts=[hub.Part(text="wait")])
    request = hub.SendMessageRequest(tenant=tenant, message=message)
    request.configuration.return_immediately = True
    async with asyncio.timeout(PATIENCE):
        return (await peer.send_message(request)).task.id


@pytest.mark.parametrize("name", ["alice", ""])
async def test_other_tenants_give_a_principal_no_further_tasks(name: str) -> None:
    executor = Waiting()
    options = ServeOptions(engine=EngineOptions(tasks=2), middleware=(named,))
    async with (
        served(agent(executor), options) as server,
        peers(server, name=name) as callers,
        peers(server, name="bob") as others,
    ):
        first = await _begun_for(callers["JSONRPC"], "t0")
        await _begun_for(callers["GRPC"], "t1")
        for tenant in ("t0", "t2", "x0", ""):
            error = await rejected(callers, lambda peer, tenant=tenant: _begun_for(peer, tenant))
            assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        await _begun_for(others["GRPC"], "t0")
        await callers["JSONRPC"].cancel_task(hub.CancelTaskRequest(tenant="t0", id=first))
        await _begun_for(callers["HTTP+JSON"], "t2")
        executor.go.set()


async def test_a_tenant_has_so_many_tasks_at_work() -> None:
    executor = Waiting()
    options = ServeOptions(engine=EngineOptions(tenant_tasks=2), middleware=(named,))
    async with (
        served(agent(executor), options) as server,
        peers(server, name="alice") as alice,
        peers(server, name="bob") as bob,
    ):
        first = await _begun_for(alice["JSONRPC"], "t")
        await _begun_for(bob["GRPC"], "t")
        error = await rejected(alice, lambda peer: _begun_for(peer, "t"))
        assert (error.reason, error.message) == (
            Reason.RESOURCE_EXHAUSTED,
            "more than 2 tasks are being worked on for this tenant",
        )
        for tenant in ("other", "", "", ""):
            await _begun_for(alice["HTTP+JSON"], tenant)
        await alice["JSONRPC"].cancel_task(hub.CancelTaskRequest(tenant="t", id=first))
        await _begun_for(bob["HTTP+JSON"], "t")
        executor.go.set()


async def test_so_many_messages_wait_for_a_task() -> None:
    executor = Waiting()
    options = ServeOptions(engine=EngineOptions(queue=1))
    async with served(agent(executor), options) as server, peers(server) as callers:
        task = await _begun(callers["JSONRPC"])
        await callers["GRPC"].send("x", task=task, return_immediately=True)
        error = await rejected(callers, lambda peer: peer.send("y", task=task, return_immediately=True))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        found = await callers["JSONRPC"].get_task(hub.GetTaskRequest(id=task.id))
        assert [_text(one) for one in found.history] == ["wait", "x"]
        executor.go.set()


async def test_a_task_has_so_many_messages() -> None:
    options = ServeOptions(engine=EngineOptions(history=3))
    async with served(agent(Waiting()), options) as server, peers(server) as callers:
        task = (await callers["GRPC"].send("ask")).task
        assert task is not None
        task = (await callers["GRPC"].send("ask", task=task)).task
        assert task is not None
        before = await callers["GRPC"].get_task(hub.GetTaskRequest(id=task.id))
        assert len(before.history) == 3
        error = await rejected(callers, lambda peer: peer.send("ask", task=task))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, None)
        # Nothing is truncated, and nothing of the rejected request is kept.
        assert await callers["GRPC"].get_task(hub.GetTaskRequest(id=task.id)) == before
        assert (await callers["GRPC"].send("ask", context_id=task.context_id)).state == "input-required"


async def test_intermediaries_see_the_status_of_an_error() -> None:
    executor = Waiting()
    options = ServeOptions(limits=Limits(streams=1))
    async with (
        served(agent(executor), options) as server,
        peers(server) as callers,
        aclosing(callers["GRPC"].stream("wait")) as one,
        aiohttp.ClientSession(headers={"A2A-Version": "1.0"}) as http,
    ):
        await first_event(one)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        frame = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
        for path, body in (("/", frame), ("/message:stream", {"message": message})):
            async with http.post(f"http://{server.http}{path}", json=body) as reply:
                assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        executor.go.set()
        await _read(one)


# --- the forms of a call ---
async def _streamed(peer: Peer) -> None:
    await _read(peer.stream("x"))


async def _read(events: Any) -> None:
    async with asyncio.timeout(PATIENCE), aclosing(events):
        async for _ in events:
            pass


async def _begun(peer: Peer) -> hub.Task:
    task = (await peer.send("wait", return_immediately=True)).task
    assert task is not None
    return task


async def _until_rejected(peer: Peer, task_id: str) -> None:
    """Returns once the other call has arrived."""
    async with asyncio.timeout(PATIENCE):
        while (error := await _error_of(peer, task_id)) is None:
            pass
    assert error.reason is Reason.RESOURCE_EXHAUSTED


async def _error_of(peer: Peer, task_id: str) -> A2AError | None:
    try:
        await peer.get_task(hub.GetTaskRequest(id=task_id))
    except A2AError as error:
        return error
    return None


def _text(message: hub.Message) -> str:
    return "".join(part.text for part in message.parts)
