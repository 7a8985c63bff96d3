"""One stream of the agent for all readers of a caller: sharing, joining and leaving, and the kept events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import RESUME_URI, GapMark, gap_of, resume_id
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects.annotation import BEGINNING, synthetic_kind
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, holding, yielding
from tests.gateway.sharing_scene import (
    QUICK,
    Seen,
    Shaky,
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
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.resume.scripted import TASK, Anew, Log, became, begun, chunk, whole

numberings = pytest.mark.parametrize("own", [True, False], ids=["agent's ids", "our ids"])


async def test_a_subscriber_joins_the_stream_of_a_message() -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=False)
    agent = Shaky(log)
    async with sharing(agent) as service, aclosing(numbered(service, sending())) as first:
        seen = [await anext(first) for _ in range(3)]
        async with aclosing(numbered(service, subscribing())) as second:
            at, snapshot = await anext(second)
            assert at == seen[-1][0]
            assert snapshot.task == log.task()
            log.add(*events[3:])
            rest = [one async for one in first]
            assert [one async for one in second] == rest
        assert contents(seen + rest) == events
        assert (len(agent.streams), agent.gets) == (1, 0)


async def test_subscribers_share_one_subscription() -> None:
    events = whole(4)
    log = Log(*events[:2])
    agent = Shaky(log)
    async with sharing(agent) as service:
        readers = [numbered(service, subscribing()) for _ in range(3)]
        heads = [await anext(one) for one in readers]
        assert heads[0] == heads[1] == heads[2]
        log.add(*events[2:])
        tails = [[one async for one in reader] for reader in readers]
        assert tails[0] == tails[1] == tails[2]
        assert contents(tails[0]) == events[2:]
    assert len(agent.streams) == 1


@each(
    ("one", "other", "shared"),
    [
        (context(), context(), True),
        (context(authorization="Bearer a"), context(authorization="Bearer a"), True),
        (context(authorization="Bearer a"), context(authorization="Bearer b"), False),
        (context(authorization="Bearer a"), context(), False),
        (context(tenant="a"), context(tenant="b"), False),
        (context(owner="a"), context(owner="b"), False),
        (context(owner="a", authorization="x"), context(owner="a", authorization="x"), True),
        (context(owner="a", authorization="x"), context(owner="a", authorization="y"), False),
        (context(x_api_key="a"), context(x_api_key="b"), False),
        (context(x_api_key="a"), context(x_api_key="a"), True),
        (context(x_api_key="a"), context(), False),
        (context(x_other="a"), context(x_other="b"), True),  # which is not forwarded
        (context(traceparent="a"), context(traceparent="b"), True),
    ],
)
async def test_only_equal_callers_share_a_stream(one: CallContext, other: CallContext, shared: bool) -> None:
    log = Log(*whole(2)[:2])
    agent = Shaky(log)
    forward = ("authorization", "x-api-key", "traceparent")
    async with sharing(agent, forward=forward) as service:
        streams = [numbered(service, subscribing(called=each)) for each in (one, other)]
        for stream in streams:
            await anext(stream)
        assert len(agent.streams) == (1 if shared else 2)
        for stream in streams:
            await stream.aclose()


async def test_ids_of_others_are_worth_nothing() -> None:
    events = whole(4)
    log = Log(*events[:4], numbered=False)
    agent = Shaky(log)
    async with (
        sharing(agent) as service,
        aclosing(numbered(service, sending(context(authorization="a")))) as own,
    ):
        seen = [await anext(own) for _ in range(3)]
        thief = context(seen[0][0], authorization="b")
        (_, snapshot), *_ = await read(service, subscribing(called=thief), 1)
        assert gap_of(snapshot) is not None
        assert len(agent.streams) == 2
        assert agent.streams[1].context.parameters == {"authorization": "b"}


@numberings
async def test_who_leaves_ends_nothing_for_others(own: bool) -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=own)
    agent = Shaky(log)
    async with sharing(agent, replace(QUICK, linger=0)) as service:
        first, second = numbered(service, sending()), numbered(service, subscribing())
        await anext(first)
        await anext(second)
        await first.aclose()
        log.add(*events[3:])
        rest = contents([one async for one in second])
        # It joined after the first had read one event; events that it has seen are not repeated.
        assert (rest, rest[-1]) == (events[-len(rest) :], events[-1])
        assert len(agent.streams) == 1
    await agent.until_open(0)


@numberings
async def test_the_last_reader_ends_the_agents_stream(own: bool) -> None:
    agent = Shaky(Log(*whole(4)[:3], numbered=own))
    # The stream of an agent that can resume is closed at once.
    options = QUICK if own else replace(QUICK, linger=0)
    async with sharing(agent, options) as service:
        await read(service, sending(), 2)
        await agent.until_open(0)
        assert len(agent.streams) == 1


async def test_a_caller_that_comes_back_in_time_finds_the_stream() -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=False)
    agent = Shaky(log)
    async with sharing(agent) as service:
        seen = await read(service, sending(), 2)
        log.add(*events[3:5])
        seen += await read(service, subscribing(seen[-1][0]), 2)
        log.add(*events[5:])
        seen += await read(service, subscribing(seen[-1][0]))
        assert contents(seen) == events
        assert len(agent.streams) == 1
        assert await read(service, subscribing(seen[-1][0])) == []


async def test_an_abandoned_stream_ends_and_its_events_are_kept() -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=False)
    agent = Shaky(log)
    async with sharing(agent, replace(QUICK, linger=0.01)) as service:
        seen = await read(service, sending(), 2)
        await agent.until_open(1)
        await agent.until_open(0)
        log.add(*events[3:])
        seen += await read(service, subscribing(seen[-1][0]))
        # The chunks without a reader came in one piece.
        assert (folded(contents(seen)), contents(seen)[:3]) == (log.task(), events[:3])
        assert len(agent.streams) == 2


async def test_resumed_at_each_event_after_the_end() -> None:
    events = whole(4)
    async with sharing(Shaky(Log(*events, numbered=False))) as service:
        seen = await read(service, sending())
        assert contents(seen) == events
        for place, (id_, _) in enumerate(seen):
            assert await read(service, subscribing(id_)) == seen[place + 1 :]


class Asking(Log):
    """Its streams end with a request for input, as long as that is the last event."""

    async def stream(self, call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                yield event
                if event.message == self.events[-1] == became(hub.TASK_STATE_INPUT_REQUIRED):
                    return


async def test_a_question_that_was_answered_ends_no_resumed_stream() -> None:
    asked = [begun(), became(hub.TASK_STATE_WORKING), became(hub.TASK_STATE_INPUT_REQUIRED)]
    log = Asking(*asked, numbered=False)
    async with sharing(Shaky(log)) as service:
        seen = await read(service, sending())
        assert contents(seen) == asked
        assert await read(service, subscribing(seen[0][0])) == seen[1:]
        # Answered by a call whose stream this gateway does not keep.
        log.add(became(hub.TASK_STATE_WORKING), chunk("done"), became(hub.TASK_STATE_COMPLETED))
        again = await read(service, subscribing(seen[0][0]))
        assert again[:2] == seen[1:]
        assert folded([seen[0][1], *contents(again)]) == log.task()


@numberings
async def test_a_stream_that_breaks_at_an_answered_question_is_resumed(own: bool) -> None:
    asked = [begun(), became(hub.TASK_STATE_WORKING), became(hub.TASK_STATE_INPUT_REQUIRED)]
    rest = [became(hub.TASK_STATE_WORKING), chunk("done"), became(hub.TASK_STATE_COMPLETED)]
    log = Log(*asked, *rest, numbered=own)
    async with sharing(Shaky(log, 3)) as service:
        seen = await read(service, sending())
        assert (contents(seen)[:3], folded(contents(seen))) == (asked, log.task())


@pytest.mark.parametrize("after", ["99", "other-3", "never"])
async def test_an_unknown_id_is_a_gap(after: str) -> None:
    events = whole(4)
    log = Log(*events[:4], numbered=False)
    agent = Shaky(log)
    async with sharing(agent) as service:
        call = subscribing(after)
        async with aclosing(numbered(service, call)) as stream:
            id_, snapshot = await anext(stream)
            assert gap_of(snapshot) == GapMark(after, id_)
            # A caller that joins has missed nothing.
            (_, joined), *_ = await read(service, subscribing(), 1)
            assert joined.task == log.task()
            log.add(*events[4:])
            assert contents([one async for one in stream]) == events[4:]


async def test_an_unknown_id_of_a_task_that_has_ended_is_a_gap_and_the_end() -> None:
    log = Log(*whole(4), numbered=False)
    async with sharing(Shaky(log)) as service:
        call = subscribing("gone-3")
        [(_, only)] = await read(service, call)
        mark = gap_of(only)
        assert mark is not None
        assert mark.after == "gone-3"
        assert only.task.status.state == hub.TASK_STATE_COMPLETED
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await read(service, subscribing())


async def test_a_caller_that_comes_back_while_the_gateway_hangs_up() -> None:
    events = whole(4)
    log = Log(*events[:3], numbered=False)
    agent = Shaky(log)
    async with sharing(agent, replace(QUICK, linger=0)) as service:
        seen = await read(service, sending(), 2)
        # Nothing has run in between: the old stream is being closed.
        rest = asyncio.create_task(read(service, subscribing(seen[-1][0])))
        await agent.until_open(1, begun=2)
        log.add(*events[3:])
        again = contents(await rest)
        assert gaps(again) == 1
        assert folded(contents(seen) + again) == log.task()


async def test_an_id_of_ours_that_is_kept_no_longer_is_a_gap_and_the_agent_is_not_asked() -> None:
    events = whole(40)
    log = Log(*events[:-1], numbered=False)
    agent = Shaky(log)
    async with sharing(agent, replace(QUICK, events=8, window=4)) as service:
        stream = numbered(service, sending())
        async with aclosing(stream):
            seen = [await anext(stream) for _ in range(len(events) - 1)]
            (id_, snapshot), *_ = await read(service, subscribing(seen[0][0]), 1)
            assert gap_of(snapshot) == GapMark(seen[0][0], id_)
            del snapshot.task.metadata.fields[RESUME_URI]
            snapshot.task.ClearField("metadata")
            assert snapshot.task == log.task()
            assert id_ == seen[-1][0]
        assert len(agent.streams) == 1


async def test_the_agents_ids_are_passed_on_and_asked_for() -> None:
    events = whole(4)
    log = Log(*events, epoch="run-7")
    agent = Shaky(log)
    async with sharing(agent) as service:
        seen = await read(service, sending())
        assert [id_ for id_, _ in seen] == [log.id(number) for number in range(1, len(events) + 1)]
        # The id may come from another gateway, or from this one before a restart.
        for number in range(len(events) + 1):
            rest = await read(service, subscribing(log.id(number)))
            assert contents(rest) == events[number:]
            assert agent.streams[-1].context.parameters["last-event-id"] == log.id(number)


async def test_numbers_of_connections_are_no_ids() -> None:
    """A caller that returns finds its position, whatever number the agent used in another connection."""
    events = [begun(), became(hub.TASK_STATE_WORKING), *map(chunk, "abcdef")]
    log = Anew(*events[:3])
    async with sharing(log, resumes=False) as service:
        seen = await read(service, sending(), 3)
        log.add(*events[3:5])
        async with aclosing(numbered(service, subscribing())) as other:
            await anext(other)
            log.add(*events[5:])
            while (await anext(other))[1] != events[-1]:
                pass
            log.add(became(hub.TASK_STATE_COMPLETED))
            rest = await read(service, subscribing(seen[-1][0]))
            assert contents(seen + rest) == log.events
        # Such a number is never sent to the agent.
        (_, task), *_ = await read(service, subscribing("1"))
        assert gap_of(task) is not None
        assert task.task.artifacts == log.task().artifacts


async def test_ids_that_begin_at_0() -> None:
    """The first event is an update: there is no number before it."""
    events = [became(hub.TASK_STATE_WORKING), chunk("a"), became(hub.TASK_STATE_COMPLETED)]

    async def stream(call: Call[Any, Any], /) -> Events:
        after = resume_id(call.context)
        for number in range(int(after) + 1 if after else 0, len(events)):
            yield Event(events[number], str(number))

    async def unary(call: Call[Any, Any], /) -> hub.Task:
        return begun().task

    agent = Probe()
    agent.on_stream, agent.on_unary = stream, unary
    for breaks in range(1, len(events)):
        async with sharing(Shaky(agent, breaks)) as service:
            seen = await read(service, sending())
        assert (contents(seen)[1:], [id_ for id_, _ in seen]) == (events, ["", "0", "1", "2"])


@pytest.mark.parametrize("options", [QUICK, ReplayOptions(tasks=0)], ids=["kept", "not kept"])
async def test_a_stream_that_begins_with_an_update_gets_its_task(options: ReplayOptions) -> None:
    """Java's agents begin so when they call `submit()`; streams of 1.0 begin with the task (spec 3.1.2)."""
    log = Log(*whole(2), numbered=False)
    beginning = log.events[1]

    async def stream(call: Call[Any, Any], /) -> AsyncGenerator[hub.StreamResponse, None]:
        for event in log.events[1:]:
            yield event

    agent = Probe()
    agent.on_stream, agent.on_unary = stream, log.unary
    for call in (sending(), subscribing(), subscribing("7")):
        async with sharing(agent, options) as service:
            first, *rest = await read(service, call)
        after = resume_id(call.context)
        # The task replaces the lost events. On the wire, only the head of a stream tells of a gap.
        assert gap_of(first[1]) == (GapMark(after, first[0]) if after else None)
        assert contents(rest) == log.events[1:]
        assert synthetic_kind(first[1].task) == BEGINNING
        assert first[1].task.status == beginning.status_update.status
        assert (first[1].task.id, first[1].task.context_id) == (TASK, "context-1")
        if options is QUICK:
            ids = [id_.rpartition("-")[2] for id_, _ in (first, *rest)]
            assert ids == [str(number) for number in range(len(log.events))]


