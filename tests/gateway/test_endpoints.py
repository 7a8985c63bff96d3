"""Several endpoints of one agent: where calls go, and what happens when one is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cards.select import Candidate, select
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.destinations import with_endpoints
from a2a_bridge.gateway.failover import Affinity
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import Upstream
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS


class Named:
    """Answers with the name of its endpoint; `ask` asks back, `hang` works until it is released."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen = 0
        self.release = asyncio.Event()
        self.hanging = asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.seen += 1
        if run.text == "ask" and run.task is None:
            yield run.status("input-required", "which?")
            return
        if run.text == "hang":
            yield run.status("working")
            self.hanging.set()
            await self.release.wait()
        yield run.artifact(self.name)
        yield run.status("completed")


class Scene:
    """Three endpoints that do not share their tasks, and a gateway in front of them."""

    def __init__(self, agents: list[Named], servers: list[Server], gateway: Server) -> None:
        self.agents, self.servers, self.gateway = agents, servers, gateway

    @property
    def seen(self) -> list[int]:
        return [one.seen for one in self.agents]


def address(server: Server, binding: str) -> str:
    return f"{server.grpc}" if binding == "GRPC" else f"http://{server.http}"


@asynccontextmanager
async def scene(binding: str = "JSONRPC", version: str = "1.0", **options: Any) -> AsyncIterator[Scene]:
    agents = [Named(f"agent-{number}") for number in range(3)]
    async with AsyncExitStack() as stack:
        servers = []
        for one in agents:
            serving = serve(
                Agent(one, name="named"), [interface(binding, version=version)], options=ServeOptions(grace=0)
            )
            servers.append(await stack.enter_async_context(serving))
        upstream = UpstreamOptions(
            endpoints=tuple(address(one, binding) for one in servers[1:]), retries=0, **options
        )
        card = servers[0].card
        gateway = await stack.enter_async_context(
            serve_gateway(
                card,
                select(card, known=BINDINGS),
                options=ServeOptions(grace=0, upstream=upstream),
                dial_options=DialOptions(timeout=None),
            )
        )
        yield Scene(agents, servers, gateway)
        for one in agents:
            one.release.set()


async def hung(peer: Peer) -> asyncio.Task[Any]:
    return asyncio.create_task(peer.send("hang"))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_new_work_goes_to_the_endpoint_with_the_fewest_calls(binding: str) -> None:
    async with scene(binding) as there, connect(there.gateway.card) as peer:
        running = []
        for expected in ([1, 0, 0], [1, 1, 0], [1, 1, 1]):
            running.append(await hung(peer))
            async with asyncio.timeout(PATIENCE):
                await there.agents[expected.index(0) - 1 if 0 in expected else 2].hanging.wait()
            assert there.seen == expected
        for one in there.agents:
            one.release.set()
        answers = {(await one).text for one in running}
    assert answers == {"agent-0", "agent-1", "agent-2"}


async def test_open_streams_count_as_running_calls() -> None:
    async with (
        scene() as there,
        connect(there.gateway.card) as peer,
        aclosing(peer.stream_text("hang")) as stream,
    ):
        reading = asyncio.create_task(anext(stream))
        async with asyncio.timeout(PATIENCE):
            await there.agents[0].hanging.wait()
        assert (await peer.send("hi")).text == "agent-1"
        there.agents[0].release.set()
        assert await reading == "agent-0"


