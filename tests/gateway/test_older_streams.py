"""Streams of 0.x agents for callers of 1.0: a task first, an end at `final`, no ended subscription."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.app.peer import request_of
from a2a_bridge.app.runtime import connect
from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.cards import interface
from a2a_bridge.codec import dumps, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import fold
from a2a_bridge.core.service import Event, compose
from a2a_bridge.dialects.annotation import (
    CLOSING,
    SNAPSHOT,
    annotate_final,
    by_state,
    synthesise,
    synthetic_kind,
)
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe, holding, waiting, yielding
from tests.gateway.sharing_scene import numbered, sending, sharing, subscribing
from tests.gateway.test_polyfill import OLD, agent_of
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.resume.scripted import TASK, became, chunk

WORKING = hub.TASK_STATE_WORKING
COMPLETED = hub.TASK_STATE_COMPLETED
INPUT = hub.TASK_STATE_INPUT_REQUIRED
MESSAGE = hub.StreamResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))


def status(state: Any = WORKING, *, final: bool | None = None) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
    if final is not None:
        annotate_final(update, final)
    return hub.StreamResponse(status_update=update)


def piece(text: str, *, append: bool = True) -> hub.StreamResponse:
    update = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=append)
    update.artifact.CopyFrom(artifact(text))
    return hub.StreamResponse(artifact_update=update)


def artifact(*texts: str, artifact_id: str = "a") -> hub.Artifact:
    return hub.Artifact(artifact_id=artifact_id, parts=[hub.Part(text=text) for text in texts])


def task(state: Any = WORKING, *artifacts: hub.Artifact) -> hub.Task:
    history = [hub.Message(message_id="q")]
    return hub.Task(
        id="t", context_id="c", status=hub.TaskStatus(state=state), artifacts=artifacts, history=history
    )


class Agent:
    """Streams `events`, and returns `task`, if any."""

    def __init__(self, *events: Any, task: hub.Task | None = None) -> None:
        self.probe = Probe()
        self.probe.on_stream = yielding(*events)
        self.probe.on_unary = self._get
        self._task = task

    async def _get(self, call: Call[Any, Any]) -> Any:
        assert call.operation is ops.GET_TASK
        if self._task is None:
            raise A2AError(Reason.UNAVAILABLE)
        copy = hub.Task()
        copy.CopyFrom(self._task)
        return copy

    @property
    def asked(self) -> int:
        return sum(call.operation is ops.GET_TASK for call in self.probe.calls)

    async def stream(self, request: Any = None, version: str = "1.0") -> list[Any]:
        request = request or hub.SendMessageRequest()
        sending = isinstance(request, hub.SendMessageRequest)
        operation: Any = ops.SEND_STREAMING_MESSAGE if sending else ops.SUBSCRIBE_TO_TASK
        call = Call(operation, request, CallContext(origin=Origin("JSONRPC", version)))
        service = compose(agent_of(self.probe).service, stream_compat([OLD]))
        async with asyncio.timeout(PATIENCE), aclosing(service.stream(call)) as events:
            return [event.message async for event in events]


FOLLOW_UP = hub.SendMessageRequest(message={"task_id": "t"})
SUBSCRIBE = hub.SubscribeToTaskRequest(id="t")


@pytest.mark.parametrize(
    "events",
    [
        [MESSAGE],
        [hub.StreamResponse(task=task()), status(), status(COMPLETED)],
        [hub.StreamResponse(task=task()), hub.StreamResponse(task=task()), MESSAGE, MESSAGE, status(INPUT)],
        [],
    ],
)
async def test_a_stream_that_begins_with_a_task_passes_unchanged(events: list[Any]) -> None:
    agent = Agent(*events)
    assert await agent.stream() == events
    assert agent.asked == 0


async def test_an_update_is_preceded_by_the_agents_task() -> None:
    known = task(COMPLETED, artifact("all"))
    known.generation = 9  # after the events of this stream
    first, *rest = await Agent(status(), status(COMPLETED), task=known).stream()
    assert rest == [status(), status(COMPLETED)]
    assert (synthetic_kind(first.task), first.task.generation) == (SNAPSHOT, 0)
    assert (first.task.id, first.task.context_id) == ("t", "c")
    # The task at the first event, not the present one: it must not contain later events.
    assert first.task.status.state == WORKING
    assert not first.task.artifacts
    assert [one.message_id for one in first.task.history] == ["q"]


async def test_an_update_has_to_do_when_the_agent_does_not_tell() -> None:
    for event, state in ((status(INPUT), INPUT), (piece("x"), WORKING)):
        first, *rest = await Agent(event).stream()
        assert rest == [event]
        assert (first.task.id, first.task.context_id, first.task.status.state) == ("t", "c", state)


async def test_pieces_that_came_before_are_in_the_snapshot_and_none_is_there_twice() -> None:
    known = task(WORKING, artifact("before", artifact_id="b"), artifact("1", "2", "3"))
    first, *_ = await Agent(piece("3"), task=known).stream(SUBSCRIBE)
    assert list(first.task.artifacts) == [artifact("before", artifact_id="b"), artifact("1", "2")]
    known = task(WORKING, artifact("new"))
    first, *_ = await Agent(piece("new", append=False), task=known).stream(SUBSCRIBE)
    assert not first.task.artifacts


@pytest.mark.parametrize("end", [status(final=True), status(COMPLETED), status(INPUT)])
async def test_a_final_event_is_the_end(end: Any) -> None:
    agent = Agent(hub.StreamResponse(task=task()), status(INPUT, final=False), end, status(), MESSAGE)
    assert await agent.stream() == [hub.StreamResponse(task=task()), status(INPUT, final=False), end]
    await agent.probe.wait_running(0)


async def test_an_agent_that_does_not_answer_delays_no_stream_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fetch_task.__kwdefaults__, "seconds", 0.05)
    for request_ in (FOLLOW_UP, SUBSCRIBE):
        agent = Agent(status())
        agent.probe.on_unary = waiting
        first, second = await agent.stream(request_)
        assert synthetic_kind(first.task) == SNAPSHOT
        assert second == status()


async def test_a_closing_event_made_up_by_another_bridge_is_dropped() -> None:
    closing = status(final=True)
    synthesise(closing.status_update, CLOSING)
    agent = Agent(hub.StreamResponse(task=task()), closing)
    assert await agent.stream() == [hub.StreamResponse(task=task())]
    # and callers that need one get one
    got = await Agent(hub.StreamResponse(task=task()), closing).stream(version="0.3")
    assert [one.WhichOneof("payload") for one in got] == ["task", "status_update"]


async def test_a_task_that_has_ended_cannot_be_subscribed_to() -> None:
    agent = Agent(status(COMPLETED), task=task(COMPLETED))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await agent.stream(SUBSCRIBE)
    assert not [call for call in agent.probe.calls if call.operation is ops.SUBSCRIBE_TO_TASK]


async def test_callers_of_0_x_get_the_agents_events() -> None:
    agent = Agent(status(), status(COMPLETED), task=task(COMPLETED))
    assert await agent.stream(version="0.3") == [status(), status(COMPLETED)]
    assert agent.asked == 0


async def test_callers_of_0_x_that_resubscribe_get_the_missed_events() -> None:
    known = task(WORKING, artifact("1", "2"))
    agent = Agent(piece("2"), status(COMPLETED), task=known)
    first, *rest = await agent.stream(SUBSCRIBE, version="0.3")
    assert list(first.task.artifacts) == [artifact("1")]
    assert rest == [piece("2"), status(COMPLETED)]
    # A task that has ended is not rejected, and the agent's answer is passed on.
    agent = Agent(status(COMPLETED), task=task(COMPLETED))
    _, *rest = await agent.stream(SUBSCRIBE, version="0.3")
    assert rest == [status(COMPLETED)]
    assert await Agent().stream(SUBSCRIBE, version="0.3") != []  # a closing status, as before


async def test_a_caller_that_hangs_up_ends_the_agents_stream() -> None:
    agent = Agent(status(), status(), status())
    call = Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(), CallContext())
    async with aclosing(agent_of(agent.probe).service.stream(call)) as events:
        await anext(events)
    await agent.probe.wait_running(0)


# --- Agents that claim one version and answer in another one, with frames of real agents ---

PLACE = {"taskId": "t", "contextId": "c"}
#: langgraph-api 0.16: methods of 1.0, events in the shape of 0.3, names of 1.0
LANGGRAPH: list[Any] = [
    {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}, "history": []},
    {"kind": "status-update", **PLACE, "status": {"state": "TASK_STATE_WORKING"}, "final": False},
    {
        "kind": "artifact-update",
        **PLACE,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "hi"}]},
    },
    {
        "kind": "status-update",
        **PLACE,
        "status": {
            "state": "TASK_STATE_COMPLETED",
            "message": {
                "kind": "message",
                "messageId": "m",
                "role": "ROLE_AGENT",
                "parts": [{"kind": "text", "text": "bye"}],
            },
        },
        "final": True,
        "metadata": {"state": "TASK_STATE_OF_MINE"},
    },
]
NEW = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@asynccontextmanager
async def answering(*events: Any) -> AsyncIterator[str]:
    """The URL of an agent that answers each call with these events, or with the only one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = [line.lower() for line in head.split(b"\r\n")]
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length"))
        frame: Any = loads(await reader.readexactly(length))
        found = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (frame["id"], dumps(one)) for one in events]
        kind, body = b"application/json", found[0]
        if "tream" in frame["method"]:
            kind, body = b"text/event-stream", b"".join(b"data: %b\n\n" % one for one in found)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (kind, len(body), body)
        )
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_events_of_0_3_from_an_agent_of_1_0(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(*LANGGRAPH) as url, connect(interface("JSONRPC", url)) as peer:
        for _ in range(2):
            events = [event.message async for event in peer.events(request_of(("hi",)))]
            assert [event.WhichOneof("payload") for event in events] == [
                "task",
                "status_update",
                "artifact_update",
                "status_update",
            ]
            last = events[-1].status_update
            assert last.status.state == hub.TASK_STATE_COMPLETED
            assert (last.status.message.role, last.status.message.parts[0].text) == (hub.ROLE_AGENT, "bye")
            assert last.metadata["state"] == "TASK_STATE_OF_MINE"
    assert caplog.text.count("claims version 1.0 and answers as another one does") == 1


async def test_an_answer_of_1_0_from_an_agent_of_0_3() -> None:
    async with answering(NEW) as url, connect(interface("JSONRPC", url, version="0.3")) as peer:
        for _ in range(2):
            answer = await peer.send_message(request_of(("hi",)))
            assert answer.task.status.state == hub.TASK_STATE_COMPLETED


@each("answer", [{"kind": "task", "id": 1}, {"kind": "other"}, {"task": {"id": 5}}, [], 7, None])
@each("version", ["1.0", "0.3"])
async def test_content_of_no_version_is_still_rejected(version: str, answer: Any) -> None:
    async with answering(answer) as url, connect(interface("JSONRPC", url, version=version)) as peer:
        with rejected(Reason.INVALID_AGENT_RESPONSE):
            await peer.send_message(request_of(("hi",)))


@pytest.mark.parametrize("first", [became(hub.TASK_STATE_WORKING), chunk("x")], ids=["status", "artifact"])
async def test_who_joins_a_stream_of_an_older_agent_without_a_task_gets_one(
    first: hub.StreamResponse,
) -> None:
    agent = Probe()
    agent.on_stream = holding(first)
    async with sharing(agent, is_final=by_state) as service:
        async with aclosing(numbered(service, sending())) as stream:
            assert (await anext(stream))[1] == first
            async with aclosing(numbered(service, subscribing())) as second:
                _, snapshot = await anext(second)
        assert (snapshot.task.id, snapshot.task.context_id) == (TASK, "context-1")
        assert len(agent.calls) == 1


# --- what a reader has at the end is what the agent has ---


class Turn:
    """An agent of 0.x with a task, and a turn of events of it. shown: how many of them GetTask has seen when it
    is asked after the turn began. Before that it has the task as it was.
    """

    def __init__(self, before: hub.Task | None, events: list[hub.StreamResponse], shown: int) -> None:
        self.before = before or hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=WORKING))
        self.events, self.shown = events, shown
        self.probe = Probe()
        self.begun = False
        self.probe.on_unary = self._get
        self.probe.on_stream = self._stream

    def task_after(self, count: int) -> hub.Task:
        task = hub.Task()
        task.CopyFrom(self.before)
        for event in self.events[:count]:
            task = fold(task, event)
        return task

    async def _get(self, _: Any) -> Any:
        return self.task_after(self.shown if self.begun else 0)

    async def _stream(self, _: Any) -> AsyncIterator[Event]:
        self.begun = True
        for event in self.events:
            yield Event(event)


