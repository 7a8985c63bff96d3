"""All readers of a gateway's streams against a model: joins, returns, breaks, evictions, two callers.

Whatever happens between, the events that a reader has got add up to the task as the agent has it, each piece once,
unless a snapshot for a gap has taken their place; and no stream of the agent is open without a reader.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import integers, sampled_from

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.service import Event
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.sharing_scene import Seen, broken, context, folded, numbered, sending
from tests.patience import PATIENCE

#: streams that the gateway keeps
KEPT = 2
OPTIONS = ReplayOptions(tasks=KEPT, events=4, linger=0, pause=0.001, longest_pause=0.002)
ANY = integers(min_value=0, max_value=1000)
ENDED = hub.TASK_STATE_COMPLETED


class Board:
    """Implements Service: an agent with tasks. It gives no ids, and its streams break on request."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[hub.StreamResponse]] = {}
        #: streams that are open, by task
        self.open: dict[str, int] = {}
        #: how often the streams of a task were broken
        self.breaks: dict[str, int] = {}
        #: how many streams have broken
        self.broken = 0
        self._changed = asyncio.Event()

    def add(self, task_id: str, event: hub.StreamResponse) -> None:
        self.tasks[task_id].append(event)
        self._wake()

    def break_off(self, task_id: str) -> None:
        self.breaks[task_id] = self.breaks.get(task_id, 0) + 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def task(self, task_id: str) -> hub.Task:
        return folded(self.tasks[task_id])

    def ended(self, task_id: str) -> bool:
        return self.task(task_id).status.state in TERMINAL

    async def unary(self, call: Call[Any, Any], /) -> Any:
        assert call.operation is ops.GET_TASK
        return self.task(call.request.id)

    async def stream(self, call: Call[Any, Any], /) -> AsyncGenerator[Event, None]:
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            task_id, number = f"t{len(self.tasks)}", 0
            status = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
            self.tasks[task_id] = [
                hub.StreamResponse(task=hub.Task(id=task_id, context_id="c", status=status))
            ]
        else:
            task_id = call.request.id
            if self.ended(task_id):
                raise A2AError(Reason.UNSUPPORTED_OPERATION)
            number = len(self.tasks[task_id])
            yield Event(hub.StreamResponse(task=self.task(task_id)))
        breaks = self.breaks.get(task_id, 0)
        self.open[task_id] = self.open.get(task_id, 0) + 1
        try:
            while True:
                while number < len(self.tasks[task_id]):
                    number += 1
                    yield Event(self.tasks[task_id][number - 1])
                if self.ended(task_id):
                    return
                await self._changed.wait()
                if self.breaks.get(task_id, 0) > breaks:
                    self.broken += 1
                    raise broken()
        finally:
            self.open[task_id] -= 1


@dataclass(eq=False)
class Reader:
    """A caller that reads a stream, leaves it, and may come back."""

    owner: str
    task_id: str
    seen: list[Seen] = field(default_factory=list)
    reading: asyncio.Task[None] | None = None

    @property
    def reads(self) -> bool:
        return self.reading is not None and not self.reading.done()


