"""All senders and readers of tasks against a model: repeated messages, late joiners, limits, leaving, two callers.

The life of one run is the subject of `test_task_run`. Here the subject is who gets what: each reader has, at its end,
exactly the text that the task had then; a message has one run; a run without a task goes on as long as somebody
waits for it; a caller has at most so many tasks at work, and can always answer its own question.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from

from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting import Engine, Run
from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from tests.hosting.scene import ALICE, BOB, COMPLETED, IMMEDIATELY, INPUT, WORKING, agent_of, request

#: tasks of one caller that may work at once
TASKS = 2
#: turns of the loop after which everything that can happen has happened
TURNS = 60
CALLERS = (ALICE, BOB)
ANY = integers(min_value=0, max_value=1000)


@dataclass(eq=False)
class Asked:
    """A message, with all calls that sent it."""

    caller: CallContext
    request: hub.SendMessageRequest
    #: None while its run has said nothing
    task: "Modelled | None" = None
    calls: "list[Sender]" = field(default_factory=list)
    #: the text of the direct response; None without one
    direct: str | None = None
    working: bool = True
    runs: int = 0


@dataclass(eq=False)
class Modelled:
    """A task."""

    id: str
    caller: CallContext
    asked: Asked
    state: int = hub.TASK_STATE_SUBMITTED
    text: str = ""

    @property
    def working(self) -> bool:
        return self.asked.working


@dataclass(eq=False)
class Sender:
    """One call: a coroutine that returns the task or message that its caller has at the end."""

    call: asyncio.Task[Any]
    #: its message; for a subscriber, its task
    asked: Asked | Modelled
    #: True if it waits for the task only, not for its rest
    immediately: bool = False
    left: bool = False
    checked: bool = False

    @property
    def task(self) -> Modelled | None:
        return self.asked if isinstance(self.asked, Modelled) else self.asked.task

    @property
    def direct(self) -> str | None:
        return None if isinstance(self.asked, Modelled) else self.asked.direct


class Senders(RuleBasedStateMachine):
    """Drives an engine with idempotent sends, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.lines: dict[str, asyncio.Queue[Callable[[Run], Event | None]]] = {}
        self.active: dict[str, int] = {}
        self.runs: dict[str, int] = {}
        options = EngineOptions(idempotent_sends=True, tasks=TASKS)
        self.engine = Engine(agent_of(self.execute), store=MemoryStore(), options=options)
        self.client = Client(self.engine.service)
        self.asked: list[Asked] = []
        self.tasks: list[Modelled] = []
        self.senders: list[Sender] = []

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        name = run.message.message_id
        line = self.lines[name] = asyncio.Queue()
        self.active[name] = self.active.get(name, 0) + 1
        self.runs[name] = self.runs.get(name, 0) + 1
        try:
            while (event := (await line.get())(run)) is not None:
                yield event
        finally:
            self.active[name] -= 1

    # ------------------------------------------------------------------ means

    def turn(self) -> None:
        async def turns() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def begin(self, asked: Asked, *, streams: bool, immediately: bool) -> Sender:
        call = self._stream(asked) if streams else self._send(asked, immediately)
        sender = Sender(self.loop.create_task(call), asked, immediately and not streams)
        self.senders.append(sender)
        asked.calls.append(sender)
        self.turn()
        return sender

    async def _send(self, asked: Asked, immediately: bool) -> Any:
        given = hub.SendMessageRequest()
        given.CopyFrom(asked.request)
        if immediately:
            given.configuration.CopyFrom(IMMEDIATELY)
        answer = await self.client.send_message(given, asked.caller)
        return getattr(answer, answer.WhichOneof("payload"))

    async def _stream(self, asked: Asked) -> Any:
        return await self._read(self.client.send_streaming_message(asked.request, asked.caller))

    async def _read(self, events: Any) -> Any:
        """What a reader has in the end: a message, or the task with every piece that it was told."""
        task = hub.Task()
        async with aclosing(events) as reading:
            async for event in reading:
                if event.HasField("message"):
                    return event.message
                if event.HasField("task"):
                    assert not task.id
                    task.CopyFrom(event.task)
                elif event.HasField("artifact_update"):
                    # Not by the rules of artifacts: a first piece that came again would replace all others.
                    task.artifacts.add().CopyFrom(event.artifact_update.artifact)
        return task

    def command(self, asked: Asked, command: Callable[[Run], Event | None]) -> None:
        self.lines[asked.request.message.message_id].put_nowait(command)
        self.turn()

    def working(self) -> list[Asked]:
        return [one for one in self.asked if one.working]

    def at_work(self, caller: CallContext) -> int:
        return sum(one.working for one in self.asked if one.caller is caller)

    def pick(self, number: int, among: list[Any]) -> Any:
        return among[number % len(among)]

    # ------------------------------------------------------------------ what callers do

    @rule(caller=sampled_from(CALLERS), streams=booleans(), immediately=booleans())
    def ask(self, caller: CallContext, streams: bool, immediately: bool) -> None:
        self._ask(caller, request("go", message_id=f"m-{len(self.asked)}"), None, streams, immediately)

    @precondition(lambda self: any(not one.working and one.state == INPUT for one in self.tasks))
    @rule(number=ANY, streams=booleans(), immediately=booleans())
    def answer(self, number: int, streams: bool, immediately: bool) -> None:
        """To the question of a task. It may be the last task that the caller may have at work."""
        task = self.pick(number, [one for one in self.tasks if not one.working and one.state == INPUT])
        given = request("yes", message_id=f"m-{len(self.asked)}", task_id=task.id)
        self._ask(task.caller, given, task, streams, immediately)

    def _ask(
        self,
        caller: CallContext,
        given: hub.SendMessageRequest,
        task: Modelled | None,
        streams: bool,
        immediately: bool,
    ) -> None:
        full = self.at_work(caller) >= TASKS
        asked = Asked(caller, given, task)
        sender = self.begin(asked, streams=streams, immediately=immediately)
        if full:
            assert _reason(sender.call) is Reason.RESOURCE_EXHAUSTED
            sender.checked = True
            return
        assert self.active.get(given.message.message_id) == 1
        self.asked.append(asked)
        if task is not None:
            task.asked = asked

    @precondition(lambda self: self.asked)
    @rule(number=ANY, streams=booleans(), immediately=booleans())
    def repeat(self, number: int, streams: bool, immediately: bool) -> None:
        """The same message again, at any time: during its run, during a later one, after the end."""
        asked = self.pick(number, self.asked)
        again = asked.task is None and asked.direct is None and not asked.working
        if again and self.at_work(asked.caller) >= TASKS:
            return
        self.begin(asked, streams=streams, immediately=immediately)
        if again:
            asked.working = True  # all senders had left before it said anything: it begins anew

    @precondition(lambda self: self.tasks)
    @rule(number=ANY)
    def subscribe(self, number: int) -> None:
        task = self.pick(number, self.tasks)
        asking = hub.SubscribeToTaskRequest(id=task.id)
        read = self._read(self.client.subscribe_to_task(asking, task.caller))
        sender = Sender(self.loop.create_task(read), task)
        self.turn()
        if task.state in TERMINAL:
            assert _reason(sender.call) is Reason.UNSUPPORTED_OPERATION
        else:
            self.senders.append(sender)

    @precondition(lambda self: any(not one.call.done() for one in self.senders))
    @rule(number=ANY)
    def leave(self, number: int) -> None:
        sender = self.pick(number, [one for one in self.senders if not one.call.done()])
        sender.left = sender.checked = True
        sender.call.cancel()
        self.turn()
        asked = sender.asked
        if (
            isinstance(asked, Asked)
            and asked.task is None
            and asked.direct is None
            and all(one.left for one in asked.calls)
        ):
            asked.working = False

    # ------------------------------------------------------------------ what the agent does

    @precondition(lambda self: any(one.direct is None for one in self.working()))
    @rule(number=ANY)
    def chunk(self, number: int) -> None:
        asked = self.pick(number, [one for one in self.working() if one.direct is None])
        task = self._task(asked)
        piece = f"{len(task.text)};"
        first = not task.text
        task.text += piece
        self.command(asked, lambda run: run.artifact(piece, artifact_id="a", append=not first, last=False))

    @precondition(lambda self: any(one.direct is None for one in self.working()))
    @rule(number=ANY, state=sampled_from([INPUT, COMPLETED]))
    def rest(self, number: int, state: int) -> None:
        asked = self.pick(number, [one for one in self.working() if one.direct is None])
        self._task(asked).state = state
        self.command(asked, lambda run: run.status(state))
        asked.working = False
        self.command(asked, lambda run: None)

    @precondition(lambda self: any(one.task is None for one in self.working()))
    @rule(number=ANY)
    def say(self, number: int) -> None:
        asked = self.pick(number, [one for one in self.working() if one.task is None])
        asked.direct, asked.working = f"hello {len(self.asked)}", False
        self.command(asked, lambda run: run.reply(asked.direct or ""))
        self.command(asked, lambda run: None)

    def _task(self, asked: Asked) -> Modelled:
        """The task of a message whose run says something, which may begin it."""
        if asked.task is None:
            name = asked.request.message.message_id
            self.lines[name].put_nowait(lambda run: run.status(WORKING))
            self.turn()
            [task_id] = [
                run.task_id
                for run in self.engine._runs
                if run.live.task is not None and run.live.task.history[0].message_id == name
            ]
            asked.task = Modelled(task_id, asked.caller, asked)
            self.tasks.append(asked.task)
        if asked.task.state not in (WORKING, INPUT):
            asked.task.state = WORKING
        return asked.task

    # ------------------------------------------------------------------ invariants

    @invariant()
    def one_run_for_each_message(self) -> None:
        for asked in self.asked:
            assert self.active[asked.request.message.message_id] == asked.working, asked

    @invariant()
    def everybody_has_the_same(self) -> None:
        for sender in self.senders:
            if sender.checked or not sender.call.done():
                continue
            sender.checked = True
            task, result = sender.task, sender.call.result()
            if task is None:
                assert result.parts[0].text == sender.direct
            else:
                assert result.id == task.id
                # The response to a caller that does not wait has the task as it was then.
                assert sender.immediately or text_of(result) == task.text

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        for sender in self.senders:
            task = sender.task
            if sender.direct is not None or (task is not None and (sender.immediately or not task.working)):
                assert sender.call.done() or isinstance(sender.asked, Modelled), sender

    def teardown(self) -> None:
        for asked in self.working():
            if asked.direct is None:
                self._task(asked).state = COMPLETED
                self.command(asked, lambda run: run.status(COMPLETED))
                asked.working = False
        self.everybody_has_the_same()
        self.nobody_waits_in_vain()
        for sender in self.senders:
            sender.call.cancel()
        self.turn()
        self.loop.run_until_complete(self.engine.close())
        self.turn()
        assert self.engine.live == 0
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
        assert self.errors == []


def text_of(task: hub.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def _reason(call: asyncio.Task[Any]) -> Reason | None:
    error = call.exception()
    return error.reason if isinstance(error, A2AError) else None


TestSenders = Senders.TestCase
TestSenders.settings = settings(max_examples=100, stateful_step_count=25, deadline=None, derandomize=True)