@each("binding", BINDINGS)
@each("front", BINDINGS)
async def test_calls_about_a_task_go_where_it_is(binding: str, front: str) -> None:
    async with scene(binding) as there, connect(there.gateway.card, binding=front) as peer:
        occupied = await hung(peer)
        async with asyncio.timeout(PATIENCE):
            await there.agents[0].hanging.wait()
        asked = (await peer.send("ask")).task
        assert asked is not None
        assert there.seen == [1, 1, 0]
        there.agents[0].release.set()
        await occupied
        # The first endpoint is idle again, and knows nothing of the task.
        for _ in range(3):
            assert (await peer.get_task(hub.GetTaskRequest(id=asked.id))).id == asked.id
        message = hub.Message(
            message_id="2", role=hub.ROLE_USER, task_id=asked.id, parts=[hub.Part(text="that one")]
        )
        answer = await peer.send_message(hub.SendMessageRequest(message=message))
        assert answer.task.artifacts[0].parts[0].text == "agent-1"
        # So do new messages of its context.
        later = hub.Message(
            message_id="3", role=hub.ROLE_USER, context_id=asked.context_id, parts=[hub.Part(text="more")]
        )
        answer = await peer.send_message(hub.SendMessageRequest(message=later))
        assert answer.task.artifacts[0].parts[0].text == "agent-1"
        assert there.seen == [1, 3, 0]


async def test_each_endpoint_of_an_older_agent_lists_its_own_tasks() -> None:
    async with scene(version="0.3") as there, connect(there.gateway.card) as peer:
        first = (await peer.send("ask")).task
        occupied = await hung(peer)
        async with asyncio.timeout(PATIENCE):
            await there.agents[0].hanging.wait()
        second = (await peer.send("ask")).task
        assert first is not None
        assert second is not None
        assert there.seen == [2, 1, 0]

        async def listed() -> set[str]:
            return {one.id for one in (await peer.list_tasks(hub.ListTasksRequest())).tasks}

        assert await listed() == {second.id}  # of the idle endpoint
        there.agents[0].release.set()
        await occupied
        there.agents[0].hanging.clear()
        there.agents[0].release.clear()
        assert first.id in await listed()
        again = await hung(peer)
        async with asyncio.timeout(PATIENCE):
            await there.agents[0].hanging.wait()
        # The first endpoint does not know it; that has not made the gateway forget it.
        assert await listed() == {second.id}
        there.agents[0].release.set()
        await again


async def test_without_affinity_any_endpoint_is_asked() -> None:
    async with scene(affinity=False) as there, connect(there.gateway.card) as peer:
        occupied = await hung(peer)
        async with asyncio.timeout(PATIENCE):
            await there.agents[0].hanging.wait()
        asked = (await peer.send("ask")).task
        assert asked is not None
        there.agents[0].release.set()
        await occupied
        with pytest.raises(A2AError) as failed:
            await peer.get_task(hub.GetTaskRequest(id=asked.id))
    assert failed.value.reason is Reason.TASK_NOT_FOUND


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_endpoint_that_dies_is_left_out_and_comes_back(binding: str) -> None:
    async with scene(binding) as there, connect(there.gateway.card) as peer:
        task = (await peer.send("ask")).task
        assert task is not None
        place = there.servers[0].grpc if binding == "GRPC" else there.servers[0].http
        await there.servers[0].drain(0)
        for _ in range(10):
            assert (await peer.send("hi")).text in ("agent-1", "agent-2")
        assert there.seen[0] == 1
        # Its task is not gone: others only do not know it.
        with rejected(Reason.UNAVAILABLE) as failed:
            await peer.get_task(hub.GetTaskRequest(id=task.id))
        assert failed.value.message == "the agent behind this address cannot be reached"
        assert place is not None
        again = Named("again")
        options = ServeOptions(
            grace=0, http=ListenAddress(port=place.port), grpc=ListenAddress(port=place.port)
        )
        async with serve(Agent(again, name="named"), [interface(binding)], options=options):
            async with asyncio.timeout(PATIENCE):
                while not again.seen:
                    # A task that it had before asks it first.
                    with pytest.raises(A2AError):
                        await peer.get_task(hub.GetTaskRequest(id=task.id))
                    running = [await hung(peer) for _ in range(3)]
                    for one in (*there.agents, again):
                        one.release.set()
                    await asyncio.gather(*running)


