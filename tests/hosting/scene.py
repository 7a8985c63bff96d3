"""The fixtures of the tests of hosting: an agent on an engine, its callers, and short names for answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting import Agent, Engine, Run
from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope, Store
from tests.patience import PATIENCE

SUBMITTED = hub.TASK_STATE_SUBMITTED
WORKING = hub.TASK_STATE_WORKING
INPUT = hub.TASK_STATE_INPUT_REQUIRED
AUTH = hub.TASK_STATE_AUTH_REQUIRED
COMPLETED = hub.TASK_STATE_COMPLETED
FAILED = hub.TASK_STATE_FAILED
CANCELED = hub.TASK_STATE_CANCELED
REJECTED = hub.TASK_STATE_REJECTED

ALICE = CallContext(principal=Principal("alice"))
BOB = CallContext(principal=Principal("bob"))


class Plays:
    """An executor made of a function, and `cancel` of another function, if there is one."""

    def __init__(
        self,
        execute: Callable[[Run], AsyncIterator[Event]],
        cancel: Callable[[Run], AsyncIterator[Event]] | None = None,
    ) -> None:
        self.execute = execute
        if cancel is not None:
            self.cancel = cancel


class Gate:
    """Two points in time that a test and an executor agree on."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._open = asyncio.Event()

    async def wait(self) -> None:
        """For the executor: reports that it has arrived, and waits."""
        self._reached.set()
        async with asyncio.timeout(PATIENCE):
            await self._open.wait()

    async def reached(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._reached.wait()

    def open(self) -> None:
        self._open.set()


class Talk:
    """Calls an agent through the service interface, with a time limit for each step."""

    def __init__(
        self,
        agent: Agent,
        *,
        store: Store | None = None,
        push_sender: Any = None,
        clock: Any = None,
        **options: Any,
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.engine = Engine(
            agent, store=self.store, options=EngineOptions(**options), push_sender=push_sender, clock=clock
        )
        self.client = Client(self.engine.service)

    async def send(self, text: str = "", *, context: CallContext | None = None, **members: Any) -> Any:
        async with asyncio.timeout(PATIENCE):
            answer = await self.client.send_message(request(text, **members), context)
        return getattr(answer, answer.WhichOneof("payload"))

    async def stream(
        self, text: str = "", *, context: CallContext | None = None, **members: Any
    ) -> list[Any]:
        return [one async for one in self.events(text, context=context, **members)]

    async def events(
        self, text: str = "", *, context: CallContext | None = None, **members: Any
    ) -> AsyncIterator[Any]:
        async with aclosing(self.client.send_streaming_message(request(text, **members), context)) as events:
            async for one in _bounded(events):
                yield one

    async def subscribe(self, task_id: str, context: CallContext | None = None) -> AsyncIterator[Any]:
        asked = hub.SubscribeToTaskRequest(id=task_id)
        async with aclosing(self.client.subscribe_to_task(asked, context)) as events:
            async for one in _bounded(events):
                yield one

    async def get(self, task_id: str, *, context: CallContext | None = None, **members: Any) -> hub.Task:
        async with asyncio.timeout(PATIENCE):
            return await self.client.get_task(hub.GetTaskRequest(id=task_id, **members), context)

    async def list(self, *, context: CallContext | None = None, **members: Any) -> hub.ListTasksResponse:
        async with asyncio.timeout(PATIENCE):
            return await self.client.list_tasks(hub.ListTasksRequest(**members), context)

    async def cancel(self, task_id: str, *, context: CallContext | None = None, **members: Any) -> hub.Task:
        async with asyncio.timeout(PATIENCE):
            return await self.client.cancel_task(hub.CancelTaskRequest(id=task_id, **members), context)

    async def rest(self) -> None:
        """Returns when no task is live any more."""
        async with asyncio.timeout(PATIENCE):
            while self.engine.live:  # noqa: ASYNC110  the engine sends no notification
                await asyncio.sleep(0)

    async def close(self, grace: float = 0) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.engine.close(grace)


async def _bounded(events: Any) -> AsyncIterator[Any]:
    while True:
        async with asyncio.timeout(PATIENCE):
            try:
                one = await anext(events)
            except StopAsyncIteration:
                return
        yield getattr(one, one.WhichOneof("payload"))


def request(text: str = "", **members: Any) -> hub.SendMessageRequest:
    """A request with a text. `configuration` and `metadata` belong to the request, all else to the message."""
    outer = {name: members.pop(name) for name in ("configuration", "metadata", "tenant") if name in members}
    members.setdefault("message_id", "m-1")
    parts = members.pop("parts", None) or [hub.Part(text=text)]
    message = hub.Message(role=hub.ROLE_USER, parts=parts, **members)
    return hub.SendMessageRequest(message=message, **outer)


async def stored(store: Store, scope: Scope, task: hub.Task) -> None:
    """Stores a task that no process works on."""
    writer = store.create(scope, task.id, lambda: None)
    writer.append(hub.StreamResponse(task=task), task)
    await writer.sync()
    writer.release()


IMMEDIATELY = hub.SendMessageConfiguration(return_immediately=True)


def agent_of(execute: Callable[[Run], AsyncIterator[Event]], cancel: Any = None, **members: Any) -> Agent:
    """An agent that yields the events of a function."""
    return Agent(Plays(execute, cancel), **{"name": "test"} | members)


def gated(gate: Gate) -> Agent:
    """An agent that works until a gate is opened."""

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        await gate.wait()
        yield run.status("completed")

    return agent_of(execute)


def shape(event: Any) -> Any:
    """An event in short: a state, the text of a piece of an artifact, or the text of a message."""
    match event:
        case hub.Task():
            return ("task", event.status.state)
        case hub.TaskStatusUpdateEvent():
            return event.status.state
        case hub.TaskArtifactUpdateEvent():
            return "".join(part.text for part in event.artifact.parts)
    return ("message", event.parts[0].text)


def shapes(events: list[Any]) -> list[Any]:
    return [shape(event) for event in events]
