"""Streams of 0.x agents that end, or stay open, without a final event: readers get the state of the task."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from types import BuiltinMethodType
from typing import Any
from weakref import ReferenceType

import pytest

from a2a_bridge import Agent, Run, connect, serve
from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.cards import select
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import ReplayOptions, StoreOptions
from a2a_bridge.dialects.annotation import annotate_final, by_state
from a2a_bridge.gateway import stream_reader
from a2a_bridge.gateway.stream_states import GIVEN_UP, GONE, LINGERING
from a2a_bridge.gateway.upstream import SilenceLimit
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, waiting
from tests.gateway.sharing_scene import (
    PATIENCE,
    QUICK,
    Seen,
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
from tests.gateway.test_gateway import bridged
from tests.resume.scripted import TASK, Log, became, begun, chunk, whole

CANCELED = hub.TASK_STATE_CANCELED
WORKING = hub.TASK_STATE_WORKING

kept = pytest.mark.parametrize(
    "options", [QUICK, ReplayOptions(tasks=0)], ids=["streams are kept", "streams pass as they are"]
)


class Hasty(Log):
    """Its stream ends early, without a final event; on request it forgets its subscribers."""

    def __init__(self, *events: hub.StreamResponse, after: int, forgets: bool = False) -> None:
        super().__init__(*events, numbered=False)
        self.after, self.forgets = after, forgets

    @property
    def asked(self) -> int:
        return sum(call.operation is ops.GET_TASK for call in self.calls)

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.operation is ops.CANCEL_TASK:
            self.events.append(became(CANCELED))  # and sends nothing to its subscribers
            return self.task()
        return await super().unary(call)

    async def stream(self, call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        if call.operation is ops.SUBSCRIBE_TO_TASK and self.forgets:
            raise A2AError(Reason.TASK_NOT_FOUND)
        count = 0
        async with aclosing(super().stream(call)) as events:
            async for event in events:
                yield event
                count += 1
                if count == self.after and call.operation is ops.SEND_STREAMING_MESSAGE:
                    return


async def test_the_end_that_the_stream_did_not_bring_is_looked_up() -> None:
    events = whole(4)
    for after in range(1, len(events)):
        agent = Hasty(*events, after=after, forgets=True)
        async with sharing(agent, is_final=by_state) as service:
            seen = contents(await read(service, sending()))
        assert (seen[:after], gaps(seen), len(seen)) == (events[:after], 1, after + 1)
        assert folded(seen) == agent.task()
        assert agent.asked == 1


async def test_a_stream_that_passes_as_it_is_ends_with_the_task() -> None:
    events = whole(4)
    agent = Hasty(*events, after=3)
    async with sharing(agent, ReplayOptions(tasks=0), is_final=by_state) as service:
        *seen, last = contents(await read(service, sending()))
    assert seen == events[:3]
    assert last.task == agent.task()
    assert agent.asked == 1


async def test_a_working_task_is_subscribed_to() -> None:
    events = whole(4)
    agent = Hasty(*events[:3], after=3)
    async with sharing(agent, is_final=by_state) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            while not any(call.operation is ops.SUBSCRIBE_TO_TASK for call in agent.calls):  # noqa: ASYNC110
                await asyncio.sleep(0)
        agent.add(*events[3:])
        seen += [one async for one in stream]
    assert contents(seen)[-1] == events[-1]


@kept
async def test_a_working_task_that_rejects_subscriptions_is_an_error(options: ReplayOptions) -> None:
    agent = Hasty(*whole(4)[:3], after=3, forgets=True)
    async with sharing(agent, options, is_final=by_state) as service:
        with pytest.raises(A2AError, match="ended before its task") as caught:
            await read(service, sending())
    assert (caught.value.reason, caught.value.retry_after) == (Reason.UNAVAILABLE, 0.0)


@kept
@pytest.mark.parametrize(
    "last", [became(hub.TASK_STATE_INPUT_REQUIRED), became(hub.TASK_STATE_AUTH_REQUIRED), became(WORKING)]
)
async def test_a_resting_or_final_task_is_an_end(options: ReplayOptions, last: hub.StreamResponse) -> None:
    end = hub.StreamResponse()
    end.CopyFrom(last)
    if end.status_update.status.state == WORKING:
        annotate_final(end.status_update, True)
    agent = Hasty(begun(), end, after=2)
    async with sharing(agent, options, is_final=by_state) as service:
        assert contents(await read(service, sending())) == [begun(), end]
    assert agent.asked == 0


@kept
async def test_agents_of_1_0_are_taken_at_their_word(options: ReplayOptions) -> None:
    agent = Hasty(*whole(4), after=3)
    async with sharing(agent, options) as service:
        assert len(await read(service, sending())) == 3
    assert agent.asked == 0


def cancelling() -> Call[Any, Any]:
    return Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=TASK), context())


async def test_streams_of_a_cancelled_task_end_although_the_agent_leaves_them_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_reader, "_MOMENT", 0.01)
    agent = Hasty(begun(), became(WORKING), after=100)
    async with sharing(agent, is_final=by_state) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream) for _ in range(2)]
        async with aclosing(numbered(service, subscribing())) as second:
            await anext(second)
            await service.unary(cancelling())
            seen += [one async for one in stream]
            assert [one.status_update.status.state for one in contents([one async for one in second])] == [
                CANCELED
            ]
    assert contents(seen)[2:] == [became(CANCELED)]


async def test_an_agent_that_ends_the_streams_of_a_cancelled_task_does_it_in_its_own_words() -> None:
    agent = Hasty(begun(), became(WORKING), after=100)
    said = became(CANCELED)
    said.status_update.metadata["by"] = "the agent"
    async with sharing(agent, is_final=by_state) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream) for _ in range(2)]
        await service.unary(cancelling())
        agent.events.pop()
        agent.add(said)
        seen += [one async for one in stream]
    assert contents(seen)[2:] == [said]


@pytest.mark.parametrize(("task_id", "tenant"), [("another", ""), (TASK, "another")])
async def test_other_streams_are_left_alone_by_a_cancellation(
    task_id: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "_MOMENT", 0.0)
    agent = Hasty(begun(), became(WORKING), after=100)
    other = hub.Task(id=task_id, status=hub.TaskStatus(state=CANCELED))

    async def unary(call: Call[Any, Any], /) -> Any:
        return other

    async with sharing(agent, is_final=by_state) as service, aclosing(numbered(service, sending())) as stream:
        seen = [await anext(stream) for _ in range(2)]
        agent.unary = unary  # type: ignore[method-assign]
        request = hub.CancelTaskRequest(id=task_id, tenant=tenant)
        await service.unary(Call(ops.CANCEL_TASK, request, context(tenant=tenant)))
        await asyncio.sleep(0)
        agent.add(chunk("more"), became(hub.TASK_STATE_COMPLETED))
        seen += [one async for one in stream]
    assert contents(seen)[2:] == [chunk("more"), became(hub.TASK_STATE_COMPLETED)]


async def test_an_end_that_the_agent_has_reported_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the agent leaves the stream open for longer than a moment."""
    monkeypatch.setattr(stream_reader, "_MOMENT", 0.0)
    closing, agent = asyncio.Event(), Probe()

    async def events(call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        yield begun()
        yield became(CANCELED)
        await closing.wait()

    agent.on_stream = events
    agent.on_unary = answering(hub.Task(id=TASK, status=hub.TaskStatus(state=CANCELED)))
    async with sharing(agent, is_final=by_state) as service, aclosing(numbered(service, sending())) as stream:
        assert contents([await anext(stream) for _ in range(2)]) == [begun(), became(CANCELED)]
        await service.unary(cancelling())
        asyncio.get_running_loop().call_later(0.0, closing.set)  # after the moment
        assert [one async for one in stream] == []


@pytest.mark.parametrize("after", [1, 100], ids=["the agent ends it", "a cancellation ends it"])
async def test_a_stream_that_its_own_end_evicts_ends_quietly(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no readers, and the snapshot of the task, or its last status, needs more memory than there is."""
    monkeypatch.setattr(stream_reader, "_MOMENT", 0.0)
    agent, errors = Hasty(begun(), after=after), list[Any]()
    said = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="x" * 20_000)])
    ended = hub.Task(id=TASK, status=hub.TaskStatus(state=CANCELED, message=said))
    agent.unary = answering(ended)  # type: ignore[method-assign, assignment]
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with sharing(agent, replace(QUICK, total=10_000), is_final=by_state) as service:
        await read(service, sending(), 1)
        (stream,) = service.streams
        assert stream.life is LINGERING
        if after > 1:
            await service.unary(cancelling())
        reading = stream.reading.task
        await asyncio.wait({reading}, timeout=PATIENCE)
        assert reading.cancelled() or reading.exception() is None
        assert (stream.life, stream.reading.state) == (GONE, GIVEN_UP)
    assert errors == []


# Streams that callers break off leave nothing behind, in an agent and in a gateway in front of it: after
# twice as
# many of them, this process has as many objects as before.
#
# Objects are counted and not bytes, because allocators keep memory. `make soak` measures the latter.

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: streams that are broken off between two looks, by each binding
MANY = 40
#: bytes of tasks that the agent keeps
MEMORY = 300_000
#: objects more after 2 * MANY * len(BINDINGS) streams: caches of the interpreter, and what a timer still holds
SPARE = 100


class Waiting:
    """Works until the end of the test, or as long as it has a reader."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        if run.text == "wait":
            await asyncio.Event().wait()
        for number in range(20):
            yield run.artifact(f"{number}")
            await asyncio.sleep(0)
        yield run.status("completed")


@pytest.mark.parametrize("kind", ["joined", "begun"])
@pytest.mark.parametrize("gateway", [False, True], ids=["hosted", "gateway"])
async def test_aborted_streams_leave_nothing(gateway: bool, kind: str) -> None:
    async with AsyncExitStack() as stack:
        # The memory that tasks may fill is full before the first look.
        few = ServeOptions(
            store_options=StoreOptions(max_memory=MEMORY),
            store="memory://",
            replay=ReplayOptions(tasks=10, linger=0),
            grace=0,
        )
        far = await stack.enter_async_context(serve(Agent(Waiting(), name="waiting"), options=few))
        card = far.card
        if gateway:
            found = select(card, known=names(), version="1.0")
            near = await stack.enter_async_context(serve_gateway(card, found, options=few))
            card = near.card
        dial = DialOptions(timeout=PATIENCE)
        peers = [
            await stack.enter_async_context(connect(card, binding=binding, version="1.0", options=dial))
            for binding in BINDINGS
        ]
        request = request_of("wait")
        request.configuration.return_immediately = True
        task_id = (await peers[0].send_message(request)).task.id

        async def wave() -> None:
            for peer in peers:
                for _ in range(MANY):
                    joins = hub.SubscribeToTaskRequest(id=task_id)
                    await _aborted(peer, joins if kind == "joined" else request_of("short"))

        async with asyncio.timeout(4 * PATIENCE):
            # What is remembered of callers and tasks, in bounded tables, fills first.
            await wave()
            await wave()
            await wave()
            before = await _objects()
            await wave()
            await wave()
            after = await _objects()
    # A loop keeps up to 100 timers that are cancelled. A gateway remembers the contexts of many tasks, each an
    # entry and its key: they would fill only in `make soak`.
    grown = {
        kind: count for kind, count in (after - before).items() if kind not in ("TimerHandle", "Context")
    }
    named = 2 * MANY * len(BINDINGS) if gateway and kind == "begun" else 0
    for one in ("tuple", "Known"):
        grown[one] = max(0, grown.get(one, 0) - named)
    assert sum(grown.values()) < SPARE, grown


async def _aborted(peer: Peer, request: Any) -> None:
    """A stream of which one event is read."""
    events = peer.events(request)
    await anext(events)
    await events.aclose()


async def _objects() -> Counter[str]:
    """The objects of this process by type, once nothing goes on that the streams have begun."""
    count = -1
    async with asyncio.timeout(PATIENCE):
        while True:
            for _ in range(50):
                await asyncio.sleep(0.002)
            gc.collect()
            found = len(gc.get_objects())
            if found == count:
                break
            count = found
    return Counter(type(one).__qualname__ for one in gc.get_objects() if not _is_cached_by_abc(one))


def _is_cached_by_abc(one: object) -> bool:
    """Abstract classes cache the answer for each type: once, a hundred entries and more."""
    callback = one.__callback__ if isinstance(one, ReferenceType) else one
    return isinstance(callback, BuiltinMethodType) and callback.__name__ == "_destroy"


# An agent that stops answering while its connection lives: calls end with a clear error.


LIMIT = 0.05


def asking() -> Call[Any, Any]:
    return Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())


def falls_silent(*events: hub.StreamResponse) -> Probe:
    probe = Probe()

    async def stream(call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        for event in events:
            yield event
        await asyncio.Event().wait()

    probe.on_stream, probe.on_unary = stream, waiting
    return probe


async def test_a_silent_agent_blocks_no_caller() -> None:
    probe = falls_silent(*whole(3)[:3])
    service = SilenceLimit(probe, LIMIT)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError, match=r"nothing for 0\.05 seconds") as caught:
            await service.unary(asking())
        assert caught.value.reason is Reason.DEADLINE_EXCEEDED
        seen: list[Seen] = []
        with pytest.raises(A2AError, match=r"nothing for 0\.05 seconds"):
            await into(seen, numbered(service, sending()))
    assert contents(seen) == whole(3)[:3]
    await probe.wait_running(0)


async def test_a_shared_stream_is_not_resumed_twice() -> None:
    probe = falls_silent(*whole(3)[:3])
    async with sharing(SilenceLimit(probe, LIMIT)) as service:
        stream = numbered(
            service, sending(CallContext(deadline=asyncio.get_running_loop().time() + PATIENCE))
        )
        with pytest.raises(A2AError, match="said nothing"):
            await into([], stream)
    assert [call.operation for call in probe.calls] == [ops.SEND_STREAMING_MESSAGE]


async def test_a_slow_reader_is_no_silence_and_the_services_own_timeouts_are_its_own() -> None:
    service = SilenceLimit(falls_silent(*whole(3)), LIMIT)
    stream = numbered(service, sending())
    seen: list[Seen] = [await anext(stream)]
    asleep = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(4 * LIMIT, asleep.set_result, None)
    await asleep
    with pytest.raises(A2AError, match="said nothing"):
        await into(seen, stream)
    assert contents(seen) == whole(3)

    async def timing_out(call: Call[Any, Any], /) -> Any:
        raise TimeoutError

    probe = Probe()
    probe.on_unary = timing_out
    with pytest.raises(TimeoutError):
        await SilenceLimit(probe, LIMIT).unary(asking())


async def test_only_the_call_itself_suspends_its_limit() -> None:
    started: list[asyncio.Task[None]] = []

    async def connect() -> None:
        with unsent():
            await asyncio.Event().wait()

    async def send(call: Call[Any, Any], /) -> Any:
        with unsent():
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=4 * LIMIT)
        seen.append("sent")
        started.append(asyncio.create_task(connect()))
        await asyncio.Event().wait()

    seen: list[str] = []
    probe = Probe()
    probe.on_unary = send
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(A2AError, match="said nothing"):
            await SilenceLimit(probe, LIMIT).unary(asking())
    assert seen == ["sent"]
    started[0].cancel()  # its wait is over only now
    await asyncio.wait(started)


async def test_an_agent_that_answers_is_not_touched() -> None:
    probe = Probe()

    async def stream(call: Call[Any, Any], /) -> AsyncGenerator[Any, None]:
        for event in whole(3):
            yield event

    probe.on_stream = stream
    async with sharing(SilenceLimit(probe, PATIENCE)) as service:
        assert contents(await read(service, sending())) == whole(3)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_through_a_gateway(binding: str) -> None:
    async with bridged(falls_silent(), binding, binding, silence_timeout=LIMIT) as client:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(A2AError, match="said nothing") as caught:
                await client.get_task(hub.GetTaskRequest(id="t"))
    assert caught.value.reason is Reason.DEADLINE_EXCEEDED
