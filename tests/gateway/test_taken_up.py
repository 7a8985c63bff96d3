"""A stream of the agent that breaks is taken up again, and readers notice nothing but time."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event import Event
from a2a_bridge.core.operations import GET_TASK, SUBSCRIBE_TO_TASK
from a2a_bridge.dialects.marks import SNAPSHOT, synthesise
from a2a_bridge.gateway import feed
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, yielding
from tests.gateway.sharing_scene import (
    PATIENCE,
    QUICK,
    Seen,
    Shaky,
    broken,
    contents,
    context,
    into,
    numbered,
    read,
    sending,
    sharing,
    subscribing,
)
from tests.resume.scripted import TASK, Log, became, begun, chunk, whole

numberings = pytest.mark.parametrize("own", [True, False], ids=["agent's ids", "our ids"])


@numberings
async def test_broken_after_each_event_of_a_task_that_goes_on(own: bool) -> None:
    events = whole(4)
    for place in range(1, len(events)):
        log = Log(*events[:place], numbered=own)
        agent = Shaky(log, place)
        async with sharing(agent) as service, aclosing(numbered(service, sending())) as stream:
            seen = [await anext(stream) for _ in range(place)]
            await agent.until_open(1, begun=2)
            log.add(*events[place:])
            seen += [one async for one in stream]
        assert contents(seen) == events
        assert len({id_ for id_, _ in seen}) == len(events)
        assert len(agent.streams) == 2


@numberings
async def test_broken_after_each_event_of_a_task_that_went_on_meanwhile(own: bool) -> None:
    """Nothing is lost and nothing comes twice, though chunks that nobody heard may come in one piece."""
    events = whole(4)
    for place in range(1, len(events)):
        log = Log(*events[:-1], numbered=own)
        agent = Shaky(log, place)
        async with sharing(agent) as service, aclosing(numbered(service, sending())) as stream:
            seen = [await anext(stream) for _ in range(len(events) - 1)] if own else []
            while not own and sum(len(one.artifact_update.artifact.parts) for _, one in seen) < 4:
                seen.append(await anext(stream))
            log.add(events[-1])
            seen += [one async for one in stream]
        if own:
            assert contents(seen) == events
        assert contents(seen)[:place] == events[:place]
        assert said(seen) == [f"part {number}. " for number in range(4)]
        assert [one.status_update.status.state for _, one in seen if one.HasField("status_update")] == [
            hub.TASK_STATE_WORKING,
            hub.TASK_STATE_COMPLETED,
        ]


@pytest.mark.parametrize("texts", ["abcd", "aaaa", "abab", "abbb"])
async def test_events_that_the_snapshot_has_told_do_not_come_twice(
    texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent collects events for a subscriber before it looks at the task that it shows first."""
    monkeypatch.setattr(feed, "_SAVING", 0)
    events = [
        begun(),
        became(hub.TASK_STATE_WORKING),
        *map(chunk, texts),
        became(hub.TASK_STATE_COMPLETED),
    ]
    for place in range(1, len(events) - 1):
        for behind in range(len(events) - place):
            for more in (["n"], []):
                log = Log(*events[:-1], numbered=False, behind=behind)
                async with sharing(Shaky(log, place)) as service:
                    seen: list[Any] = []
                    reading = asyncio.create_task(into(seen, numbered(service, sending())))
                    async with asyncio.timeout(PATIENCE):
                        while said(seen) != [*texts]:  # noqa: ASYNC110  nobody tells when a reader has read
                            await asyncio.sleep(0)
                    log.add(*map(chunk, more), events[-1])
                    await reading
                assert said(seen) == [*texts, *more]
                assert [
                    one.status_update.status.state for _, one in seen if one.HasField("status_update")
                ] == [
                    hub.TASK_STATE_WORKING,
                    hub.TASK_STATE_COMPLETED,
                ]


class Ending(Log):
    """Its streams end with an event that is no end, although the task has ended."""

    last = chunk("last")

    async def unary(self, call: Any, /) -> Any:
        task = await super().unary(call)
        task.status.state = hub.TASK_STATE_COMPLETED
        return task

    async def stream(self, call: Any, /) -> Any:
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                yield event
                if event.message == self.last:
                    return


async def test_a_task_that_is_too_large_to_know_does_not_just_end() -> None:
    log = Ending(begun(), numbered=False)
    agent = Shaky(log, 1)
    async with (
        sharing(agent, replace(QUICK, task_size=500, events=1)) as service,
        aclosing(numbered(service, sending())) as stream,
    ):
        await anext(stream)
        await agent.until_open(1, begun=2)
        for one in (*[chunk("x" * 50_000)] * 3, Ending.last):
            log.add(one)
            assert (await anext(stream))[1] == one
        with pytest.raises(A2AError) as caught:
            await anext(stream)
    assert caught.value.reason is Reason.UNAVAILABLE