async def test_the_agents_gap_is_passed_on() -> None:
    events = whole(4)
    log = Log(*events[:5], kept=3)
    async with sharing(Shaky(log)) as service:
        call = subscribing("1")
        async with aclosing(numbered(service, call)) as stream:
            assert gap_of((await anext(stream))[1]) == GapMark("1", "5")
            log.add(*events[5:])
            assert [id_ async for id_, _ in stream] == ["6", "7"]


async def test_invalid_ids_are_rejected() -> None:
    async with sharing(Shaky(Log(*whole(2)))) as service:
        with pytest.raises(A2AError) as caught:
            await read(service, subscribing("no id!"))
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert caught.value.violations[0].field == "Last-Event-ID"


async def test_a_direct_message_and_an_ended_task_pass_as_they_are() -> None:
    message = hub.StreamResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    ended = begun()
    ended.task.status.state = hub.TASK_STATE_COMPLETED
    for only in (message, ended):
        probe = Probe()
        probe.on_stream = holding(only)
        async with sharing(probe) as service:
            assert await read(service, sending(), 1) == [("", only)]
            assert len(service.streams) == 0
            await probe.wait_running(0)
            probe.on_stream = yielding(only)
            assert await read(service, sending()) == [("", only)]


async def test_a_stream_of_something_else_passes_as_it_is() -> None:
    other = hub.StreamResponse(task=hub.Task(id="other", context_id="c"))
    failed = A2AError(Reason.UNAVAILABLE, "no more")
    probe = Probe()
    probe.on_stream = yielding(other, begun(), failed)
    async with sharing(probe) as service:
        with pytest.raises(A2AError, match="no more"):
            await read(service, subscribing())
        assert len(probe.calls) == 1


