"""Turns that stay alive while they wait for the caller."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from a2a_bridge import Agent, Run
from a2a_bridge.testing.adapter_contract import Caller, callers
from a2a_bridge_adapters import live_turns
from a2a_bridge_adapters.conversations import ConversationKey, Conversations
from a2a_bridge_adapters.live_turns import AbandonedError, LiveTurn, LiveTurnExecutor, Said
from a2a_bridge_adapters.questions import NOT_OPEN, OpenCall
from tests.patience import PATIENCE


class Asking(LiveTurnExecutor[str]):
    """Asks for each word of the message, one after the other; with + at once. `breaks` ends on its own."""

    def __init__(self) -> None:
        super().__init__(Conversations())
        self.log: list[str] = []
        self.breaks = asyncio.Event()

    def read(self, run: Run) -> str:
        return run.text

    async def work(self, key: ConversationKey, run: Run, given: Any, turn: LiveTurn) -> Sequence[Any]:
        async def asked(word: str) -> str:
            return str(await turn.ask(OpenCall(word, f"{word}?")))

        try:
            if given == "cancelled":
                raise asyncio.CancelledError
            if given == "breaks":
                waiting = asyncio.create_task(asked("breaks"))
                await self.breaks.wait()
                waiting.cancel()
                raise RuntimeError("a secret of the framework")
            turn.tell(Said("0", "asking"))
            if "+" in given:
                found = await asyncio.gather(*map(asked, given.split("+")))
            else:
                found = [await asked(word) for word in given.split()]
            return [" ".join(found)]
        except AbandonedError:
            self.log.append(f"{given} is abandoned")
            await asyncio.Event().wait()
            raise
        finally:
            self.log.append(f"{given} has ended")


@pytest.fixture
def asking() -> Asking:
    return Asking()


@pytest.fixture
async def ann(asking: Asking) -> AsyncIterator[Caller]:
    async with asyncio.timeout(PATIENCE), callers(Agent(asking, name="asking")) as (ann, _):
        yield ann


async def test_one_question_follows_another_and_several_come_at_once(ann: Caller) -> None:
    first = await ann.say("one two")
    assert (first.text, [one["callId"] for one in first.calls]) == ("asking", ["one"])
    second = await ann.say("1", task=first.task_id)
    assert [one["callId"] for one in second.calls] == ["two"]
    assert (await ann.say("2", task=first.task_id)).text == "1 2"
    both = await ann.say("one+two")
    assert [one["callId"] for one in both.calls] == ["one", "two"]
    assert (await ann.say({"two": "2", "one": "1"}, task=both.task_id)).text == "1 2"


async def test_a_call_that_was_not_asked_of_the_caller_is_asked_after_the_answer(
    asking: Asking, ann: Caller
) -> None:
    first = await ann.say("one")
    (turn,) = asking._waiting.values()
    later = asyncio.create_task(turn.ask(OpenCall("later", "later?")))
    await asyncio.sleep(0)
    second = await ann.say("1", task=first.task_id)
    assert [one["callId"] for one in second.calls] == ["later"]
    assert (await ann.say("2", task=first.task_id)).text == "1"
    assert await later == "2"


async def test_a_turn_above_the_limit_ends(
    asking: Asking, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_turns, "MOST_WAITING", 2)
    tasks = [await ann.say(name) for name in ("one", "two", "three")]
    assert [turn.task_id for turn in asking._waiting.values()] == [one.task_id for one in tasks[1:]]
    late = await ann.say("1", task=tasks[0].task_id)
    assert (late.state, late.notes[-1]) == ("failed", NOT_OPEN)
    await asyncio.gather(*asking._ending)
    assert asking.log == ["one is abandoned", "one has ended"]
    assert (await ann.say("2", task=tasks[1].task_id)).text == "2"


async def test_a_turn_that_breaks_while_it_waits_is_no_longer_open(asking: Asking, ann: Caller) -> None:
    asked = await ann.say("breaks", where="c")
    (turn,) = asking._waiting.values()
    asking.breaks.set()
    await asyncio.wait([turn._task])
    late = await ann.say("1", task=asked.task_id)
    assert (late.state, late.notes[-1]) == ("failed", NOT_OPEN)
    assert (await ann.say("one", where="c")).state == "input_required"


async def test_an_answer_to_a_call_that_was_just_given_up_is_dropped(asking: Asking, ann: Caller) -> None:
    asked = await ann.say("one+two", where="c")
    (turn,) = asking._waiting.values()
    gone = asyncio.create_task(turn.ask(OpenCall("gone", "gone?")))
    await asyncio.sleep(0)
    gone.cancel()  # it has no turn of the loop before the answer
    turn.answer({"gone": "0"})
    await asyncio.wait([gone])
    assert gone.cancelled()
    assert (await ann.say({"one": "1", "two": "2"}, task=asked.task_id)).text == "1 2"


async def test_a_turn_that_has_ended_asks_nobody() -> None:
    async def works(turn: LiveTurn) -> Sequence[Any]:
        await asyncio.Event().wait()
        return ()

    turn = LiveTurn("t", works)
    async with asyncio.timeout(PATIENCE):
        await turn.end()
        with pytest.raises(AbandonedError):
            await turn.ask(OpenCall("late", "late?"))
    assert turn.open_calls == ()


async def test_an_agent_that_is_cancelled_from_within_fails_the_task(ann: Caller) -> None:
    assert (await ann.say("cancelled")).state == "failed"