class Unhurried(Log):
    """An older agent, whose stream the dialect begins with a snapshot; it takes its time to tell of its task."""

    async def unary(self, call: Any, /) -> Any:
        loop = asyncio.get_running_loop()
        late = loop.create_future()
        loop.call_later(4 * QUIET, late.set_result, None)
        await late
        return await super().unary(call)

    async def stream(self, call: Any, /) -> Any:
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                if call.operation is SUBSCRIBE_TO_TASK and event.message.HasField("task"):
                    synthesise(event.message.task, SNAPSHOT)
                yield event


#: seconds in which an agent has to say something, here
QUIET = 0.05


async def test_an_agent_that_takes_its_time_to_tell_whether_a_piece_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "_QUIET", QUIET)
    events = [begun(), chunk("a"), chunk("b")]
    log = Unhurried(*events, numbered=False, behind=1)
    async with sharing(Shaky(log, 2)) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream) for _ in range(3)]
        log.add(chunk("c"))
        seen.append(await anext(stream))
        log.add(became(hub.TASK_STATE_COMPLETED))
        seen += await rest(stream)
    assert said(seen) == ["a", "b", "c"]


async def test_a_piece_that_may_be_new_is_told() -> None:
    """What looks like the last piece of the snapshot, but stands behind it in the task."""
    log = Log(begun(), chunk("x"), numbered=False)
    agent = Shaky(log, 1)
    async with sharing(agent) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream), await anext(stream)]
        await agent.until_open(1, begun=2)
        log.add(chunk("x"))
        seen.append(await anext(stream))
        log.add(chunk("x"), became(hub.TASK_STATE_COMPLETED))
        seen += await rest(stream)
    assert said(seen) == ["x", "x", "x"]


class Lagging(Log):
    """It shows what happens before it saves it: not in the first look at the task since."""

    saved = 2

    async def unary(self, call: Any, /) -> Any:
        task = Log(*self.events[: self.saved]).task()
        self.saved = len(self.events)
        return task


async def test_a_piece_that_is_shown_before_it_is_saved_is_told() -> None:
    log = Lagging(begun(), chunk("x"), numbered=False)
    agent = Shaky(log, 1)
    async with sharing(agent) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream), await anext(stream)]
        await agent.until_open(1, begun=2)
        log.add(chunk("x"), became(hub.TASK_STATE_COMPLETED))
        seen += await rest(stream)
    assert said(seen) == ["x", "x"]


@numberings
async def test_broken_after_each_event_of_a_task_that_ended_meanwhile(own: bool) -> None:
    events = whole(4)
    for place in range(1, len(events)):
        log = Log(*events, numbered=own)
        agent = Shaky(log, place)
        async with sharing(agent) as service:
            seen = await read(service, sending())
            assert contents(seen)[:place] == events[:place]
            assert said(seen) == [f"part {number}. " for number in range(4)]
            assert seen[-1][1].status_update.status.state == hub.TASK_STATE_COMPLETED
            assert not own or contents(seen) == events
            assert agent.gets == (0 if own else 1)
            # It stays resumable, too.
            for number, (id_, _) in enumerate(seen):
                assert await read(service, subscribing(id_)) == seen[number + 1 :]


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
        assert found[0][-1][1] == events[-1]
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
            agent.refused = QUICK.attempts - 1
            seen += [await anext(stream) for _ in range(3)]
            await agent.until_open(1, begun=1 + QUICK.attempts)
            log.add(*events[4:])
            seen += [one async for one in stream]
    assert contents(seen) == events
    assert len(agent.streams) == 1 + QUICK.attempts


@numberings
async def test_an_agent_that_stays_away_is_the_first_error(own: bool) -> None:
    events = whole(4)
    log = Log(*events[:4], numbered=own)
    agent = Shaky(log, 4)
    async with sharing(agent, replace(QUICK, attempts=3)) as service:
        stream = numbered(service, sending())
        seen = [await anext(stream)]
        agent.refused = 100
        with pytest.raises(A2AError) as caught:
            await into(seen, stream)
        assert caught.value.message == broken().message
        assert contents(seen) == events[:4]
        assert len(agent.streams) == 4
        # And when it is back, so is the stream.
        agent.refused = 0
        log.add(*events[4:])
        seen += await read(service, subscribing(seen[-1][0]))
        assert contents(seen)[-1] == events[-1]
        assert said(seen) == [f"part {number}. " for number in range(4)]


