"""Turns that stay alive while they wait for the caller: for frameworks that ask in the middle of their work,
and continue where they asked.

Rules:
1. The agent works in a task of its own, which outlives a run: it tells its outputs, and waits in `ask`.
2. A turn that waits holds its agent, such as a process. Therefore the turns that wait are limited: above the
   limit the one that waits for the longest time ends, and its questions are no longer open.
3. A new turn of the conversation, a cancellation of the task, and the end of this process end a turn that
   waits.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import Answer
from a2a_bridge_adapters.conversations import ConversationKey, Conversations, State
from a2a_bridge_adapters.executor import ConversationExecutor
from a2a_bridge_adapters.questions import OpenCall, ask

#: turns of one agent that wait for their callers at once
MOST_WAITING = 100


class AbandonedError(Exception):
    """Nobody will answer: the caller went on or cancelled, or too many other turns wait."""


class Said(NamedTuple):
    """Streamed text. message, guarded: see `Answer.text`."""

    message: str
    text: str
    guarded: bool = False


Output = Said | hub.Part


class LiveTurn:
    """One turn of an agent.

    work: the agent; it gets this object, and returns the contents of the answer. task_id: of the task with
    its questions. grace: seconds for its end once its questions are abandoned, before it is cancelled.
    """

    def __init__(
        self,
        task_id: str,
        work: Callable[[LiveTurn], Coroutine[Any, Any, Sequence[Any]]],
        grace: float = 0,
    ) -> None:
        self.task_id, self._grace = task_id, grace
        #: the calls of the newest question to the caller
        self.asked: Sequence[OpenCall] = ()
        self._outputs: asyncio.Queue[Output | None] = asyncio.Queue()
        self._open: dict[str, tuple[OpenCall, asyncio.Future[Any]]] = {}
        #: True once nobody will answer
        self.abandoned = False
        self._task = asyncio.create_task(work(self))
        self._task.add_done_callback(lambda _: self._outputs.put_nowait(None))

    @property
    def open_calls(self) -> Sequence[OpenCall]:
        """The calls without an answer."""
        return tuple(call for call, answer in self._open.values() if not answer.done())

    @property
    def contents(self) -> Sequence[Any]:
        """The contents of the answer of an agent that has ended. Raises what it has raised."""
        if self._task.cancelled():
            raise RuntimeError("the agent was cancelled, and not by its caller")
        return self._task.result()

    def tell(self, output: Output) -> None:
        """For the agent: an output."""
        self._outputs.put_nowait(output)

    async def ask(self, call: OpenCall) -> Any:
        """For the agent: the answer of the caller, an Approval or JSON. Raises AbandonedError."""
        if self.abandoned:
            raise AbandonedError
        answer = asyncio.get_running_loop().create_future()
        self._open[call.call_id] = (call, answer)
        self._outputs.put_nowait(None)
        try:
            return await answer
        finally:
            del self._open[call.call_id]

    async def outputs(self) -> AsyncGenerator[Output, None]:
        """The outputs, until the agent has ended or waits for the caller."""
        while not self._outputs.empty() or not (self._task.done() or self.open_calls):
            output = await self._outputs.get()
            if output is not None:  # None only wakes this loop
                yield output
        self.asked = () if self._task.done() else self.open_calls

    def answer(self, given: Mapping[str, Any]) -> None:
        """Gives the answers of the caller to the agent, by the ids of the calls."""
        for call_id, value in given.items():
            _, answer = self._open.get(call_id, (None, None))
            if answer is not None and not answer.done():  # else the agent has given it up
                answer.set_result(value)

    async def end(self) -> None:
        """Ends the agent, and waits for its end. What runs on, such as a thread, can ask no more."""
        self.abandoned = True
        if calls := self.open_calls:
            for call in calls:
                self._open[call.call_id][1].set_exception(AbandonedError())
            await asyncio.wait([self._task], timeout=self._grace)
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # that of a turn that is given up; of any other one it is told already


class LiveTurnExecutor(ConversationExecutor[State]):
    """Runs an agent whose turns wait for the caller. A subclass says how a turn works.

    grace: see LiveTurn.
    """

    grace: float = 0

    def __init__(self, conversations: Conversations[State], *, stream: bool | None = None) -> None:
        super().__init__(conversations, stream=stream)
        #: the turns that wait, the one that waits for the longest time first
        self._waiting: dict[ConversationKey, LiveTurn] = {}
        #: held here, because an event loop does not hold its tasks
        self._ending: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def work(self, key: ConversationKey, run: Run, given: Any, turn: LiveTurn) -> Sequence[Any]:
        """One turn of the agent, which may outlive the run that began it. given: from `read`.

        The contents of its answer, as for `Answer.settle`.
        """

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        turn = self._waiting.get(key)
        return turn.asked if turn is not None and turn.task_id == run.task_id and turn.open_calls else ()

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        await self._end(key)
        turn = LiveTurn(run.task_id, lambda turn: self.work(key, run, given, turn), self.grace)
        async with aclosing(self._follow(key, run, answer, turn)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        turn = self._waiting.pop(key)
        turn.answer(given)
        async with aclosing(self._follow(key, run, answer, turn)) as events:
            async for event in events:
                yield event

    async def cancel(self, run: Run, /) -> AsyncIterator[Event]:
        """Ends the turn that waits in a task. One that works is ended by `execute`, which is cancelled."""
        key = run.conversation
        if (turn := self._waiting.get(key)) is not None and turn.task_id == run.task_id:
            await self._end(key)
        none: tuple[Event, ...] = ()
        for event in none:
            yield event

    async def _follow(
        self, key: ConversationKey, run: Run, answer: Answer, turn: LiveTurn
    ) -> AsyncGenerator[Event, None]:
        """The events of a turn, until it ends or asks."""
        try:
            async with aclosing(turn.outputs()) as outputs:
                async for output in outputs:
                    if isinstance(output, hub.Part):
                        yield answer.part(output)
                        continue
                    for event in answer.text(output.message, output.text, guarded=output.guarded):
                        yield event
            if turn.asked:
                self._wait(key, turn)
                yield ask(run, turn.asked)
                return
            for event in answer.settle(*turn.contents):
                yield event
            yield run.status(hub.TASK_STATE_COMPLETED)
        finally:
            if self._waiting.get(key) is not turn:
                await turn.end()

    def _wait(self, key: ConversationKey, turn: LiveTurn) -> None:
        self._waiting[key] = turn
        if len(self._waiting) > MOST_WAITING:
            oldest = self._waiting.pop(next(iter(self._waiting)))
            task = asyncio.create_task(oldest.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, key: ConversationKey) -> None:
        """Ends the turn of a conversation that waits, if there is one."""
        if (turn := self._waiting.pop(key, None)) is not None:
            await turn.end()
