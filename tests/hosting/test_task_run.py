"""A task's run against a model: random messages, events, cancellations, timeouts, takeovers, failures."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans, sampled_from

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, IllegalStateError, Reason
from a2a_bridge.core.messages import INTERRUPTED, RUNNING, TERMINAL
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting import Engine, Run
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.phases import STOPPED, TRANSITIONS, Phase, RunPhase
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope
from tests.hosting.hand_clock import HandClock
from tests.hosting.late import LateStore
from tests.hosting.scene import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    SUBMITTED,
    WORKING,
    agent_of,
    request,
)

SCOPE = Scope("", "")
RUN_TIMEOUT = 60.0
#: turns of the loop after which everything that can happen has happened
TURNS = 40

#: possible answers: a state of the task, the reason of an error, or one of these
DIRECT, LEFT = "a direct message", "the sender has left"


class ScriptedError(Exception):
    """The failure of the executor."""


class Script:
    """An executor that the test controls. Its `cancel` waits for a verdict: True accepts."""

    def __init__(self) -> None:
        self.commands: asyncio.Queue[Callable[[Run], Event | None]] = asyncio.Queue()
        self.verdicts: asyncio.Queue[bool] = asyncio.Queue()
        self.active = 0

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.active += 1
        try:
            while (event := (await self.commands.get())(run)) is not None:
                yield event
        finally:
            self.active -= 1

    async def cancel(self, run: Run) -> AsyncIterator[Event]:
        if not await self.verdicts.get():
            raise A2AError(Reason.TASK_NOT_CANCELABLE)
        for event in ():
            yield event


@dataclass(eq=False)
class Sent:
    """A call, and the model's knowledge of its answer."""

    call: asyncio.Task[Any]
    immediately: bool = False
    #: True once the run has begun
    begun: bool = False
    #: the possible answers; empty while there must not be one
    expected: tuple[Any, ...] = ()
    #: True once it has arrived
    seen: bool = False

    def expect(self, *answers: Any) -> None:
        self.expected = self.expected or answers


@dataclass
class Model:
    """The run of a task without coroutines and store: the phase, the state of the task, and the answers."""

    phase: Phase = Phase.IDLE
    #: None before the task exists
    state: int | None = None
    said: bool = False
    overdue: bool = False
    current: Sent | None = None
    queue: list[Sent] = field(default_factory=list)
    #: all messages of this task
    sent: list[Sent] = field(default_factory=list)
    cancels: list[Sent] = field(default_factory=list)
    #: messages that wait for the verdict on a cancellation, because no run is active
    blocked: list[Sent] = field(default_factory=list)
    #: messages whose history entry is not committed
    joining: list[Sent] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    def submit(self, one: Sent) -> None:
        self.sent.append(one)
        self.queue.append(one)
        if one.immediately and self.state is not None:
            one.expect(self.state)
        self.start()

    def start(self) -> None:
        if self.current is not None or self.phase is Phase.CANCELING:
            return
        if self.ended or self.phase in STOPPED:
            for one in self.queue:
                one.expect(Reason.UNSUPPORTED_OPERATION)
            self.queue.clear()
        elif self.queue:
            self.current = self.queue.pop(0)
            self.current.begun = True
            self.phase = Phase.WORKING

    def become(self, state: int) -> None:
        self.state = state
        for one in self.sent:
            if one.begun and (one.immediately or state in TERMINAL or state in INTERRUPTED):
                one.expect(state)
            elif state in TERMINAL:
                one.expect(Reason.UNSUPPORTED_OPERATION)

    def update(self, state: int) -> None:
        if self.state is None:
            self.become(SUBMITTED)
        self.become(state)

    def run_over(self, *, failed: bool) -> None:
        one, self.current, self.overdue = self.current, None, False
        assert one is not None
        if self.state is None:
            direct = DIRECT if self.said else Reason.INVALID_AGENT_RESPONSE
            one.expect(Reason.INTERNAL_ERROR if failed else direct)
        elif self.phase is Phase.WORKING and not self.ended and (failed or self.state in RUNNING):
            self.become(FAILED)
        elif self.state not in RUNNING:
            one.expect(self.state)
        if self.phase is Phase.WORKING:
            self.phase = Phase.IDLE
            self.start()

    def stop(self, state: int, reason: Reason) -> None:
        """The run is stopped for good. reason: for the senders, if there is no task."""
        self.phase, self.current = Phase.ENDING, None
        if self.state is None:
            for one in self.sent:
                one.expect(reason)
        elif not self.ended:
            self.become(state)
        for one in self.queue if self.ended else ():
            one.expect(Reason.UNSUPPORTED_OPERATION)
        self.queue.clear()

    def verdict(self, *, accepted: bool, began_with_run: bool) -> None:
        if accepted:
            self.stop(CANCELED, Reason.INTERNAL_ERROR)
        else:
            if began_with_run and self.current is None and self.state in RUNNING:
                self.become(FAILED)
            self.phase = Phase.IDLE if self.current is None else Phase.WORKING
            self.start()
        for one in self.cancels:
            one.expect(CANCELED if accepted and self.state == CANCELED else Reason.TASK_NOT_CANCELABLE)
        if not accepted and self.overdue and self.current is not None:
            self.stop(FAILED, Reason.DEADLINE_EXCEEDED)
        for one in self.blocked:
            one.expect(Reason.UNSUPPORTED_OPERATION)