async def test_a_stream_that_wanders_off_is_passed_on_and_not_resumed() -> None:
    stray = hub.StreamResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    failed = A2AError(Reason.UNAVAILABLE, "no more")
    probe = Probe()
    probe.on_stream = yielding(begun(), stray, became(hub.TASK_STATE_WORKING), failed)
    async with sharing(probe) as service:
        seen: list[Seen] = []
        with pytest.raises(A2AError, match="no more"):
            await into(seen, numbered(service, sending()))
        assert len(seen) == 3
        assert len(probe.calls) == 1


async def test_nothing_is_kept_where_nothing_may_be_kept() -> None:
    agent = Shaky(Log(*whole(2), numbered=False))
    async with sharing(agent, ReplayOptions(tasks=0)) as service:
        assert [id_ for id_, _ in await read(service, sending())] == [""] * 5


async def test_a_slow_reader_is_left_behind_and_may_come_back() -> None:
    events = whole(40)
    log = Log(*events[:2], numbered=False)
    async with sharing(Shaky(log), replace(QUICK, events=16, window=8)) as service:
        fast, slow = numbered(service, sending()), numbered(service, subscribing())
        seen = [await anext(fast) for _ in range(2)]
        await anext(slow)
        log.add(*events[2:])
        seen += [one async for one in fast]
        assert contents(seen) == events
        with rejected(Reason.UNAVAILABLE) as caught:
            async for _ in slow:
                pass
        assert caught.value.retry_after == 0.0


