"""A hosted agent whose task continues on request, on all bindings and versions, behind networks to cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import Server, serve_agent
from a2a_bridge.cards import interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Store
from tests.resume.cutting import PATIENCE, Cutter, cutting
from tests.resume.scene import BINDINGS, Seen, answered, dialling, kind_of, read_on

#: number of events of the agent's task: the task, working, chunks, completed
EVENTS = 7


@dataclass
class Steps:
    """Two events come at once, each further one after a permit. It starts with permits for all."""

    leave: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(10_000))

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        """Working, some chunks of one artifact, completed."""
        yield run.status("working")
        for number in range(EVENTS - 3):
            await self.leave.acquire()
            yield run.artifact(f"part {number}. ", name="text", append=number > 0, artifact_id="text")
        await self.leave.acquire()
        yield run.status("completed")

    def hold_after(self, events: int) -> None:
        """Gives permits for the first so many events of the next task, at least for those that need none."""
        self.leave = asyncio.Semaphore(max(0, events - 2))

    def allow(self, events: int) -> None:
        """Gives permits for so many more events."""
        for _ in range(events):
            self.leave.release()


@dataclass
class Scene:
    """A served agent. near: clients through `cutters`, by binding and version; far: clients without them."""

    steps: Steps
    server: Server
    dial: Callable[[str, Dialect], Any]
    cutters: dict[str, Cutter]

    def cutter(self, binding: str) -> Cutter:
        return self.cutters["GRPC" if binding == "GRPC" else "HTTP"]


@asynccontextmanager
async def served(
    store: Store, dialects: tuple[Dialect, ...] = (V1_0,), agent: Agent | None = None
) -> AsyncIterator[Scene]:
    """The agent over a store. agent: another one than that of `Steps`."""
    steps = Steps()
    agent = agent or Agent(steps, name="steps")
    declared = [
        interface(binding, version=dialect.version)
        for dialect in dialects
        for binding in BINDINGS
        if dialect.form(kind_of(binding)) is not None
    ]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            serve_agent(agent, declared, ServeOptions(store=store, grace=0))
        )
        assert server.http is not None
        assert server.grpc is not None
        cutters = {
            "HTTP": await stack.enter_async_context(cutting(server.http.host, server.http.port)),
            "GRPC": await stack.enter_async_context(cutting(server.grpc.host, server.grpc.port)),
        }

        def dial(binding: str, dialect: Dialect) -> Any:
            return dialling(cutters["GRPC" if binding == "GRPC" else "HTTP"].address, binding, dialect)

        yield Scene(steps, server, dial, cutters)


def sending(text: str = "go") -> Call[Any, Any]:
    """A call that begins a task and streams it."""
    message = hub.Message(message_id=f"m-{text}", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    return Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(message=message), CallContext())


async def begun(service: Service) -> str:
    """Begins a task (again, if the connection broke) without waiting for it; returns its id."""
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="go")])
    configuration = hub.SendMessageConfiguration(return_immediately=True)
    request = hub.SendMessageRequest(message=message, configuration=configuration)
    response = await answered(service, Call(ops.SEND_MESSAGE, request, CallContext()))
    return str(response.task.id)


async def answered_question(service: Service) -> str:
    """A task of ScriptedAgent that asked, was answered and completed, in six events; returns its id."""
    message = hub.Message(message_id="m-1", role=hub.ROLE_USER, parts=[hub.Part(text="input name?")])
    for text in ("Ada", ""):
        request = hub.SendMessageRequest(message=message)
        task = (await answered(service, Call(ops.SEND_MESSAGE, request, CallContext()))).task
        message = hub.Message(
            message_id="m-2",
            role=hub.ROLE_USER,
            parts=[hub.Part(text=text)],
            task_id=task.id,
            context_id=task.context_id,
        )
    return str(task.id)


async def ended(service: Service, task_id: str) -> hub.Task:
    async with asyncio.timeout(PATIENCE):
        while True:
            call = Call(ops.GET_TASK, hub.GetTaskRequest(id=task_id), CallContext())
            task = await answered(service, call)
            if task.status.state in TERMINAL:
                return task
            await asyncio.sleep(0.005)


async def log_of(service: Service, task_id: str) -> list[Seen]:
    """All events of a task that has ended, in one stream: cut streams have to add up to it."""
    events = await read_on(service, task_id, "0")
    assert [one.id for one in events] == [str(number) for number in range(1, EVENTS + 1)]
    return events
