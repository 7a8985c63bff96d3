"""A broken stream of the agent is resumed: after the last event, or with a gap if the agent cannot."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_TASK, SUBSCRIBE_TO_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, waiting, yielding
from tests.gateway.sharing_scene import (
    PATIENCE,
    QUICK,
    Seen,
    Shaky,
    broken,
    contents,
    context,
    folded,
    gaps,
    into,
    numbered,
    read,
    sending,
    sharing,
    subscribing,
)
from tests.resume.scripted import TASK, Log, became, begun, whole

numberings = pytest.mark.parametrize("own", [True, False], ids=["agent's ids", "our ids"])


@numberings
async def test_broken_after_each_event_of_a_working_task(own: bool) -> None:
    events = whole(4)
    for place in range(1, len(events)):
        log = Log(*events[:place], numbered=own)
        agent = Shaky(log, place)
        async with sharing(agent) as service, aclosing(numbered(service, sending())) as stream:
            seen = [await anext(stream) for _ in range(place)]
            if own:
                reading = asyncio.create_task(rest(stream))
                await agent.until_open(1, begun=2)
            else:
                seen.append(await anext(stream))
                assert gaps([seen[-1][1]]) == 1
                reading = asyncio.create_task(rest(stream))
            log.add(*events[place:])
            seen += await reading
        told = contents(seen)
        assert [one for one in told if gaps([one]) == 0] == events
        assert gaps(told) == (0 if own else 1)
        assert len({id_ for id_, _ in seen}) == len(seen)
        assert len(agent.streams) == 2


@numberings
async def test_broken_after_each_event_of_a_task_that_ended_meanwhile(own: bool) -> None:
    events = whole(4)
    for place in range(1, len(events)):
        log = Log(*events, numbered=own)
        agent = Shaky(log, place)
        async with sharing(agent) as service:
            seen = await read(service, sending())
            assert (contents(seen)[:place], folded(contents(seen))) == (events[:place], log.task())
            if own:
                assert contents(seen) == events
                continue
            # One gap, and the task after it.
            assert (gaps(contents(seen)), len(seen)) == (1, place + 1)
            assert agent.gets == 1
            # It can still be resumed.
            for number, (id_, _) in enumerate(seen):
                assert await read(service, subscribing(id_)) == seen[number + 1 :]


@pytest.mark.parametrize("place", [1, 3, 5])
async def test_a_caller_leaves_during_a_read_and_another_one_continues(place: int) -> None:
    """The agent's stream is not that of the caller that began it."""
    events = whole(4)
    log = Log(*events[:place])
    agent = Shaky(log)
    async with sharing(agent) as service, aclosing(numbered(service, sending())) as first:
        for _ in range(place):
            await anext(first)
        waiting = asyncio.create_task(anext(first))
        await asyncio.sleep(0)
        async with aclosing(numbered(service, subscribing())) as second:
            assert (await anext(second))[1].task == log.task()
            reading = asyncio.create_task(rest(second))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert agent.open == 1
            log.add(*events[place:])
            assert contents(await reading) == events[place:]
    assert len(agent.streams) == 1


@numberings
async def test_a_stream_costs_one_task_whoever_reads_it(own: bool) -> None:
    log = Log(*whole(4)[:3], numbered=own)
    async with sharing(Shaky(log)) as service:
        before = asyncio.all_tasks()
        readers = [numbered(service, sending()), *(numbered(service, subscribing()) for _ in range(3))]
        for reader in readers:
            await anext(reader)
            assert len(asyncio.all_tasks() - before) == 1
        for reader in readers:
            await reader.aclose()


async def test_a_slow_reader_does_not_hold_back_a_fast_one() -> None:
    events = whole(6)
    log = Log(*events[:5])
    agent = Shaky(log)
    async with sharing(agent) as service, aclosing(numbered(service, sending())) as slow:
        for _ in range(3):
            await anext(slow)  # the last two come from the agent's stream
        assert contents(await read(service, subscribing("1"), 4)) == events[1:5]
        assert [(await anext(slow))[1] for _ in range(2)] == events[3:5]
        log.add(*events[5:])
        assert contents(await rest(slow)) == events[5:]
    assert len(agent.streams) == 1