async def test_the_agent_waits_for_the_fastest_reader() -> None:
    events = whole(200)
    produced = 0

    async def stream(_: Any) -> Any:
        nonlocal produced
        for event in events:
            produced += 1
            yield event

    probe = Probe()
    probe.on_stream = stream
    async with sharing(probe, replace(QUICK, window=10)) as service:
        first = numbered(service, sending())
        await anext(first)
        for _ in range(100):
            await asyncio.sleep(0)
        assert produced < 20
        assert len(contents([one async for one in first])) == len(events) - 1
        assert produced == len(events)


async def test_so_many_streams_are_kept_and_the_one_left_longest_ago_goes_first() -> None:
    agents = [Log(*whole(2), numbered=False) for _ in range(4)]
    seen = []
    probe = Probe()
    async with sharing(probe, replace(QUICK, tasks=2)) as service:
        for number, agent in enumerate(agents):
            probe.on_stream = agent.stream
            seen.append(await read(service, sending(context(owner=str(number)))))
            assert len(service.streams) <= 2
        probe.on_stream = agents[0].stream
        again = await read(service, subscribing(called=context(seen[3][0][0], owner="3")))
        assert again == seen[3][1:]
        probe.on_unary = agents[0].unary
        [(_, lost)] = await read(service, subscribing(called=context(seen[0][0][0], owner="0")))
        assert gap_of(lost) is not None