class Readers(RuleBasedStateMachine):
    """Drives the stream sharing of a gateway before such an agent."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.agent = Board()
        self.sharing = StreamSharing(self.agent, OPTIONS)
        self.readers: list[Reader] = []
        self.pieces = 0

    # ------------------------------------------------------------------ means

    def until(self, done: Callable[[], bool]) -> None:
        """Runs the loop until something is so, and then for a few turns."""

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE):
                while not done():  # noqa: ASYNC110  the sharing tells nobody
                    await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    def begin(self, reader: Reader, call: Call[Any, Any]) -> None:
        async def read() -> None:
            async with aclosing(numbered(self.sharing, call)) as events:
                async for one in events:
                    reader.task_id = reader.task_id or one[1].task.id
                    reader.seen.append(one)

        reader.reading = self.loop.create_task(read())
        self.until(lambda: bool(reader.seen) or not reader.reads)

    def is_up_to_date(self, reader: Reader) -> bool:
        return not reader.seen or text_of(reader) == _text(self.agent.task(reader.task_id))

    def settle(self) -> None:
        self.until(lambda: all(self.is_up_to_date(one) for one in self.readers if one.reads))

    def pick(self, number: int, among: list[Any]) -> Any:
        return among[number % len(among)]

    def going(self) -> list[str]:
        return [one for one in self.agent.tasks if not self.agent.ended(one)]

    # ------------------------------------------------------------------ steps

    @rule(owner=sampled_from(["alice", "bob"]))
    def send(self, owner: str) -> None:
        reader = Reader(owner, "")
        self.readers.append(reader)
        self.begin(reader, sending(context(owner=owner)))
        assert reader.task_id

    @precondition(lambda self: self.going())
    @rule(number=ANY, owner=sampled_from(["alice", "bob"]))
    def subscribe(self, number: int, owner: str) -> None:
        reader = Reader(owner, self.pick(number, self.going()))
        self.readers.append(reader)
        self.begin(reader, subscribing(reader.task_id, context(owner=owner)))
        self.settle()

    @precondition(lambda self: any(one.reads for one in self.readers))
    @rule(number=ANY)
    def leave(self, number: int) -> None:
        reader = self.pick(number, [one for one in self.readers if one.reads])
        reader.reading.cancel()
        self.until(lambda: not reader.reads)

    @precondition(lambda self: any(not one.reads and one.seen[-1][0] for one in self.readers))
    @rule(number=ANY)
    def come_back(self, number: int) -> None:
        """After the last event that the reader has got; perhaps the stream was evicted meanwhile."""
        reader = self.pick(number, [one for one in self.readers if not one.reads and one.seen[-1][0]])
        before = len(reader.seen)
        called = context(reader.seen[-1][0], owner=reader.owner)
        self.begin(reader, subscribing(reader.task_id, called))
        if not reader.reads and reader.reading is not None and (error := reader.reading.exception()):
            assert isinstance(error, A2AError)
            assert error.reason is Reason.UNSUPPORTED_OPERATION
            assert self.agent.ended(reader.task_id)
            assert len(reader.seen) == before
            self.readers.remove(reader)
            return
        if not self.agent.ended(reader.task_id):
            self.settle()

    @precondition(lambda self: self.going())
    @rule(number=ANY)
    def speak(self, number: int) -> None:
        task_id = self.pick(number, self.going())
        self.pieces += 1
        artifact = hub.Artifact(artifact_id="a", parts=[hub.Part(text=f"{self.pieces};")])
        update = hub.TaskArtifactUpdateEvent(task_id=task_id, context_id="c", artifact=artifact, append=True)
        self.agent.add(task_id, hub.StreamResponse(artifact_update=update))
        self.settle()

    @precondition(lambda self: self.going())
    @rule(number=ANY)
    def end(self, number: int) -> None:
        task_id = self.pick(number, self.going())
        status = hub.TaskStatus(state=ENDED)
        update = hub.TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=status)
        self.agent.add(task_id, hub.StreamResponse(status_update=update))
        readers = [one for one in self.readers if one.task_id == task_id and one.reads]
        self.until(lambda: not any(one.reads for one in readers))
        for one in readers:
            assert one.reading is not None
            assert one.reading.exception() is None
            assert folded(event for _, event in one.seen) == self.agent.task(task_id)

    @precondition(lambda self: self.going())
    @rule(number=ANY)
    def break_off(self, number: int) -> None:
        """Kept streams go on after a gap; those that are not kept end with an error."""
        task_id = self.pick(number, self.going())
        readers = [one for one in self.readers if one.task_id == task_id and one.reads]
        broken = self.agent.broken + self.agent.open[task_id]
        self.agent.break_off(task_id)
        self.until(lambda: self.agent.broken == broken)
        # The gateway subscribes again, once for the readers of each caller.
        self.until(lambda: self.agent.open[task_id] >= len({one.owner for one in readers if one.reads}))
        for one in readers:
            if not one.reads:
                assert one.reading is not None
                error = one.reading.exception()
                assert isinstance(error, A2AError)
                assert error.metadata["phase"] == "stream"
                self.readers.remove(one)
        self.settle()

    # ------------------------------------------------------------------ invariants

    @invariant()
    def nobody_reads_another_task(self) -> None:
        for one in self.readers:
            for _, event in one.seen:
                inner = getattr(event, event.WhichOneof("payload") or "")
                assert one.task_id == (inner.id if event.HasField("task") else inner.task_id)

    @invariant()
    def a_stream_of_the_agent_has_a_reader(self) -> None:
        for task_id, count in self.agent.open.items():
            assert count <= sum(one.reads and one.task_id == task_id for one in self.readers)

    @invariant()
    def so_many_streams_are_kept(self) -> None:
        assert len(self.sharing.streams) <= KEPT

    def teardown(self) -> None:
        for one in self.readers:
            if one.reading is not None:
                one.reading.cancel()
        self.until(lambda: not any(one.reads for one in self.readers))
        self.loop.run_until_complete(self.sharing.streams.aclose())
        assert not any(self.agent.open.values())
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
        assert self.errors == []


def text_of(reader: Reader) -> str:
    """What a reader was told, each piece as often as it came; since the last task that it got."""
    told = ""
    for _, event in reader.seen:
        if event.HasField("task"):
            told = _text(event.task)
        elif event.HasField("artifact_update"):
            told += "".join(part.text for part in event.artifact_update.artifact.parts)
    return told


def _text(task: hub.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def subscribing(task_id: str, called: CallContext) -> Call[Any, Any]:
    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), called)


TestReaders = Readers.TestCase
TestReaders.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