@numberings
async def test_all_readers_are_kept(own: bool) -> None:
    events = whole(6)
    log = Log(*events[:3], numbered=own)
    agent = Shaky(log, 4)
    async with sharing(agent) as service:
        readers = [numbered(service, sending())]
        await anext(readers[0])
        readers += [numbered(service, subscribing()) for _ in range(2)]
        for reader in readers[1:]:
            await anext(reader)
        log.add(*events[3:])
        found = await asyncio.gather(*(rest(reader) for reader in readers))
        assert [each[-3:] for each in found] == [found[0][-3:]] * 3
        last = found[0][-1][1]
        assert (last.task.status.state if gaps([last]) else last) == (
            hub.TASK_STATE_COMPLETED if gaps([last]) else events[-1]
        )
        assert own or gaps(contents(found[0])) == 1
        assert len(agent.streams) == 2


@numberings
async def test_an_agent_that_is_away_for_a_while(own: bool) -> None:
    events = whole(4)
    log = Log(*events[:4], numbered=own)
    agent = Shaky(log, 4)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        async with aclosing(stream):
            seen = [await anext(stream)]
            agent.rejected = QUICK.attempts - 1
            seen += [await anext(stream) for _ in range(3)]
            reading = asyncio.create_task(rest(stream))
            await agent.until_open(1, begun=1 + QUICK.attempts)
            log.add(*events[4:])
            seen += await reading
    told = contents(seen)
    assert ([one for one in told if gaps([one]) == 0], gaps(told)) == (events, (0 if own else 1))
    assert len(agent.streams) == 1 + QUICK.attempts


@numberings
async def test_an_agent_that_stays_away_is_the_first_error(own: bool) -> None:
    events = whole(4)
    log = Log(*events[:4], numbered=own)
    agent = Shaky(log, 4)
    async with sharing(agent, replace(QUICK, attempts=3)) as service:
        stream = numbered(service, sending())
        seen = [await anext(stream)]
        agent.rejected = 100
        with pytest.raises(A2AError) as caught:
            await into(seen, stream)
        assert caught.value.message == broken().message
        assert contents(seen) == events[:4]
        assert len(agent.streams) == 4
        # And when it is back, the stream continues.
        agent.rejected = 0
        log.add(*events[4:])
        seen += await read(service, subscribing(seen[-1][0]))
        assert folded(contents(seen)) == log.task()


async def test_a_stream_that_breaks_again_and_again_without_an_event_ends() -> None:
    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3, *[1] * 100)
    async with sharing(agent) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError):
            await into(seen, numbered(service, sending()))
    assert (contents(seen)[:-1], gaps(contents(seen))) == (log.events, 1)
    assert len(agent.streams) == 1 + QUICK.attempts


class Greeting(Log):
    """It sends the status again to each subscriber, and then the connection breaks."""

    async def stream(self, call: Any, /) -> Any:
        if call.operation is SUBSCRIBE_TO_TASK:
            yield Event(became(hub.TASK_STATE_WORKING))
            raise broken()
        yield Event(begun())
        raise broken()


async def test_events_repeated_for_each_subscriber_are_no_progress() -> None:
    agent = Shaky(Greeting(begun(), numbered=False))
    # Later events would come after the longest pause.
    async with sharing(agent, replace(QUICK, longest_pause=PATIENCE)) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError):
            await into(seen, numbered(service, sending()))
    assert len(agent.streams) == 1 + QUICK.attempts
    assert gaps(contents(seen)) == QUICK.attempts


async def test_first_events_of_subscriptions_respect_back_pressure() -> None:
    agent = Shaky(Greeting(begun(), numbered=False))
    options = replace(QUICK, attempts=100, window=4)
    async with sharing(agent, options) as service, aclosing(numbered(service, sending())) as stream:
        await anext(stream)
        # Each subscription adds a gap and a status.
        began = 1 + options.window // 2
        await agent.until_open(1, begun=began)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await agent.until_open(1, begun=1 + began)
        for _ in range(options.window):
            await anext(stream)
        reading = asyncio.create_task(anext(stream))
        await agent.until_open(1, begun=1 + began)
        await reading