PIECES = st.builds(
    lambda name, text, append: hub.StreamResponse(
        artifact_update=hub.TaskArtifactUpdateEvent(
            task_id="t", context_id="c", append=append, artifact=artifact(text, artifact_id=name)
        )
    ),
    st.sampled_from("ab"),
    st.sampled_from("xyz"),
    st.booleans(),
)
ENDS = [status(COMPLETED, final=True), status(INPUT, final=True)]


@given(
    continues=st.booleans(),
    earlier=st.lists(
        st.builds(artifact, st.just("x"), st.sampled_from("xyz"), artifact_id=st.sampled_from("ab"))
    ),
    middle=st.lists(st.one_of(PIECES, st.builds(status)), max_size=5),
    end=st.sampled_from(ENDS),
    shown=st.integers(1, 7),
    version=st.sampled_from(["1.0", "0.3", "0.2.5"]),
    task_first=st.booleans(),
)
async def test_a_reader_has_what_the_agent_has(
    continues: bool,
    earlier: list[hub.Artifact],
    middle: list[hub.StreamResponse],
    end: hub.StreamResponse,
    shown: int,
    version: str,
    task_first: bool,
) -> None:
    """For each first event, and for each moment of the snapshot."""
    unique = {one.artifact_id: one for one in earlier}
    before = task(INPUT, *unique.values()) if continues else None
    turn = Turn(before, [], 0)
    begun = hub.StreamResponse(task=turn.before)
    turn.events = [begun, *middle, end] if task_first else [*middle, end]
    turn.shown = min(shown, len(turn.events))
    request = FOLLOW_UP if continues else hub.SendMessageRequest()
    call = Call(ops.SEND_STREAMING_MESSAGE, request, CallContext(origin=Origin("JSONRPC", version)))
    service = agent_of(turn.probe).service
    read = hub.Task()
    read.CopyFrom(turn.before)  # a caller of 0.x knows it already
    async with aclosing(service.stream(call)) as events:
        async for event in events:
            if event.message.HasField("status_update"):
                read.status.CopyFrom(event.message.status_update.status)
            else:
                read = fold(read, event.message)
    whole = turn.task_after(len(turn.events))
    assert list(read.artifacts) == list(whole.artifacts)
    assert read.status.state == whole.status.state