async def test_a_stream_that_breaks_again_and_again_without_an_event_ends() -> None:
    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3, *[1] * 100)
    async with sharing(agent) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError):
            await into(seen, numbered(service, sending()))
    assert contents(seen) == log.events
    assert len(agent.streams) == 1 + QUICK.attempts


class Greeting(Log):
    """To each subscriber it tells the status once more, and then the connection breaks."""

    async def stream(self, call: Any, /) -> Any:
        if call.operation is SUBSCRIBE_TO_TASK:
            yield Event(became(hub.TASK_STATE_WORKING))
            raise broken()
        yield Event(begun())
        raise broken()


async def test_what_is_told_to_each_new_subscriber_is_no_progress() -> None:
    agent = Shaky(Greeting(begun(), numbered=False))
    # What comes later than the longest pause would be.
    async with sharing(agent, replace(QUICK, longest_pause=PATIENCE)) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError):
            await into(seen, numbered(service, sending()))
    assert len(agent.streams) == len(seen) == 1 + QUICK.attempts


async def test_what_subscriptions_begin_with_waits_for_readers_too() -> None:
    agent = Shaky(Greeting(begun(), numbered=False))
    options = replace(QUICK, attempts=100, window=4)
    async with sharing(agent, options) as service, aclosing(numbered(service, sending())) as stream:
        await anext(stream)
        await agent.until_open(1, begun=1 + options.window)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await agent.until_open(1, begun=2 + options.window)
        for _ in range(options.window):
            await anext(stream)
        await agent.until_open(1, begun=2 + options.window)


@pytest.mark.parametrize("reason", [Reason.TASK_NOT_FOUND, Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED])
async def test_what_the_agent_refuses_meanwhile_is_told(reason: Reason) -> None:
    async def refuse(call: Any) -> Any:
        raise A2AError(reason)

    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        await anext(stream)
        agent.service = refusing = Probe()
        refusing.on_stream = yielding(A2AError(reason))
        refusing.on_unary = refuse
        with pytest.raises(A2AError) as caught:
            await rest(stream)
    assert caught.value.reason is reason


@pytest.mark.parametrize("reason", [Reason.TASK_NOT_FOUND, Reason.METHOD_NOT_FOUND, Reason.INVALID_PARAMS])
async def test_a_refused_subscription_of_a_task_that_is_there_is_the_break(reason: Reason) -> None:
    """Some agents forget the streams of a task that they still have, and say that there is no such task."""
    log = Log(*whole(4)[:3], numbered=False)
    agent = Shaky(log, 3)
    async with sharing(agent) as service:
        stream = numbered(service, sending())
        await anext(stream)
        agent.service = refusing = Probe()
        refusing.on_stream = yielding(A2AError(reason))
        refusing.on_unary = log.unary
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
async def test_what_the_agent_itself_says_is_no_break(reason: Reason) -> None:
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


async def test_lost_events_whose_number_nobody_knows_end_the_stream() -> None:
    """The agent's own numbers cannot be gone on with: whoever subscribes again is told of the gap."""
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

    joined = asyncio.Event()
    probe = Probe()
    probe.on_stream = limited
    probe.on_unary = log.unary
    async with sharing(probe) as service:
        hurried = context().replace(deadline=time.monotonic() + 60)
        first = numbered(service, sending(hurried))
        await anext(first)
        second = numbered(service, subscribing())
        await anext(second)
        joined.set()
        log.add(*events[3:])
        assert (await rest(second))[-1][1] == events[-1]
        assert probe.calls[-1].context.deadline is None
        await first.aclose()


async def test_what_an_agent_said_meanwhile_is_told() -> None:
    said_first = hub.Message(message_id="a", role=hub.ROLE_AGENT, parts=[hub.Part(text="one")])
    working = became(hub.TASK_STATE_WORKING)
    working.status_update.status.message.CopyFrom(said_first)
    again = became(hub.TASK_STATE_WORKING)
    again.status_update.status.message.message_id = "b"
    again.status_update.status.message.role = hub.ROLE_AGENT
    events = [begun(), chunk("x"), working, again, became(hub.TASK_STATE_COMPLETED)]
    log = Log(*events, numbered=False)
    async with sharing(Shaky(log, 2)) as service:
        seen = contents(await read(service, sending()))
    assert [one.status_update.status.message.message_id for one in seen[2:]] == ["a", "b", ""]


async def rest(stream: Any) -> list[Any]:
    return [one async for one in stream]


def said(seen: list[Any]) -> list[str]:
    """The parts of the artifact as a reader puts them together."""
    task = hub.Task(id=TASK)
    for _, event in seen:
        if event.HasField("artifact_update"):
            assert event.artifact_update.append or not task.artifacts
            task.artifacts.add().CopyFrom(event.artifact_update.artifact)
    return [part.text for artifact in task.artifacts for part in artifact.parts]
