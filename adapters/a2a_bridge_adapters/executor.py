"""The executor that all adapters share: turns of conversations, open calls and their answers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic

from a2a_bridge.hosting.executor import AgentExecutor, Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import Answer
from a2a_bridge_adapters.conversations import ConversationKey, Conversations, State
from a2a_bridge_adapters.questions import NOT_OPEN, OpenCall, UnclearAnswerError, answers, ask, asked_ids


class ConversationExecutor(AgentExecutor, ABC, Generic[State]):
    """Runs an agent of a framework. A subclass says how a turn begins, and how it continues with answers.

    conversations: what is remembered between turns. stream: True to tell text that the framework may still
    stop or change, False to hold back all text to the end of a turn; None to hold back the former only.
    """

    def __init__(self, conversations: Conversations[State], *, stream: bool | None = None) -> None:
        self.conversations = conversations
        self._stream = stream

    @abstractmethod
    def read(self, run: Run) -> Any:
        """The input of the framework for the message of a run, or an awaitable of it. Raises A2AError to
        reject the message.
        """

    @abstractmethod
    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        """The calls that the agent waits for in this conversation; for any of its tasks."""

    @abstractmethod
    def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        """The events of a new turn, an async generator. Calls that are open are denied first.

        answer: makes the events of the output. given: from `read`. The last event leaves the task at rest, as
        those of `ask` and `run.status` do.
        """

    @abstractmethod
    def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        """The events of a turn that continues with answers.

        given: an Approval or JSON, by the ids of the calls.
        """

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        asked = asked_ids(run)
        given = (
            None if asked else await awaited(self.read(run))
        )  # before the first event: a rejected message makes no task
        if run.is_new:
            yield run.start()
        yield run.status(hub.TASK_STATE_WORKING)
        key, answer = run.conversation, Answer(run, self._stream)
        # One turn at a time: two at once would lose one of them.
        with self.conversations.turn(key):
            async with run.lock(f"conversation {key.digest}"):
                if not asked:
                    events = self.begin(key, run, answer, given)
                else:
                    # The task of the caller says only which calls these were: a caller could have written it.
                    calls = await self.open_calls(key, run)
                    if {call.call_id for call in calls} != asked:
                        yield run.status(hub.TASK_STATE_FAILED, NOT_OPEN)
                        return
                    try:
                        found = answers(run.parts, calls)
                    except UnclearAnswerError as problem:
                        yield ask(run, calls, str(problem))
                        return
                    events = self.go_on(key, run, answer, found)
                # Closed here, because an agent that is cancelled must have ended before the next turn begins.
                try:
                    async with aclosing(events):
                        async for event in events:
                            yield event
                except Exception:
                    for event in answer.failed():
                        yield event
                    raise


async def awaited(value: Any) -> Any:
    """The value that a function of a user has given; of a coroutine or another awaitable, its result."""
    return await value if inspect.isawaitable(value) else value