@pytest.mark.parametrize("reason", [Reason.TASK_NOT_FOUND, Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED])
async def test_rejections_of_the_agent_during_a_break_are_returned(reason: Reason) -> None:
    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        await anext(stream)
        agent.service = rejecting = Probe()
        rejecting.on_stream = yielding(A2AError(reason))
        rejecting.on_unary = answering(A2AError(reason))
        with pytest.raises(A2AError) as caught:
            await rest(stream)
    assert caught.value.reason is reason


@pytest.mark.parametrize("reason", [Reason.TASK_NOT_FOUND, Reason.METHOD_NOT_FOUND, Reason.INVALID_PARAMS])
async def test_a_rejected_subscription_of_a_task_that_is_there_is_the_break(reason: Reason) -> None:
    """Some agents forget the streams of a task that they still have, and answer that there is no such task."""
    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        await anext(stream)
        agent.service = rejecting = Probe()
        rejecting.on_stream = yielding(A2AError(reason))
        rejecting.on_unary = log.unary
        with pytest.raises(A2AError, match="connection broke") as caught:
            await rest(stream)
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_an_agent_without_subscriptions_is_the_break_itself() -> None:
    task = begun().task
    probe = Probe()

    async def unary(call: Any) -> Any:
        assert call.operation is GET_TASK
        return task

    probe.on_unary = unary
    probe.on_stream = yielding(begun(), broken())
    async with sharing(probe) as service:
        stream = numbered(service, sending())
        await anext(stream)
        probe.on_stream = yielding(A2AError(Reason.UNSUPPORTED_OPERATION, "no subscriptions here"))
        with pytest.raises(A2AError):
            await anext(stream)


@pytest.mark.parametrize("reason", [Reason.INTERNAL_ERROR, Reason.INVALID_AGENT_RESPONSE])
async def test_an_error_of_the_agent_itself_is_no_break(reason: Reason) -> None:
    probe = Probe()
    probe.on_stream = yielding(*whole(4)[:3], A2AError(reason, "says the agent"))
    async with sharing(probe) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError, match="says the agent"):
            await into(seen, numbered(service, sending()))
        assert len(seen) == 3
        assert len(probe.calls) == 1


@pytest.mark.parametrize("state", [hub.TASK_STATE_COMPLETED, hub.TASK_STATE_INPUT_REQUIRED])
async def test_a_break_after_the_last_event_is_the_end(state: hub.TaskState) -> None:
    log = Log(begun(), became(state), numbered=False)
    agent = Shaky(log, 2)
    async with sharing(agent) as service:
        assert contents(await read(service, sending())) == log.events
        assert len(agent.streams) == 1


@pytest.mark.parametrize("state", [hub.TASK_STATE_COMPLETED, hub.TASK_STATE_INPUT_REQUIRED])
async def test_a_break_after_a_resumed_task_is_the_end(state: hub.TaskState) -> None:
    """An agent sends a task in place of an update, as the first event after the id of the caller."""
    task = begun()
    task.task.status.state = state
    log = Log(begun(), became(hub.TASK_STATE_WORKING), task)
    agent = Shaky(log, 1)
    async with sharing(agent) as service:
        assert await read(service, subscribing(log.id(2))) == [(log.id(3), task)]
        assert len(agent.streams) == 1