class RunMachine(RuleBasedStateMachine):
    """Drives an engine and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.script, self.clock = Script(), HandClock()
        self.store = LateStore()
        self.store.open_door = True
        agent = agent_of(self.script.execute, self.script.cancel)
        options = EngineOptions(run_timeout=RUN_TIMEOUT, cancel_timeout=0)
        self.engine = Engine(agent, store=self.store, options=options, clock=self.clock)
        self.model = Model()
        self.task_id = ""
        self.calls: list[Sent] = []
        self.taken = self.began_with_run = False
        self.count = 0

    # ------------------------------------------------------------------ means

    @property
    def run(self) -> TaskRun | None:
        return self.engine._runs.get(SCOPE, self.task_id)

    @property
    def working(self) -> bool:
        return self.model.current is not None

    def turn(self, first: Callable[[], object] = lambda: None) -> None:
        """Runs an action within the loop, and all its effects."""

        async def turns() -> None:
            first()
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def call(self, work: Coroutine[Any, Any, Any], **members: Any) -> Sent:
        sent = Sent(self.loop.create_task(work), **members)
        self.calls.append(sent)
        self.turn()
        return sent

    def command(self, command: Callable[[Run], Event | None]) -> None:
        self.script.commands.put_nowait(command)
        self.turn()

    # ------------------------------------------------------------------ events

    @precondition(lambda self: not (self.model.state is None and self.working))
    @rule(immediately=booleans(), rejected=booleans())
    def send(self, immediately: bool, rejected: bool = False) -> None:
        """rejected: to a task that has ended, instead of a new one."""
        model = self.model
        over = model.ended and not (self.working or model.joining or model.phase is Phase.CANCELING)
        if model.state is None or (over and not rejected and self.store.error is None):
            self.model = model = Model()
        self.count += 1
        members = {"task_id": self.task_id} if model.state is not None else {}
        if immediately:
            members["configuration"] = IMMEDIATELY
        message = request("more", message_id=f"m-{self.count}", **members)
        sent = self.call(self.engine.send_message(message, CallContext()), immediately=immediately)
        if self.store.error is not None and not model.ended:
            sent.expect(Reason.UNAVAILABLE)
        elif model.state is None:
            self.task_id = [run.task_id for run in self.engine._runs][-1]
            model.submit(sent)
        elif model.ended:
            sent.expect(Reason.UNSUPPORTED_OPERATION)
        elif model.phase is Phase.CANCELING and not self.working and model.state in RUNNING:
            model.blocked.append(sent)
        elif self.store.open_door:
            model.submit(sent)
        else:
            model.joining.append(sent)

    @precondition(lambda self: self.working and not self.model.ended and not self.model.said)
    @rule(state=sampled_from([WORKING, WORKING, INPUT, AUTH, COMPLETED, FAILED]))
    def update(self, state: int) -> None:
        self.model.update(state)
        self.command(lambda run: run.status(state))

    @precondition(lambda self: self.working and self.model.state is None and not self.model.said)
    @rule()
    def answer_directly(self) -> None:
        self.model.said = True
        self.command(lambda run: run.reply("hello"))

    @precondition(lambda self: self.working)
    @rule()
    def finish(self) -> None:
        self.model.run_over(failed=False)
        self.command(lambda run: None)

    @precondition(lambda self: self.working)
    @rule()
    def crash(self) -> None:
        def fail(run: Run) -> None:
            raise ScriptedError

        self.model.run_over(failed=True)
        self.command(fail)

    @precondition(
        lambda self: self.model.state is not None and not self.model.ended and self.store.error is None
    )
    @rule()
    def cancel(self) -> None:
        model = self.model
        if model.phase is not Phase.CANCELING:
            self.began_with_run = self.working
            model.phase = Phase.CANCELING
            model.cancels.clear()
        asked = hub.CancelTaskRequest(id=self.task_id)
        model.cancels.append(self.call(self.engine.cancel_task(asked, CallContext())))

    @precondition(lambda self: self.model.phase is Phase.CANCELING)
    @rule(accepted=booleans())
    def verdict(self, accepted: bool) -> None:
        self.model.verdict(accepted=accepted, began_with_run=self.began_with_run)
        self.script.verdicts.put_nowait(accepted)
        self.turn()

    # One rule each for the store and for rare events, so that most steps are messages and events.

    @rule(fails=booleans())
    def change_store(self, fails: bool) -> None:
        if self.store.open_door:
            self.store.open_door = False
        elif fails and self.store.error is None:
            self.fail_store()
        else:
            self.commit()

    @rule(kind=sampled_from(["time out", "leave", "take over"]))
    def disturb(self, kind: str) -> None:
        if kind == "time out" and self.working:
            self.time_out()
        elif kind == "leave" and self.working and not self.model.current.call.done():
            self.leave()
        elif kind == "take over" and self.run is not None and self.run.live.task and self.run.lease.held:
            self.take_over()

    def time_out(self) -> None:
        if self.model.phase is Phase.CANCELING:
            self.model.overdue = True
        else:
            self.model.stop(FAILED, Reason.DEADLINE_EXCEEDED)
        self.turn(lambda: self.clock.strike(RUN_TIMEOUT))

    def leave(self) -> None:
        model = self.model
        sent = model.current
        sent.expected = (LEFT,)
        if model.state is None:
            model.phase, model.current = Phase.ENDING, None
        sent.call.cancel()
        self.turn()

    def commit(self) -> None:
        """The store commits everything, and works again if it did not."""
        joining, self.model.joining = self.model.joining, []
        for sent in joining:
            self.model.submit(sent)
        self.store.open_door, self.store.error = True, None
        self.turn(self.store.commit)
        self.turn(lambda: self.clock.strike(1.0))

    def fail_store(self) -> None:
        for sent in self.calls:
            if sent.expected and not sent.seen and sent.expected != (LEFT,):
                sent.expected = (*sent.expected, Reason.UNAVAILABLE)
        for sent in self.model.joining:
            sent.expect(Reason.UNAVAILABLE)
        self.model.joining.clear()
        self.turn(self.store.fail)

    def take_over(self) -> None:
        """Another process takes the task, and completes it unless it has ended."""
        model, store = self.model, self.store
        writer = [one for one in store.writers if one._task_id == self.task_id and not one.lost][-1]
        stored = self.loop.run_until_complete(MemoryStore.get(store, SCOPE, self.task_id))
        answers: tuple[Any, ...] = (Reason.UNAVAILABLE, Reason.UNSUPPORTED_OPERATION)
        if stored is not None:
            answers = (*answers, stored.task.status.state, COMPLETED)
        for sent in self.calls:
            if not sent.seen and sent.expected != (LEFT,):
                sent.expected = (*sent.expected, *answers, Reason.TASK_NOT_CANCELABLE, Reason.TASK_NOT_FOUND)
        self.turn(writer.lose)
        if stored is not None and stored.task.status.state not in TERMINAL:
            self.loop.run_until_complete(self.complete_elsewhere())
        if model.phase is Phase.CANCELING:
            self.script.verdicts.put_nowait(True)
        self.turn()
        self.model = Model()
        if stored is not None:
            self.model.state, self.model.phase = COMPLETED, Phase.LOST

    async def complete_elsewhere(self) -> None:
        stored = await MemoryStore.get(self.store, SCOPE, self.task_id)
        assert stored is not None
        event = hub.StreamResponse()
        event.status_update.status.state = stored.task.status.state = COMPLETED
        writer = await MemoryStore.open(self.store, SCOPE, stored, lambda: None)
        writer.append(event, stored.task)
        writer.release()

    # ------------------------------------------------------------------ invariants

    @invariant()
    def phases_agree(self) -> None:
        run, model = self.run, self.model
        if run is None:
            assert not self.working
            assert model.phase is not Phase.CANCELING
        elif not (model.state is None and not self.working):
            assert run.phase is model.phase

    @invariant()
    def states_agree(self) -> None:
        run = self.run
        if run is not None and run.live.task is not None and not run.lease.lost:
            assert run.live.task.status.state == self.model.state

    @invariant()
    def one_run_at_a_time(self) -> None:
        assert self.script.active == self.working

    @invariant()
    def answers_agree(self) -> None:
        run = self.run
        for sent in self.calls:
            if sent.seen:
                continue
            sent.seen = sent.call.done()
            if sent.seen:
                answer = outcome(sent.call)
                assert answer in sent.expected, (answer, sent)
                if not self.store.open_door and isinstance(answer, int) and run is not None:
                    assert not run.lease.pending  # answers are durable
            else:
                assert not sent.expected or not self.store.open_door, sent

    def teardown(self) -> None:
        """The engine closes: every call is answered, and nothing is left."""
        self.commit()
        if self.model.phase is Phase.CANCELING:
            self.verdict(accepted=True)
        self.answers_agree()
        self.loop.run_until_complete(self.engine.close())
        self.turn()
        for sent in self.calls:
            assert sent.seen or outcome(sent.call) in (
                FAILED,
                Reason.UNAVAILABLE,
                Reason.UNSUPPORTED_OPERATION,
            )
        assert (self.script.active, self.engine.live) == (0, 0)
        assert not asyncio.all_tasks(self.loop)
        stored = self.loop.run_until_complete(MemoryStore.get(self.store, SCOPE, self.task_id))
        assert stored is None or stored.task.status.state not in RUNNING
        self.loop.close()
        assert self.errors == []


def outcome(call: asyncio.Task[Any]) -> Any:
    """The state of the task in the answer, the reason of an error, DIRECT or LEFT."""
    if call.cancelled():
        return LEFT
    error = call.exception()
    if isinstance(error, A2AError):
        return error.reason
    if error is not None:
        raise error
    answer = call.result()
    if isinstance(answer, hub.Task):
        return answer.status.state
    return answer.task.status.state if answer.HasField("task") else DIRECT


TestTaskRun = RunMachine.TestCase
TestTaskRun.settings = settings(max_examples=200, stateful_step_count=25, deadline=None, derandomize=True)


def test_a_run_that_fails_during_a_rejected_cancellation_answers_its_sender() -> None:
    """The task waits for input before and after: no state follows that would answer."""
    machine = RunMachine()
    machine.send(immediately=False)
    machine.update(INPUT)
    machine.finish()
    machine.send(immediately=False)
    machine.cancel()
    machine.crash()
    machine.verdict(accepted=False)
    machine.answers_agree()
    machine.teardown()


def test_a_message_that_joins_an_ended_task_is_rejected_when_its_run_times_out() -> None:
    machine = RunMachine()
    machine.send(immediately=False)
    machine.change_store(fails=False)
    machine.update(WORKING)
    machine.send(immediately=False)
    machine.update(COMPLETED)
    machine.change_store(fails=False)
    machine.disturb("time out")
    machine.answers_agree()
    machine.teardown()


def test_every_phase_can_be_left_but_the_last_one() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert [phase for phase, following in TRANSITIONS.items() if not following] == [Phase.OVER]
    for phase in STOPPED:
        assert TRANSITIONS[phase] <= STOPPED


def test_a_transition_that_the_table_lacks_is_an_error() -> None:
    phase = RunPhase()
    phase.to(Phase.ENDING)
    with pytest.raises(IllegalStateError, match="from ending to working"):
        phase.to(Phase.WORKING)