async def test_streams_with_readers_are_not_evicted_for_new_ones() -> None:
    log = Log(*whole(2)[:2], numbered=False)
    one, other = sending(context(owner="a")), sending(context(owner="b"))
    async with (
        sharing(Shaky(log), replace(QUICK, tasks=1)) as service,
        aclosing(numbered(service, one)) as kept,
    ):
        assert (await anext(kept))[0]
        # There is no room for a second one, so it passes without ids.
        assert (await read(service, other, 1))[0][0] == ""


async def test_all_together_take_so_many_bytes() -> None:
    big = "x" * 10_000
    events = [begun(), *(chunk(big) for _ in range(30)), became(hub.TASK_STATE_COMPLETED)]
    probe = Probe()
    probe.on_stream = lambda call: Log(*events, numbered=False).stream(call)
    options = replace(QUICK, total=400_000)
    async with sharing(probe, options) as service:
        for owner in "abcde":
            assert len(await read(service, sending(context(owner=owner)))) == len(events)
            assert service.streams.held <= options.total
        # A stream that is larger than the limit is not kept; readers are not affected.
        events[1:-1] *= 5
        assert len(await read(service, sending(context(owner="f")))) == len(events)
        assert service.streams.held <= options.total


async def test_the_first_caller_that_is_gone_before_its_task_leaves_nothing() -> None:
    probe = Probe()
    probe.on_stream = holding()
    async with sharing(probe) as service:
        waiting = asyncio.create_task(anext(service.stream(sending())))
        await probe.wait_running(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        await probe.wait_running(0)
        assert len(service.streams) == 0


async def test_a_caller_that_is_gone_while_its_task_is_requested_closes_the_stream() -> None:
    """Not only the garbage collection."""
    asked = asyncio.Event()

    class Held(Shaky):
        def stream(self, call: Call[Any, Any], /) -> Events:
            self.made = super().stream(call)
            return self.made

        async def unary(self, call: Call[Any, Any], /) -> Any:
            asked.set()
            await asyncio.Event().wait()

    agent = Held(Log(*whole(2)[1:], numbered=False))
    async with sharing(agent) as service:
        waiting = asyncio.create_task(anext(service.stream(sending())))
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert agent.open == 0


async def test_a_newer_stream_of_a_task_takes_the_place_of_the_older() -> None:
    first_log, second_log = Log(*whole(2)[:2], numbered=False), Log(*whole(2)[:3], numbered=False)
    probe = Probe()
    async with sharing(probe) as service:
        probe.on_stream = first_log.stream
        older = numbered(service, sending())
        await anext(older)
        probe.on_stream = second_log.stream
        newer = numbered(service, sending())
        at = [await anext(newer) for _ in range(3)][-1]
        assert (await read(service, subscribing(), 1))[0][1].task == second_log.task()
        first_log.add(became(hub.TASK_STATE_COMPLETED))
        assert contents([one async for one in older])[-1] == became(hub.TASK_STATE_COMPLETED)
        await newer.aclose()
        second_log.add(became(hub.TASK_STATE_FAILED))
        assert contents(await read(service, subscribing(at[0]))) == [became(hub.TASK_STATE_FAILED)]


async def test_confirmed_extensions_are_confirmed_to_joining_callers_that_declare_them() -> None:
    async def stream(call: Any) -> Any:
        call.context.reply["a2a-extensions"] = "urn:one,urn:two"
        yield begun()
        await asyncio.Event().wait()

    probe = Probe()
    probe.on_stream = stream
    forward = ("authorization", "a2a-extensions")
    async with sharing(probe, forward=forward) as service:
        first = sending(context(a2a_extensions=f"urn:one,urn:two,{RESUME_URI}"))
        async with aclosing(numbered(service, first)) as events:
            await anext(events)
            assert first.context.reply["a2a-extensions"] == f"urn:one,urn:two,{RESUME_URI}"
            second = subscribing(called=context(a2a_extensions="urn:two,urn:three"))
            await read(service, second, 1)
            assert second.context.reply["a2a-extensions"] == "urn:two"