async def test_a_task_that_goes_on_while_the_gateway_closes_opens_no_stream() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    probe = Probe()
    probe.on_stream = yielding(begun(), became(hub.TASK_STATE_INPUT_REQUIRED))

    async def unary(call: Any) -> Any:
        asked.set()
        await answered.wait()
        return hub.Task(id=TASK, status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    probe.on_unary = unary
    async with sharing(probe, resumes=False) as service:
        (first, _), _ = await read(service, sending())
        streams = len(probe.calls)
        again = asyncio.create_task(read(service, subscribing(first)))
        await asyncio.wait_for(asked.wait(), PATIENCE)
        await service.streams.aclose()
        answered.set()
        with pytest.raises(A2AError, match="given up"):
            await asyncio.wait_for(again, PATIENCE)
        assert len(probe.calls) == streams + 1  # the question how the task is


async def test_a_stream_that_begins_while_the_gateway_closes_is_not_kept() -> None:
    """Its reader gets the agent's stream as it is, which ends with the reader."""
    opened, answered = asyncio.Event(), asyncio.Event()
    log, probe = Log(*whole(3)[:2], numbered=False), Probe()

    async def late(call: Any) -> Any:
        opened.set()
        await answered.wait()
        async with aclosing(log.stream(call)) as source:
            async for event in source:
                yield event

    probe.on_stream = late
    agent = Shaky(probe)
    async with sharing(agent, resumes=False) as service:
        first = asyncio.create_task(read(service, sending(), 1))
        await asyncio.wait_for(opened.wait(), PATIENCE)
        await service.streams.aclose()
        answered.set()
        assert contents(await asyncio.wait_for(first, PATIENCE)) == log.events[:1]
        assert (len(service.streams), agent.open) == (0, 0)


async def test_a_subscription_whose_stream_is_given_up_during_a_question_is_closed() -> None:
    """An agent without ids is asked for the task if a new subscription does not begin with it."""
    probe, opened = Probe(), list[Events]()
    open_stream = probe.stream

    async def events(call: Any) -> Any:
        if call.operation is SUBSCRIBE_TO_TASK:
            yield became(hub.TASK_STATE_WORKING)
            await asyncio.Event().wait()
        yield begun()
        raise broken()

    def kept(call: Any) -> Events:
        """The garbage collector closes no stream."""
        opened.append(open_stream(call))
        return opened[-1]

    probe.on_stream, probe.on_unary = events, waiting
    probe.stream = kept  # type: ignore[method-assign]
    async with sharing(probe, resumes=False) as service, aclosing(numbered(service, sending())) as stream:
        await anext(stream)
        async with asyncio.timeout(PATIENCE):
            while probe.last.operation is not GET_TASK:
                await probe.wait_changed()
        await service.streams.aclose()
        await probe.wait_running(0)
    assert len(opened) == 2


async def test_an_unknown_number_of_lost_events_ends_the_stream() -> None:
    """The agent's own numbers cannot be resumed after: new subscribers get a gap."""
    events = whole(6)
    agent = Shaky(Log(*events[:6], kept=5), 3)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        seen: list[Seen] = []
        with pytest.raises(A2AError) as caught:
            await into(seen, stream)
        assert (caught.value.reason, caught.value.retry_after) == (Reason.UNAVAILABLE, 0.0)
        assert [id_ for id_, _ in seen] == ["1", "2", "3"]
        call = subscribing("3")
        async with aclosing(numbered(service, call)) as again:
            assert (await anext(again))[0] == "6"


async def test_the_deadline_of_the_first_caller_is_not_that_of_others() -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=False)
    deadline = A2AError(Reason.DEADLINE_EXCEEDED)

    async def limited(call: Any) -> Any:
        if call.context.deadline is None:
            async with aclosing(log.stream(call)) as source:
                async for event in source:
                    yield event
            return
        for event in events[:3]:
            yield event
        await asyncio.wait_for(joined.wait(), PATIENCE)
        raise deadline

    joined, probe = asyncio.Event(), Probe()
    probe.on_stream = limited
    probe.on_unary = log.unary
    async with sharing(probe) as service:
        hurried = context().replace(deadline=time.monotonic() + 60)
        first = numbered(service, sending(hurried))
        await anext(first)
        second = numbered(service, subscribing())
        seen = await anext(second)
        joined.set()
        log.add(*events[3:])
        assert folded(contents([seen, *await rest(second)])) == log.task()
        assert probe.calls[-1].context.deadline is None
        await first.aclose()


async def rest(stream: Any) -> list[Any]:
    return [one async for one in stream]
