"""All readers of a gateway's streams against a model: joins, returns, breaks, questions, cancellations, time, evictions.

Whatever happens between, the events that a reader has got add up to the task as the agent has it, each piece once,
unless a snapshot for a gap has taken their place. After each step the streams that are kept agree with the tables of
`stream_states`: who reads them, which streams of the agent are open, what is counted. The agent has ids after which
it resumes, has them only for later events of a stream, or has none.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import booleans, integers, sampled_from

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import gap_of
from a2a_bridge.gateway.replay_log import AGENT, MAPPED, OURS, Ids
from a2a_bridge.gateway.stream_reader import StreamReader
from a2a_bridge.gateway.stream_sharing import StreamSharing
from a2a_bridge.gateway.stream_states import (
    DETACHED,
    GONE,
    LINGERING,
    LIVES,
    PARKED,
    READ,
    READINGS,
    Life,
    Reading,
)
from a2a_bridge.gateway.streams import Stream, StreamRegistry
from a2a_bridge.gateway.tasks import visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.board import ASKS, Board, is_stray
from tests.gateway.sharing_scene import Seen, broken, context, sending
from tests.patience import PATIENCE

#: streams that the gateway keeps
KEPT = 2
#: far more than an example takes; machines let the time pass
LINGER = 10 * PATIENCE
#: more than an agent has to end the streams of a canceled task
MOMENT = 3.0
ANY = integers(min_value=0, max_value=1000)
OWNERS = sampled_from(["alice", "bob"])
#: the ends of a machine
LEAVE, CLOSE = "readers leave", "the gateway closes"
CLOSE_AFTER_BREAK, CLOSE_WHILE_ASKED = "it closes and subscribes again", "it closes and a reader comes back"


@dataclass(eq=False)
class Reader:
    """A caller that reads a stream, leaves it, and may come back."""

    owner: str
    task_id: str
    #: the text of the task before its stream began, if no snapshot repeats it
    before: str = ""
    #: leaves at the first event
    glances: bool = False
    seen: list[Seen] = field(default_factory=list)
    reading: asyncio.Task[None] | None = None
    #: the kept stream that it reads; None for the agent's own
    stream: Stream | None = None

    @property
    def reads(self) -> bool:
        return self.reading is not None and not self.reading.done()

    @property
    def error(self) -> BaseException | None:
        """The error that ended its stream; None if it left, and while it reads."""
        ended = self.reading is not None and self.reading.done() and not self.reading.cancelled()
        return self.reading.exception() if ended and self.reading is not None else None


class Readers(RuleBasedStateMachine):
    """Drives the stream sharing of a gateway before such an agent."""

    @initialize(
        ids=sampled_from([OURS, MAPPED, AGENT]),
        linger=sampled_from([LINGER, LINGER, 0.0]),
        ends=sampled_from([LEAVE, CLOSE, CLOSE_AFTER_BREAK, CLOSE_WHILE_ASKED]),
    )
    def begin_with(self, ids: Ids, linger: float, ends: str) -> None:
        self.ids, self.linger, self.ends = ids, linger, ends
        self.loop = asyncio.new_event_loop()
        self.passed = 0.0
        time = self.loop.time
        self.loop.time = lambda: time() + self.passed  # type: ignore[method-assign]
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.agent = Board(ids)
        self.memory = MemoryAccount(1 << 30)
        options = ReplayOptions(tasks=KEPT, events=4, linger=linger, pause=0.001, longest_pause=0.002)
        self.sharing = StreamSharing(self.agent, options, resumes=ids is not OURS, memory=self.memory)
        self.streams = self.sharing.streams
        self.readers: list[Reader] = []
        self.pieces = 0
        self.steps = 0
        #: in which step its last reader left a stream
        self.left: dict[Stream, int] = {}
        self._note_streams()

    def _note_streams(self) -> None:
        """Lets each reader know its stream."""
        begin, join = self.streams.begin, self.streams.join

        def note(stream: Stream) -> None:
            reading = asyncio.current_task(self.loop)
            next(one for one in self.readers if one.reading is reading).stream = stream
            self.left.pop(stream, None)

        def beginning(*values: Any) -> Any:
            begun = begin(*values)
            if begun is not None:
                note(begun[0])
            return begun

        def joining(stream: Stream, place: int) -> Any:
            note(stream)
            return join(stream, place)

        self.streams.begin, self.streams.join = beginning, joining  # type: ignore[method-assign]

    # ------------------------------------------------------------------ means

    def until(self, done: Callable[[], bool]) -> None:
        """Runs the loop until something is so, and then for a few turns."""

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE):
                while not done():  # noqa: ASYNC110  the sharing tells nobody
                    await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    def begin(
        self, reader: Reader, call: Call[Any, Any], *, enough: Callable[[], bool] | None = None
    ) -> None:
        """Reads until there is an event, or `enough`."""
        if reader not in self.readers:
            self.readers.append(reader)
        reader.stream = None
        count = len(reader.seen)

        async def read() -> None:
            async with aclosing(self.sharing.stream(call)) as events:
                async for event in events:
                    copy = hub.StreamResponse()
                    copy.CopyFrom(event.message)
                    reader.task_id = reader.task_id or copy.task.id
                    reader.seen.append((event.id, copy))
                    if reader.glances:
                        return

        reader.reading = self.loop.create_task(read())
        self.until(lambda: len(reader.seen) > count or not reader.reads or bool(enough and enough()))

    def leave_with(self, readers: list[Reader]) -> None:
        """The readers leave, one after the other; the life of each stream is as the table and the options say."""
        for one in readers:
            assert one.reading is not None
            stream = one.stream
            alone = stream is not None and len(self.readers_of(stream)) == 1
            expected = self.life_without_readers(stream) if stream is not None and alone else None
            one.reading.cancel()
            self.until(lambda one=one: not one.reads)  # type: ignore[misc]
            assert expected is None or (stream is not None and stream.life is expected)

    def life_without_readers(self, stream: Stream) -> Life:
        if stream.life is DETACHED or stream.log.ids is AGENT:
            return GONE
        rests = not READINGS[stream.reading.state] or not self.linger
        return PARKED if rests or (self.ids is MAPPED and stream.log.agent_id) else LINGERING

    def is_up_to_date(self, reader: Reader) -> bool:
        return not reader.seen or text_of(reader) == _text(self.agent.task(reader.task_id))

    def settle(self) -> None:
        self.until(lambda: all(self.is_up_to_date(one) for one in self.readers if one.reads))

    def pick(self, number: int, among: list[Any]) -> Any:
        return among[number % len(among)]

    def going(self) -> list[str]:
        return [one for one in self.agent.tasks if not self.agent.ended(one)]

    def working(self) -> list[str]:
        return [one for one in self.going() if self.agent.state(one) != ASKS]

    def reading(self, task_id: str = "") -> list[Reader]:
        return [one for one in self.readers if one.reads and task_id in ("", one.task_id)]

    def readers_of(self, stream: Stream) -> list[Reader]:
        return [one for one in self.readers if one.reads and one.stream is stream]

    def current(self, owner: str, task_id: str) -> Stream | None:
        called = subscribing(task_id, context(owner=owner))
        return self.streams.find((visible_to(called.request, called.context), task_id))

    def running(self, task_id: str) -> list[Stream]:
        """The kept streams of a task that are being read from the agent."""
        return [one for one in self.streams if one.log.task_id == task_id and READINGS[one.reading.state]]

    def timers(self) -> int:
        return sum(not one.cancelled() for one in self.loop._scheduled)  # type: ignore[attr-defined]

    def opened(self) -> int:
        return sum(self.agent.open.values())

    def may_join(self, stream: Stream | None) -> bool:
        return stream is not None and stream.log.whole and bool(READINGS[stream.reading.state])

    # ------------------------------------------------------------------ steps

    @rule(owner=OWNERS, glances=booleans())
    def send(self, owner: str, glances: bool) -> None:
        """glances: the caller leaves at the first event, before a step is taken to read the next ones."""
        reader = Reader(owner, "", glances=glances)
        self.begin(reader, sending(context(owner=owner)))
        assert reader.task_id
        reader.glances = False

    @precondition(lambda self: self.going())
    @rule(number=ANY, owner=OWNERS)
    def send_again(self, number: int, owner: str) -> None:
        """A message to a task: its stream begins with an update, and does not replace one for subscribers."""
        task_id = self.pick(number, self.going())
        reader = Reader(owner, task_id, before=_text(self.agent.task(task_id)))
        older = self.current(owner, task_id)
        keeps = self.may_join(older)
        # Those that wait for an event of the agent begin with this one.
        begin = any(one.stream is None for one in self.reading(task_id))
        self.begin(reader, sending(context(owner=owner), task_id=task_id))
        self.settle()
        if reader.stream is not None and keeps and older is not None and older.life is not GONE:
            assert (reader.stream.life, older) == (DETACHED, self.current(owner, task_id))
        elif reader.stream is not None and not begin:
            assert reader.stream.life is READ

    @precondition(lambda self: self.going())
    @rule(number=ANY, owner=OWNERS)
    def subscribe(self, number: int, owner: str) -> None:
        """One stream of the agent is enough for all subscribers of an owner."""
        reader = Reader(owner, self.pick(number, self.going()))
        current, opened = self.current(owner, reader.task_id), self.opened()
        joins = self.may_join(current)
        self.begin(reader, subscribing(reader.task_id, context(owner=owner)))
        self.settle()
        assert gap_of(reader.seen[0][1]) is None
        if joins:
            assert (reader.stream, self.opened()) == (current, opened)

    @precondition(lambda self: self.reading())
    @rule(number=ANY)
    def leave(self, number: int) -> None:
        self.leave_with([self.pick(number, self.reading())])

    def returning(self) -> list[Reader]:
        return [one for one in self.readers if not one.reads and one.seen[-1][0]]

    @precondition(lambda self: self.returning())
    @rule(number=ANY)
    def come_back(self, number: int) -> None:
        """After the last event that the reader has got; perhaps the stream was evicted meanwhile."""
        reader = self.pick(number, self.returning())
        after, task_id, before = reader.seen[-1][0], reader.task_id, len(reader.seen)
        stream = self.current(reader.owner, task_id)
        known = stream is not None and stream.log.place(after) is not None
        # Without a gap in the log, and none to come.
        complete = (
            known
            and stream is not None
            and not any(one.gap for one in stream.log.events)
            and (READINGS[stream.reading.state] or stream.log.agent_id)
        )
        joins = self.may_join(stream) and not after.isdigit()
        ended = self.agent.ended(task_id)
        call = subscribing(task_id, context(after, owner=reader.owner))
        self.begin(reader, call, enough=lambda: bool(self.agent.open.get(task_id)))
        if ended:
            self.until(lambda: not reader.reads)
        self.settle()
        new = [event for _, event in reader.seen[before:]]
        assert reader.error is None
        if known or joins:
            assert reader.stream is stream
        if complete or after.isdigit():
            assert not any(map(gap_of, new))
        elif not known:
            assert gap_of(new[0]) is not None
        if known and stream is not None and not stream.log.task_ended and not ended and not reader.reads:
            assert self.agent.state(task_id) == ASKS, "a task at work is followed"
        assert self.is_up_to_date(reader)

    @precondition(lambda self: self.returning())
    @rule(number=ANY)
    def look_in(self, number: int) -> None:
        """A reader comes back, and leaves while the agent is asked whether the task has moved, or subscribed to."""
        reader = self.pick(number, self.returning())
        self.agent.door.clear()
        call = subscribing(reader.task_id, context(reader.seen[-1][0], owner=reader.owner))
        self.begin(reader, call, enough=lambda: bool(self.agent.waiting or reader.stream))
        if reader.reads:
            self.leave_with([reader])
        self.agent.door.set()
        self.until(lambda: not self.agent.waiting)

    @precondition(lambda self: self.going())
    @rule(number=ANY)
    def speak(self, number: int) -> None:
        task_id = self.pick(number, self.going())
        if self.agent.state(task_id) == ASKS:
            self.agent.become(task_id, hub.TASK_STATE_WORKING)
            self.settle()
        self.agent.add(task_id, self.piece(task_id))
        self.settle()

    def piece(self, task_id: str) -> hub.StreamResponse:
        self.pieces += 1
        artifact = hub.Artifact(artifact_id="a", parts=[hub.Part(text=f"{self.pieces};")])
        update = hub.TaskArtifactUpdateEvent(task_id=task_id, context_id="c", artifact=artifact, append=True)
        return hub.StreamResponse(artifact_update=update)

    @precondition(lambda self: self.ids is OURS and self.working())
    @rule(number=ANY, leave=booleans(), then=sampled_from(["nothing", "break", "end", "failure"]))
    def stray(self, number: int, leave: bool, then: str) -> None:
        """An event of another task: the readers get it, and nobody joins. A break is not mended after it; an end,
        or an error, comes with it. leave: before it.
        """
        task_id, event = self.pick(number, self.working()), self.piece("another")
        self.leave_with(self.reading(task_id) if leave else [])
        readers, streams, ends = self.reading(task_id), self.running(task_id), then in ("end", "failure")
        lives = [DETACHED if self.readers_of(one) and not ends else GONE for one in streams]
        if ends:
            self.agent.cut_off(task_id, event, broken() if then == "failure" else None)
        else:
            self.agent.add(task_id, event)
        self.until(lambda: all(one.seen[-1][1] == event and one.reads is not ends for one in readers))
        assert [one.life for one in streams] == lives
        if then == "break":
            self.break_streams([task_id])
            self.agent.door.set()
            self.until(lambda: not self.agent.waiting)
        for reader in readers if ends else ():
            assert (reader.error is None) is (then == "end")
            self.readers.remove(reader)
        tasks = [one.reading.task for one in streams] if ends else []
        assert all(one.cancelled() or one.exception() is None for one in tasks)

    @precondition(lambda self: self.going())
    @rule(number=ANY, state=sampled_from([hub.TASK_STATE_COMPLETED, ASKS]))
    def stop(self, number: int, state: hub.TaskState) -> None:
        """The task ends, or asks; and so do the streams of the agent."""
        task_id = self.pick(number, self.going())
        if state == self.agent.state(task_id):
            return
        self.agent.become(task_id, state)
        readers = self.reading(task_id)
        self.until(lambda: not any(one.reads for one in readers))
        for one in readers:
            assert one.error is None
            assert one.seen[-1][1].status_update.status.state == state
            assert self.is_up_to_date(one)
        assert not self.running(task_id)

    @precondition(lambda self: self.ids is not AGENT and self.going())
    @rule(number=ANY, leave=booleans())
    def cancel(self, number: int, leave: bool) -> None:
        """The agent ends no stream of a canceled task: the gateway does so, after a moment. leave: before it."""
        task_id = self.pick(number, self.going())
        call: Call[Any, Any] = Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), context())
        streams = [one for one in self.running(task_id) if one.log.ids is not AGENT]
        readers = [one for stream in streams for one in self.readers_of(stream)]
        self.loop.run_until_complete(self.sharing.unary(call))
        assert all(one.reads for one in readers)
        if leave:
            self.leave_with(readers)
            ending = sum(READINGS[one.reading.state] != frozenset() for one in streams)
            assert self.timers() == ending + sum(one.life is LINGERING for one in self.streams)
            readers = []
        self.passed += MOMENT
        self.until(lambda: not any(one.reads for one in readers))
        for one in readers:
            assert one.error is None
            assert one.seen[-1][1].status_update.status.state == hub.TASK_STATE_CANCELED
        assert not any(READINGS[one.reading.state] for one in streams)

    @precondition(lambda self: self.working())
    @rule(
        number=ANY,
        then=sampled_from(["nothing", "readers leave", "a caller joins", "memory is needed", "refusal"]),
    )
    def break_off(self, number: int, then: str) -> None:
        """Kept streams go on, after a gap if the agent has no ids; those that are not kept end with an error.
        The agent lets the new subscriptions wait, and something happens meanwhile.
        """
        task_id = self.pick(number, self.working())
        self.break_streams([task_id])
        kept = self.running(task_id)
        if then == "readers leave":
            self.leave_with(self.reading(task_id))
        elif then == "memory is needed":
            self.streams.give_up(1 << 40)
            assert not any(one.life is LINGERING for one in kept)
        elif then == "a caller joins" and kept and kept[0].life in (READ, LINGERING) and kept[0].log.whole:
            owner = next(one.owner for one in self.readers if self.current(one.owner, task_id) is kept[0])
            reader = Reader(owner, task_id)
            # The agent may be asked whether it still accepts this caller.
            waiting = self.agent.waiting
            call = subscribing(task_id, context(owner=owner))
            self.begin(reader, call, enough=lambda: self.agent.waiting > waiting)
        refused = self.reading(task_id) if then == "refusal" else []
        self.agent.refuses = then == "refusal"
        self.agent.door.set()
        self.until(lambda: not self.agent.waiting and not any(one.reads for one in refused))
        self.agent.refuses = False
        for one in refused:
            assert isinstance(one.error, A2AError)
            assert one.error.reason is Reason.INTERNAL_ERROR
        self.settle()

    def break_streams(self, task_ids: list[str]) -> None:
        """Closes the door, and breaks all streams of tasks; streams that are not kept, or stray, are not mended."""
        self.agent.door.clear()
        readers = [one for task_id in task_ids for one in self.reading(task_id)]
        total = self.agent.broken + sum(self.agent.open.get(one, 0) for one in task_ids)
        regular = [one for task_id in task_ids for one in self.running(task_id) if one.log.regular]
        for one in task_ids:
            self.agent.break_off(one)
        self.until(lambda: self.agent.broken == total)
        self.until(lambda: self.agent.waiting >= len(regular))
        for reader in readers:
            if reader.reads:
                assert reader.stream in regular
            else:
                assert reader.stream not in regular
                assert isinstance(reader.error, A2AError)
                assert reader.error.metadata["phase"] == "stream"
                self.readers.remove(reader)

    @rule()
    def let_pass(self) -> None:
        """The time for which an agent's stream is kept open without a reader."""
        self.passed += LINGER + 1
        self.until(lambda: True)
        assert not any(one.life is LINGERING for one in self.streams)

    @precondition(lambda self: self.streams.idle)
    @rule(everything=booleans())
    def need_memory(self, everything: bool) -> None:
        """The streams without readers are given up, or the one that was left first."""
        idle = [one for one in self.streams if one.life in (LINGERING, PARKED)]
        self.streams.give_up(1 << 40 if everything else 1)
        assert [one for one in idle if one.life is GONE] == (idle if everything else idle[:1])
        self.until(lambda: True)

    # ------------------------------------------------------------------ invariants

    @invariant()
    def nobody_reads_another_task_or_the_stream_of_another_owner(self) -> None:
        for one in self.readers:
            for _, event in one.seen:
                inner = getattr(event, event.WhichOneof("payload") or "")
                of = inner.id if event.HasField("task") else inner.task_id
                assert of in (one.task_id, "another")
        for stream in self.streams:
            assert len({one.owner for one in self.readers_of(stream)}) <= 1

    @invariant()
    def a_stream_of_the_agent_is_read_for_someone(self) -> None:
        assert self.agent.waiting == 0
        for task_id, count in self.agent.open.items():
            own = sum(one.stream is None for one in self.reading(task_id))
            assert count == own + len(self.running(task_id))

    @invariant()
    def each_stream_is_kept_as_its_life_says(self) -> None:
        self.steps += 1
        assert self.timers() == sum(one.life is LINGERING for one in self.streams)
        for one in self.streams:
            assert (one.life in (READ, DETACHED)) == bool(self.readers_of(one))
            scope, _ = one.key
            assert (self.streams.find((scope, one.log.task_id)) is one) == (one.life is not DETACHED)
            assert one.log.regular or one.life is DETACHED
            assert one.log.ids in ((MAPPED, AGENT) if self.ids is MAPPED else (self.ids,))
            assert (one.timer is not None) == (one.life is LINGERING)
            if one.life in (LINGERING, PARKED):
                assert bool(READINGS[one.reading.state]) == (one.life is LINGERING)
                assert one.log.ids is not AGENT
                self.left.setdefault(one, self.steps)
            else:
                self.left.pop(one, None)
        idle = [self.left[one] for one in self.streams if one in self.left]
        assert idle == sorted(idle), "the one that was left first is evicted first"

    @invariant()
    def so_many_streams_and_bytes_are_counted(self) -> None:
        assert len(self.streams) == len(list(self.streams)) <= KEPT
        assert self.streams.held == self.memory.used == sum(one.size for one in self.streams)
        assert self.streams.idle == sum(one.size for one in self.streams if one in self.left)
        assert self.streams.is_read == any(one.stream is not None for one in self.reading())

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        visitors = self.returning() if self.ends == CLOSE_WHILE_ASKED else []
        if self.ends == CLOSE_AFTER_BREAK:
            self.break_streams(self.working())
        for one in visitors:
            self.agent.door.clear()
            call = subscribing(one.task_id, context(one.seen[-1][0], owner=one.owner))
            waiting = self.agent.waiting
            self.begin(one, call, enough=lambda: self.agent.waiting > waiting or one.stream is not None)  # noqa: B023
        reading = [one for one in self.reading() if one.stream is not None and one not in visitors]
        if self.ends != LEAVE:
            self.close()
            self.until(lambda: not any(one.reads for one in reading))
            assert all("given up" in str(one.error) for one in reading)
            assert self.agent.waiting <= len(visitors)
            self.agent.door.set()
            self.until(lambda: not self.agent.waiting)
            assert not list(self.streams), "none begins, and none goes on"
        for one in self.reading():
            assert one.reading is not None
            one.reading.cancel()
        self.until(lambda: not self.reading())
        assert all(one.error is None or isinstance(one.error, A2AError) for one in visitors)
        if self.ends == LEAVE:
            self.close()
        assert not any(self.agent.open.values())
        assert not asyncio.all_tasks(self.loop)
        assert (list(self.streams), self.memory.used, self.timers()) == ([], 0, 0)
        self.loop.close()
        assert self.errors == []

    def close(self) -> None:
        """Closes the gateway. Nothing of it runs after that."""
        self.loop.run_until_complete(self.streams.aclose())
        assert not any("gateway stream" in one.get_name() for one in asyncio.all_tasks(self.loop))