def test_endpoints_are_the_interfaces_at_other_addresses() -> None:
    card = hub.AgentCard(
        supported_interfaces=[
            interface("JSONRPC", "http://a:1/rpc"),
            interface("GRPC", "a:2"),
            interface("HTTP+JSON", "http://a:1"),
        ]
    )
    candidates = select(card, known=BINDINGS)
    found = with_endpoints(candidates, ["http://b:1/base", "https://c", "d:9", "http://a:1"])
    assert [(rank, one.interface.url) for rank, one in found] == [
        (0, "http://a:1/rpc"),
        (0, "http://b:1/rpc"),
        (0, "https://c/rpc"),
        (1, "a:2"),
        (1, "b:2"),
        (1, "c:2"),
        (1, "d:9"),
        (2, "http://a:1"),
        (2, "http://b:1/base"),
        (2, "https://c"),
    ]
    assert all(one.credentials and one.resolve is None for _, one in found)


@pytest.mark.parametrize(
    ("endpoint", "problem"), [("nothing", "neither"), ("ftp://a", "neither"), ("d:9", "fits none")]
)
def test_an_endpoint_that_fits_nothing_is_rejected(endpoint: str, problem: str) -> None:
    candidates = [Candidate(interface("JSONRPC", "http://a:1"), V1_0)]
    with pytest.raises(ValueError, match=problem):
        with_endpoints(candidates, [endpoint])


def test_affinity_knows_the_ids_of_every_operation_and_forgets() -> None:
    upstream = Upstream(Candidate(interface("JSONRPC", "http://a:1"), V1_0), DialOptions())
    tasks = Tasks(most=4)
    affinity = Affinity(tasks)

    def home(operation: Any, **members: Any) -> tuple[Upstream | None, bool]:
        return affinity.home(Call(operation, operation.request(**members), CallContext()))

    def learn(answer: Any) -> None:
        affinity.learn(Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), CallContext()), answer, upstream)

    learn(hub.SendMessageResponse(task=hub.Task(id="t", context_id="c")))
    known = (upstream, True)
    for operation in (ops.GET_TASK, ops.CANCEL_TASK, ops.SUBSCRIBE_TO_TASK):
        assert home(operation, id="t") == known
    for operation in (
        ops.CREATE_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS,
        ops.DELETE_PUSH_CONFIG,
    ):
        assert home(operation, task_id="t") == known
    for operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
        assert home(operation, message=hub.Message(task_id="t")) == known
        assert home(operation, message=hub.Message(context_id="c")) == (upstream, False)
        assert home(operation, message=hub.Message()) == (None, False)
    assert home(ops.LIST_TASKS) == (None, False)
    update = hub.TaskStatusUpdateEvent(task_id="u", context_id="d")
    learn(hub.StreamResponse(status_update=update))
    learn(hub.SendMessageResponse(message=hub.Message(context_id="e")))
    learn(hub.Task(id="v", context_id="e"))
    learn(None)
    assert home(ops.GET_TASK, id="u") == home(ops.GET_TASK, id="v") == known
    assert home(ops.GET_TASK, id="t") == (None, False)
    assert (tasks.list_of(Scope()), tasks.context_of(Scope(), "v")) == ([], "")


def test_tenants_may_have_tasks_with_the_same_ids() -> None:
    one, other = (
        Upstream(Candidate(interface("JSONRPC", url), V1_0), DialOptions())
        for url in ("http://a:1", "http://b:1")
    )
    affinity = Affinity(Tasks())
    for tenant, upstream in (("x", one), ("y", other)):
        call = Call(ops.SEND_MESSAGE, hub.SendMessageRequest(tenant=tenant), CallContext())
        affinity.learn(call, hub.Task(id="1", context_id="c"), upstream)
    for tenant, upstream in (("x", one), ("y", other)):
        asked = Call(ops.GET_TASK, hub.GetTaskRequest(id="1", tenant=tenant), CallContext())
        assert affinity.home(asked) == (upstream, True)
