"""Requests and answers with many small values: rejected alike, and the loop continues meanwhile."""

import asyncio
import io
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest

from a2a_bridge import A2AError, Agent, Reason, Run, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.offload import needs_worker
from a2a_bridge.codec import decoder, dumps, loads
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting import Event
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct, Value
from tests.hosting.scene import request
from tests.limits.scene import BINDINGS, agent, peers, rejected, served
from tests.patience import PATIENCE

ACCEPTED = 60_000
#: CPU seconds that the loop's thread may work between two turns; the aim is 0.05
HOLD = 0.5


class Echo:
    async def execute(self, run: Run) -> AsyncIterator[Any]:
        if run.text == "task":
            yield run.status("working")
            yield run.artifact(*run.parts)
            yield run.status("completed")
        else:
            yield run.reply(*run.parts)


ECHO = Agent(Echo(), name="Echo")


@contextmanager
def no_long_hold() -> Iterator[None]:
    """Fails if this thread computes for long, in CPU time, between two turns of the loop."""
    loop = asyncio.get_running_loop()
    longest, last, handle = 0.0, time.thread_time(), None

    def turn() -> None:
        nonlocal longest, last, handle
        now = time.thread_time()
        longest, last = max(longest, now - last), now
        handle = loop.call_later(0.001, turn)

    turn()
    try:
        yield
    finally:
        if handle is not None:
            handle.cancel()
        longest = max(longest, time.thread_time() - last)
    assert longest < HOLD


def rpc(params: str, method: str = "message/send") -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params.encode())


def message(content: str, version: str, parts: str = "parts") -> str:
    if version == "1.0" or parts == "content":
        return f'{{"message":{{"messageId":"m","role":"ROLE_USER","{parts}":[{{"text":"x"}}],"metadata":{{"x":{content}}}}}}}'
    inner = '"parts":[{"kind":"text","text":"x"}]'
    return f'{{"message":{{"kind":"message","messageId":"m","role":"user",{inner},"metadata":{{"x":{content}}}}}}}'


MANY = "[" + "1.0," * 2_000_000 + "1]"
#: path, version, body of 8 MB
REQUESTS = {
    "1.0 JSONRPC": ("/", "1.0", lambda: rpc(message(MANY, "1.0"), "SendMessage")),
    "0.3 JSONRPC": ("/", "0.3", lambda: rpc(message(MANY, "0.3"))),
    "1.0 HTTP+JSON": ("/message:send", "1.0", lambda: message(MANY, "1.0").encode()),
    "0.3 HTTP+JSON": ("/v1/message:send", "0.3", lambda: message(MANY, "0.3", "content").encode()),
}


@pytest.mark.parametrize("which", REQUESTS)
async def test_a_request_of_millions_of_numbers_costs_next_to_nothing(which: str) -> None:
    path, version, made = REQUESTS[which]
    body = made()
    async with (
        serve(
            ECHO, [interface("JSONRPC", version=version), interface("HTTP+JSON", version=version)]
        ) as server,
        aiohttp.ClientSession(f"http://{server.http}", headers={"A2A-Version": version}) as http,
        asyncio.timeout(PATIENCE),
    ):
        headers = {"Content-Type": "application/json"}
        begun = time.process_time()
        with no_long_hold():
            posted = asyncio.create_task(_posted(http, path, body, headers))
            async with http.get("/livez") as alive:
                assert alive.status == 200
            status, answer = await posted
        spent = time.process_time() - begun
    assert status == 413
    assert "holds more than 100000 values" in str(answer)
    assert "maxValues" in str(answer)
    assert spent < 4  # 0.1 is usual; reading it takes more than 8


async def _posted(http: aiohttp.ClientSession, path: str, body: bytes, headers: Any) -> tuple[int, Any]:
    async with http.post(path, data=io.BytesIO(body), headers=headers) as response:
        return response.status, loads(await response.read())