def text_of(reader: Reader) -> str:
    """The text that a reader was told, each piece as often as it came; since the last task that it got."""
    told = reader.before
    for _, event in reader.seen:
        if event.HasField("task"):
            told = _text(event.task)
        elif not is_stray(event, reader.task_id):
            told += "".join(part.text for part in event.artifact_update.artifact.parts)
    return told


def _text(task: hub.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def subscribing(task_id: str, called: CallContext) -> Call[Any, Any]:
    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id=task_id), called)


def test_streams_are_as_the_tables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each transition of the tables is taken."""
    taken: set[tuple[object, object]] = set()
    move, to = StreamRegistry._move, StreamReader._to

    def moving(self: StreamRegistry, stream: Stream, life: Life) -> None:
        taken.add((stream.life, life))
        move(self, stream, life)

    def going_to(self: StreamReader, state: Reading) -> None:
        taken.add((self.state, state))
        to(self, state)

    monkeypatch.setattr(StreamRegistry, "_move", moving)
    monkeypatch.setattr(StreamReader, "_to", going_to)
    rules = settings(max_examples=250, stateful_step_count=40, deadline=None, derandomize=True)
    run_state_machine_as_test(Readers, settings=rules)
    tables: list[dict[Any, frozenset[Any]]] = [LIVES, READINGS]
    assert taken == {(one, after) for table in tables for one, follow in table.items() for after in follow}
