"""Repeated messages, on an engine that works on each message once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.sending import digest_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope, Store
from tests.agents import EchoAgent, ScriptedAgent, SlowAgent
from tests.hosting.hand_clock import HandClock
from tests.hosting.late import LateStore
from tests.hosting.scene import (
    ALICE,
    AUTH,
    BOB,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    agent_of,
    request,
    shape,
    shapes,
)
from tests.hosting.scene import Talk as Plain
from tests.rejections import rejected


class Talk(Plain):
    """An engine that works on each message once."""

    def __init__(self, agent: Any, **options: Any) -> None:
        super().__init__(agent, idempotent_sends=True, **options)


class Counting:
    """Works until its gate opens, in the way that the text names; counts its runs."""

    def __init__(self, *, held: bool = True) -> None:
        self.gate = Gate()
        self.runs: list[str] = []
        if not held:
            self.gate.open()

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.runs.append(run.text)
        if run.text == "reject":
            await self.gate.wait()
            raise A2AError(Reason.RESOURCE_EXHAUSTED, "not now")
        if run.text == "say":
            await self.gate.wait()
            yield run.reply("hello")
            return
        if run.text == "late":
            await self.gate.wait()
        yield run.status("working")
        if run.text == "auth":
            yield run.status("auth-required")
        await self.gate.wait()
        yield run.status("input-required" if run.text == "ask" else "completed", run.text)


async def settled() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def test_off_unless_asked_for() -> None:
    talk = Plain(ScriptedAgent())
    assert (await talk.send("task")).id != (await talk.send("task")).id


@pytest.mark.parametrize("text", ["task x", "fail", "input"])
async def test_a_task_is_made_once(text: str) -> None:
    talk = Talk(ScriptedAgent())
    first = await talk.send(text)
    await talk.rest()
    assert await talk.send(text) == first
    assert (await talk.send(text, configuration=IMMEDIATELY)) == first
    assert shapes(await talk.stream(text)) == [("task", first.status.state)]
    assert (await talk.list()).total_size == 1
    assert (await talk.send(text, message_id="other")).id != first.id


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_direct_answer_is_given_once(agent: type[EchoAgent]) -> None:
    talk = Talk(agent())
    first = await talk.send("hello")
    assert await talk.send("hello") == first
    assert await talk.stream("hello") == [first]
    assert (await talk.send("hello", message_id="other")).message_id != ""


async def test_other_content_under_the_same_id_is_rejected() -> None:
    talk = Talk(ScriptedAgent())
    first = await talk.send("task x")
    for text, members in (
        ("task y", {}),
        ("task x", {"context_id": "elsewhere"}),
        ("", {"parts": [hub.Part(text="task x", metadata={"n": 1})]}),
        ("task x", {"task_id": first.id}),
    ):
        with rejected(Reason.INVALID_PARAMS, "message.messageId"):
            await talk.send(text, **members)
    assert (await talk.list()).total_size == 1


async def test_content_beside_the_message_may_differ() -> None:
    talk = Talk(ScriptedAgent())
    first = await talk.send("task x")
    assert (await talk.send("task x", metadata={"attempt": 2})).id == first.id


async def test_callers_have_their_own_ids() -> None:
    talk = Talk(ScriptedAgent())
    made = {(await talk.send("task", context=who)).id for who in (ALICE, BOB, None)}
    assert len(made) == 3
    assert (await talk.send("task", context=ALICE)).id in made


@pytest.mark.parametrize("store", [MemoryStore, LateStore])
async def test_concurrent_senders_get_one_task(store: type[MemoryStore]) -> None:
    kept = store()
    if isinstance(kept, LateStore):
        kept.open_door = True
    counting = Counting()
    talk = Talk(agent_of(counting.execute), store=kept)
    unary = [asyncio.create_task(talk.send("x")) for _ in range(5)]
    quick = [asyncio.create_task(talk.send("x", configuration=IMMEDIATELY)) for _ in range(3)]
    streams = [asyncio.create_task(talk.stream("x")) for _ in range(3)]
    await counting.gate.reached()
    assert {one.status.state for one in await asyncio.gather(*quick)} <= {SUBMITTED, WORKING}
    late = asyncio.create_task(talk.send("x"))
    late_stream = asyncio.create_task(talk.stream("x"))
    await settled()
    assert not [one for one in (*unary, *streams, late, late_stream) if one.done()]
    counting.gate.open()
    done = await asyncio.gather(*unary, late)
    assert {one.id for one in done} == {quick[0].result().id}
    assert {one.status.state for one in done} == {COMPLETED}
    for events in await asyncio.gather(*streams, late_stream):
        assert shapes(events)[-1] == COMPLETED
        assert isinstance(events[0], hub.Task)
    assert counting.runs == ["x"]
    await talk.rest()


async def test_concurrent_senders_get_one_direct_answer() -> None:
    counting = Counting()
    talk = Talk(agent_of(counting.execute))
    sending = [asyncio.create_task(talk.send("say")) for _ in range(3)]
    stream = asyncio.create_task(talk.stream("say"))
    await counting.gate.reached()
    await settled()
    counting.gate.open()
    answers = [*await asyncio.gather(*sending), *await stream]
    assert len({one.message_id for one in answers}) == 1
    assert counting.runs == ["say"]


async def test_a_caller_that_leaves_does_not_affect_the_others() -> None:
    counting = Counting()
    talk = Talk(agent_of(counting.execute))
    sending = [asyncio.create_task(talk.send("say")) for _ in range(2)]
    await counting.gate.reached()
    await settled()
    sending[0].cancel()
    await asyncio.wait({sending[0]})
    counting.gate.open()
    assert (await sending[1]).parts[0].text == "hello"
    assert counting.runs == ["say"]


async def test_a_run_that_all_have_left_is_cancelled_and_may_be_sent_again() -> None:
    slow = SlowAgent()
    talk = Talk(slow)
    sending = [asyncio.create_task(talk.send("x")) for _ in range(2)]
    await slow.wait_running(1)
    await settled()
    for one in sending:
        one.cancel()
    await asyncio.wait(sending)
    await slow.wait_running(0)
    await talk.rest()
    again = asyncio.create_task(talk.send("x"))
    await slow.wait_running(1)
    slow.release()
    assert (await again).parts[0].text == "x"


class Clearing:
    """Says nothing until it is stopped, and then takes its time; the second run answers."""

    def __init__(self) -> None:
        self.begun, self.clearing = Gate(), Gate()
        self.runs = 0

    async def execute(self, run: Run) -> AsyncIterator[Event]:
        self.runs += 1
        if self.runs == 1:
            try:
                await self.begun.wait()
            finally:
                await self.clearing.wait()
        yield run.reply(run.text)


@pytest.mark.parametrize("first", ["send", "stream"])
async def test_who_comes_while_a_run_that_all_have_left_is_thrown_away_has_a_run_of_its_own(
    first: str,
) -> None:
    clearing = Clearing()
    talk = Talk(agent_of(clearing.execute))
    leaving = asyncio.create_task(getattr(talk, first)("x"))
    await clearing.begun.reached()
    leaving.cancel()
    await clearing.clearing.reached()
    sending = [asyncio.create_task(talk.send("x")) for _ in range(2)]
    stream = asyncio.create_task(talk.stream("x"))
    await settled()
    assert clearing.runs == 1
    clearing.clearing.open()
    answers = [*await asyncio.gather(*sending), *await stream]
    assert {one.parts[0].text for one in answers} == {"x"}
    assert len({one.message_id for one in answers}) == 1
    assert clearing.runs == 2
    await talk.rest()


async def test_a_caller_during_an_abandoned_uncancellable_run_is_rejected() -> None:
    clearing = Clearing()
    talk = Talk(agent_of(clearing.execute), patience=0.01)
    leaving = asyncio.create_task(talk.send("x"))
    await clearing.begun.reached()
    leaving.cancel()
    await clearing.clearing.reached()
    with rejected(Reason.UNAVAILABLE):
        await talk.send("x")
    clearing.clearing.open()
    await talk.rest()
    assert (await talk.send("x")).parts[0].text == "x"


async def test_an_uncancellable_run_beyond_its_limit_does_not_block_a_repeated_message() -> None:
    clearing, clock = Clearing(), HandClock()
    talk = Talk(agent_of(clearing.execute), patience=0.01, run_timeout=60.0, clock=clock)
    sending = asyncio.create_task(talk.send("x"))
    await clearing.begun.reached()
    clock.strike()
    await clearing.clearing.reached()
    again = asyncio.create_task(talk.send("x"))  # before it is known that the run ignores cancellation
    with rejected(Reason.DEADLINE_EXCEEDED):
        await sending
    assert (await again).parts[0].text == "x"
    assert clearing.runs == 2
    clearing.clearing.open()
    await talk.rest()


async def test_a_direct_answer_that_came_too_late_is_not_given_to_a_repeated_message() -> None:
    """The run has said it, and goes on beyond its limit."""
    gate, clock = Gate(), HandClock()
    runs: list[str] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        runs.append(run.text)
        yield run.reply(f"answer {len(runs)}")
        if len(runs) == 1:
            await gate.wait()

    talk = Talk(agent_of(execute), run_timeout=60.0, clock=clock)
    sending = asyncio.create_task(talk.send("x"))
    await gate.reached()
    clock.strike()
    with rejected(Reason.DEADLINE_EXCEEDED):
        await sending
    await talk.rest()
    assert (await talk.send("x")).parts[0].text == "answer 2"


async def test_a_caller_during_auth_required_gets_that_state() -> None:
    counting = Counting()
    talk = Talk(agent_of(counting.execute))
    assert (await talk.send("auth")).status.state == AUTH
    assert (await talk.send("auth")).status.state == AUTH
    counting.gate.open()
    await talk.rest()
    assert (await talk.send("auth")).status.state == COMPLETED
    assert counting.runs == ["auth"]


@pytest.mark.parametrize("text", ["error UNAUTHENTICATED", "crash"])
async def test_a_rejected_message_may_be_sent_again(text: str) -> None:
    talk = Talk(ScriptedAgent())
    reason = Reason.UNAUTHENTICATED if text != "crash" else Reason.INTERNAL_ERROR
    for _ in range(2):
        with rejected(reason):
            await talk.send(text)
    await talk.close()  # the missing result is noted after the answer
    assert len(talk.store.sends._sent) == 0


async def test_concurrent_senders_are_rejected_together() -> None:
    counting = Counting()
    talk = Talk(agent_of(counting.execute))
    sending = [asyncio.create_task(talk.send("reject")) for _ in range(3)]
    await settled()
    counting.gate.open()
    results = await asyncio.gather(*sending, return_exceptions=True)
    assert {one.reason for one in results if isinstance(one, A2AError)} == {Reason.RESOURCE_EXHAUSTED}
    assert len(results) == 3
    assert counting.runs == ["reject"]


async def test_a_follow_up_is_worked_on_once() -> None:
    counting = Counting(held=False)
    talk = Talk(agent_of(counting.execute))
    task = await talk.send("ask")
    follow = {"task_id": task.id, "message_id": "m-2"}
    answers = await asyncio.gather(*(talk.send("ask", **follow) for _ in range(3)))
    await talk.rest()
    answers.append(await talk.send("ask", **follow))
    assert {one.status.state for one in answers} == {INPUT}
    assert [one.message_id for one in answers[-1].history if one.role == hub.ROLE_USER] == ["m-1", "m-2"]
    assert counting.runs == ["ask", "ask"]
    # The first message leads to the present task.
    assert (await talk.send("ask")).id == task.id


async def test_a_follow_up_to_a_task_that_has_ended_since_is_answered_with_it() -> None:
    counting = Counting(held=False)
    talk = Talk(agent_of(counting.execute))
    task = await talk.send("ask")
    follow = {"task_id": task.id, "message_id": "m-2"}
    done = await talk.send("end", **follow)
    assert done.status.state == COMPLETED
    await talk.rest()
    assert await talk.send("end", **follow) == done
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.send("end", task_id=task.id, message_id="m-3")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.send("end", task_id=task.id, message_id="m-3")


async def test_a_message_that_waits_its_turn_is_not_queued_twice() -> None:
    counting = Counting()
    talk = Talk(agent_of(counting.execute))
    task = await talk.send("ask", configuration=IMMEDIATELY)
    await counting.gate.reached()
    follow = {"task_id": task.id, "message_id": "m-2"}
    sending = [asyncio.create_task(talk.send("end", **follow)) for _ in range(2)]
    await settled()
    counting.gate.open()
    assert {one.status.state for one in await asyncio.gather(*sending)} == {COMPLETED}
    assert counting.runs == ["ask", "end"]


async def reserved(store: Store, text: str, task_id: str = "") -> None:
    """A message that a process has reserved, and then died."""
    asked = request(text)
    await store.sends.reserve(Scope(), "m-1", digest_of(asked), task_id or "never-made")


async def test_a_message_without_a_result_is_worked_on_by_the_next_send() -> None:
    store = LateStore()
    store.open_door = True
    await reserved(store, "task x")
    talk = Talk(ScriptedAgent(), store=store)
    first = await talk.send("task x")
    assert first.status.state == COMPLETED
    await talk.rest()
    assert await talk.send("task x") == first


async def test_a_task_that_a_dead_process_began_is_the_answer() -> None:
    store = LateStore()
    store.open_door = True
    counting = Counting()
    first = Talk(agent_of(counting.execute), store=store)
    task = await first.send("x", configuration=IMMEDIATELY)
    await counting.gate.reached()
    store.die()
    talk = Talk(agent_of(counting.execute), store=store)
    waiting = asyncio.create_task(talk.send("x"))
    await settled()
    assert not waiting.done()
    await talk.engine.start()
    await talk.engine.wait_recovered()
    failed = await waiting
    assert (failed.id, failed.status.state) == (task.id, FAILED)
    assert counting.runs == ["x"]
    await talk.close()
    counting.gate.open()
    await first.rest()


async def test_a_stream_of_a_task_of_a_dead_process_continues() -> None:
    store = LateStore()
    store.open_door = True
    counting = Counting()
    first = Talk(agent_of(counting.execute), store=store)
    await first.send("x", configuration=IMMEDIATELY)
    await counting.gate.reached()
    store.die()
    talk = Talk(agent_of(counting.execute), store=store)
    events = talk.events("x")
    assert shape(await anext(events)) == ("task", WORKING)
    await talk.engine.start()
    await talk.engine.wait_recovered()
    assert [shape(one) async for one in events] == [FAILED]
    await talk.close()
    counting.gate.open()
    await first.rest()


async def test_a_reservation_that_another_replica_works_on_is_left_to_it() -> None:
    store = MemoryStore()
    await reserved(store, "task x")
    kept = store.sends._sent.get((Scope(), "m-1"))
    assert kept is not None
    store.sends._sent.put((Scope(), "m-1"), kept._replace(holder="another"), 0)
    with rejected(Reason.UNAVAILABLE) as caught:
        await Talk(ScriptedAgent(), store=store).send("task x")
    assert caught.value.retry_after == 1.0


async def test_nothing_runs_before_the_reservation_is_stored() -> None:
    counting = Counting(held=False)
    store, gate = MemoryStore(), Gate()
    reserve = store.sends.reserve

    async def slowly(*arguments: Any, **named: Any) -> Any:
        await gate.wait()
        return await reserve(*arguments, **named)

    store.sends.reserve = slowly
    talk = Talk(agent_of(counting.execute), store=store)
    sending = asyncio.create_task(talk.send("x"))
    await gate.reached()
    assert counting.runs == []
    gate.open()
    await sending
    assert counting.runs == ["x"]


async def test_a_store_that_does_not_work_is_not_asked_to_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    store = LateStore()
    talk = Talk(ScriptedAgent(), store=store)
    task = await _answered(talk, "input")
    store.fail()

    async def reserve(*_: Any, **__: Any) -> Any:
        raise AssertionError("it takes long to fail")

    monkeypatch.setattr(store.sends, "reserve", reserve)
    for call in (
        talk.send("x", message_id="m-2"),
        talk.stream("x", message_id="m-2"),
        talk.send("x", message_id="m-2", task_id=task.id),
    ):
        with rejected(Reason.UNAVAILABLE) as caught:
            await call
        assert caught.value.retry_after == 1.0
    store.error = None
    await talk.close()


async def test_a_deaf_run_does_not_keep_the_engine_from_closing() -> None:
    stop, deaf = asyncio.Event(), asyncio.Event()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        while not stop.is_set():
            deaf.set()
            with suppress(asyncio.CancelledError):
                await stop.wait()

    talk = Talk(agent_of(execute), patience=0.01)
    task = await talk.send("x", configuration=IMMEDIATELY)
    async with asyncio.timeout(PATIENCE):
        await deaf.wait()
    await talk.close()
    assert talk.engine._idempotency is not None
    assert talk.engine._idempotency._firsts == {}
    assert (await talk.get(task.id)).status.state == FAILED
    stop.set()
    await talk.rest()


async def test_a_caller_cancelled_twice_leaves_no_waiter(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(ScriptedAgent(), store=LateStore())
    task = await _answered(talk, "input")
    forgetting = asyncio.Event()
    forget = talk.store.sends.forget

    async def slowly(scope: Scope, message_id: str) -> None:
        forgetting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(talk.store.sends, "forget", slowly)
    sending = asyncio.create_task(talk.send("more", message_id="m-2", task_id=task.id))
    await talk.store.given()  # it waits for the store
    sending.cancel()
    async with asyncio.timeout(PATIENCE):
        await forgetting.wait()
    waiting = asyncio.create_task(talk.send("more", message_id="m-2", task_id=task.id))
    await settled()
    sending.cancel()
    monkeypatch.setattr(talk.store.sends, "forget", forget)
    with rejected(Reason.UNAVAILABLE):
        await waiting
    assert talk.engine._idempotency is not None
    assert talk.engine._idempotency._firsts == {}
    talk.store.commit()
    await talk.rest()


async def _answered(talk: Talk, text: str) -> hub.Task:
    talk.store.open_door = True
    task: hub.Task = await talk.send(text)
    await talk.rest()
    talk.store.open_door = False
    return task


async def test_a_stream_that_is_asked_for_again_after_its_question_ends_with_that() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("input-required", "which?")
        await gate.wait()  # it cleans up

    talk = Talk(agent_of(execute))
    first = await talk.stream("x")
    await gate.reached()
    again = await talk.stream("x")
    assert shapes(first)[-1] == INPUT
    assert shapes(again) == [("task", INPUT)]
    gate.open()


async def test_events_before_a_failure_do_not_answer_a_repeated_message() -> None:
    runs: list[str] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        runs.append(run.text)
        yield run.reply(f"answer {len(runs)}")
        if len(runs) == 1:
            raise ValueError("half-way")

    talk = Talk(agent_of(execute))
    with rejected(Reason.INTERNAL_ERROR):
        await talk.send("x")
    assert shape(await talk.send("x")) == ("message", "answer 2")
    assert shape(await talk.send("x")) == ("message", "answer 2")
