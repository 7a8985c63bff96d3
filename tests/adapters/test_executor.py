"""The executor that all adapters share, in the engine: which messages are answers."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import AgentEvent
from a2a_bridge_adapters.content import Answer
from a2a_bridge_adapters.conversations import ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor
from a2a_bridge_adapters.questions import OpenCall, ask
from tests.patience import PATIENCE

CALL = OpenCall("1", {}, "delete", approval=True)


class Deleting(ConversationExecutor[list[OpenCall]]):
    """Asks in its first turn, once it may."""

    def __init__(self) -> None:
        super().__init__(Conversations())
        self.may_ask, self.turns = asyncio.Event(), asyncio.Queue[Any]()

    def read(self, run: Run) -> str:
        return run.text

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        return self.conversations.get(key) or []

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        self.turns.put_nowait(given)
        if given == "start":
            await self.may_ask.wait()
            self.conversations.keep(key, [CALL])
            yield ask(run, [CALL])
            return
        self.conversations.keep(key, [])
        yield run.status("completed", f"heard {given}")

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[AgentEvent, None]:
        self.turns.put_nowait(given)
        yield run.status("completed", "deleted")


async def test_a_message_before_the_question_does_not_answer_it() -> None:
    executor = Deleting()
    async with asyncio.timeout(PATIENCE), connect(Agent(executor, name="deleting")) as peer:
        task = (await peer.send("start", return_immediately=True)).task
        await peer.send("yes", task=task, return_immediately=True)
        executor.may_ask.set()
        assert [await executor.turns.get() for _ in range(2)] == ["start", "yes"]


async def test_a_message_after_the_question_answers_it_and_an_unclear_one_asks_again() -> None:
    executor = Deleting()
    executor.may_ask.set()
    async with connect(Agent(executor, name="deleting")) as peer:
        task = (await peer.send("start")).task
        again = await peer.send({"2": True}, task=task)
        assert (again.state, again.text.splitlines()[0]) == ("input-required", "No such call is open: 2.")
        assert (await peer.send("yes", task=task)).text == "deleted"