async def test_a_grpc_request_of_millions_of_values() -> None:
    metadata = Struct(fields={"x": decoder(Value)([1] * 500_000)})
    bodies = {
        "lf.a2a.v1": hub.SendMessageRequest(message=hub.Message(metadata=metadata)).SerializeToString(),
        "a2a.v1": v0.SendMessageRequest(request=v0.Message(metadata=metadata)).SerializeToString(),
    }
    async with (
        serve(ECHO, [interface("GRPC", version=version) for version in ("1.0", "0.3")]) as server,
        grpc.aio.insecure_channel(
            str(server.grpc), options=[("grpc.max_send_message_length", -1)]
        ) as channel,
        asyncio.timeout(PATIENCE),
    ):
        for package, body in bodies.items():
            with no_long_hold(), pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/{package}.A2AService/SendMessage")(body)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "100000 values" in (caught.value.details() or "")


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_accepted_requests_do_not_block_others(version: str) -> None:
    data = decoder(Value)({"x": [float(number % 7) for number in range(ACCEPTED)]})
    part = hub.Part(data=data)
    async with (
        served(ECHO, ServeOptions(), version=version) as server,
        peers(server, version=version) as callers,
    ):
        for peer in callers.values():
            with no_long_hold():
                sent = await peer.send("x", part)
                assert sent.message is not None
                assert sent.message.parts[1].data == data
                task = (await peer.send("task", part)).task
                assert task is not None
                assert task.artifacts[0].parts[1].data == data
                artifacts = [
                    event.artifact_update.artifact
                    async for event in peer.stream("task", part)
                    if event.HasField("artifact_update")
                ]
                assert artifacts[0].parts[1].data == data


async def test_a_limit_below_what_is_decoded_at_once_counts() -> None:
    body = dumps(["x" * 100] * 500)
    for most in (0, 1000):
        assert not await needs_worker(body, most)
    with pytest.raises(A2AError) as caught:
        await needs_worker(body, 400)
    assert caught.value.reason is Reason.REQUEST_TOO_LARGE


@pytest.mark.parametrize("kind", BINDINGS)
async def test_an_answer_may_hold_so_many(kind: str) -> None:
    part = hub.Part(data=decoder(Value)({"x": [1] * 20_000}))
    async with serve(ECHO, [interface(kind)]) as server:
        address = str(server.grpc) if kind == "GRPC" else f"http://{server.http}"
        async with connect(interface(kind, address), options=DialOptions(max_values=10_000)) as peer:
            assert (await peer.send("x")).text == "x"
            with pytest.raises(A2AError, match="holds more than 10000 values") as caught:
                await peer.send("x", part)
            assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
            with pytest.raises(A2AError, match="holds more than 10000 values"):
                async for _ in peer.stream("task", part):
                    pass


# --- How long the names may be that callers give. Databases index them, and cannot in any length ---

#: the longest characters, in an order that no index can make shorter
LONGEST = "".join(random.Random(7).choices([chr(0x1F300 + number) for number in range(512)], k=512))


class Quick:
    async def execute(self, run: Run) -> AsyncIterator[Event]:
        yield run.start()
        yield run.status("completed")


def asking(*, tenant: str = "", **names: Any) -> hub.SendMessageRequest:
    message = hub.Message(role=hub.ROLE_USER, parts=[hub.Part(text="x")], **names)
    return hub.SendMessageRequest(message=message, tenant=tenant)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_names_have_so_many_characters(store: str, request: pytest.FixtureRequest) -> None:
    url = "memory://" if store == "memory" else str(request.getfixturevalue(f"{store}_url"))
    options = ServeOptions(store=url, engine=EngineOptions(idempotent_sends=True))
    fine = asking(message_id=LONGEST, context_id=LONGEST)
    async with served(agent(Quick()), options) as server, peers(server) as callers:
        for field, asked in (
            ("message.messageId", asking(message_id=LONGEST + "x")),
            ("message.contextId", asking(message_id="m", context_id=LONGEST + "x")),
            ("tenant", asking(message_id="m", tenant="t" * 257)),
        ):
            error = await rejected(callers, lambda peer, asked=asked: peer.send_message(asked))  # type: ignore[misc]
            assert error.reason is Reason.INVALID_PARAMS
            assert [one.field for one in error.violations] == [field]
        answers = [await peer.send_message(fine) for peer in callers.values()]
        assert {answer.task.context_id for answer in answers} == {LONGEST}
        assert len({answer.task.id for answer in answers}) == 1


# --- Pages of large tasks are read by gRPC clients with default settings, which accept 4 MiB ---

SIZE = 1_500_000
COUNT = 6

Read = Callable[[hub.ListTasksRequest], Awaitable[hub.ListTasksResponse]]


class Large:
    """Completes tasks with a large artifact, whose size does not depend on the message."""

    async def execute(self, run: Run) -> AsyncIterator[object]:
        yield run.artifact("x" * SIZE)
        yield run.status("completed")


async def read(one: Read) -> list[list[str]]:
    found, token = [], ""
    async with asyncio.timeout(PATIENCE):
        while True:
            page = await one(hub.ListTasksRequest(include_artifacts=True, page_token=token))
            assert (page.page_size, page.total_size) == (len(page.tasks), COUNT)
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
