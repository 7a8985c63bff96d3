"""Run: the values that an executor reads from it, and the results of its constructors."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.app.peer import request_of
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, CallContext, ResponseParameters
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.messages import data_part
from a2a_bridge.core.resume import gap_of
from a2a_bridge.hosting import Event, Run
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Scope
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.late import LateStore
from tests.hosting.scene import (
    ALICE,
    BOB,
    COMPLETED,
    INPUT,
    PATIENCE,
    SUBMITTED,
    WORKING,
    Gate,
    Talk,
    agent_of,
    request,
    shape,
)
from tests.hosting.test_recovery import Lasting, killed
from tests.rejections import rejected


def run_of(text: str = "hi", **members: object) -> Run:
    return Run(request(text, **members), CallContext(), "task", "context")


def test_input_of_a_run() -> None:
    configuration = hub.SendMessageConfiguration(accepted_output_modes=["text/plain"])
    run = run_of("hi", configuration=configuration, metadata={"n": 7})
    assert (run.text, run.message.message_id, len(run.parts)) == ("hi", "m-1", 1)
    assert (list(run.accepted_output_modes), run.configuration) == (["text/plain"], configuration)
    assert (run.metadata["n"], [one.message_id for one in run.history]) == (7, ["m-1"])
    assert not run.cancelled


def test_a_cancellation_has_no_message() -> None:
    run = Run(hub.CancelTaskRequest(id="task"), CallContext(), "task", "context", hub.Task(id="task"))
    assert (run.text, len(run.parts), len(run.history), len(run.accepted_output_modes)) == ("", 0, 0, 0)
    assert run.configuration == hub.SendMessageConfiguration()


def test_a_reply() -> None:
    message = run_of().reply("a", b"b", {"c": 1}, metadata={"n": 7})
    assert [part.WhichOneof("content") for part in message.parts] == ["text", "raw", "data"]
    assert (message.role, message.context_id) == (hub.ROLE_AGENT, "context")
    assert message.message_id
    assert message.metadata["n"] == 7
    assert run_of().reply(message) is message


def test_a_task_to_start_with() -> None:
    task = run_of().start(metadata={"n": 7})
    assert (task.id, task.context_id, task.status.state) == ("task", "context", SUBMITTED)
    assert task.metadata["n"] == 7


@pytest.mark.parametrize(
    ("state", "number"),
    [
        ("working", WORKING),
        ("input-required", INPUT),
        ("input_required", INPUT),
        ("TASK_STATE_WORKING", WORKING),
        (INPUT, INPUT),
    ],
)
def test_a_status_names_its_state(state: hub.TaskState | str, number: int) -> None:
    event = run_of().status(state)
    assert (event.task_id, event.context_id, event.status.state) == ("task", "context", number)
    assert not event.status.HasField("message")


def test_a_status_may_say_something() -> None:
    event = run_of().status("working", "a", "b", metadata={"n": 7})
    assert [part.text for part in event.status.message.parts] == ["a", "b"]
    assert event.metadata["n"] == 7


def test_a_state_that_is_none_is_rejected() -> None:
    with pytest.raises(ValueError, match="sleeping"):
        run_of().status("sleeping")


def test_an_artifact() -> None:
    event = run_of().artifact(
        "a", 7, artifact_id="x", name="N", description="D", append=True, last=False,
        metadata={"n": 7}, extensions=["https://e.example/1"],
    )  # fmt: skip
    artifact = event.artifact
    assert (event.task_id, event.context_id, event.append, event.last_chunk) == (
        "task",
        "context",
        True,
        False,
    )
    assert (artifact.artifact_id, artifact.name, artifact.description) == ("x", "N", "D")
    assert [part.WhichOneof("content") for part in artifact.parts] == ["text", "data"]
    assert (list(artifact.extensions), artifact.metadata["n"]) == (["https://e.example/1"], 7)
    assert run_of().artifact("a").last_chunk
    assert run_of().artifact("a").artifact.artifact_id != run_of().artifact("a").artifact.artifact_id


async def test_waiting_for_a_cancellation() -> None:
    run = run_of()
    run.cancel()
    await run.wait_cancelled()
    assert run.cancelled


def test_ids_are_of_version_7_and_never_twice() -> None:
    made = [new_id() for _ in range(2000)]
    form = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(form.fullmatch(one) for one in made)
    assert len(set(made)) == len(made)
    assert [one[:13] for one in made] == sorted(one[:13] for one in made)


def test_a_list_with_parts_is_those_parts() -> None:
    run = run_of()
    parts = [hub.Part(text="a"), hub.Part(raw=b"b", media_type="x/y")]
    mixed = [hub.Part(text="a"), b"b", {"c": 1}]
    for given, made in (
        (parts, parts),
        (tuple(parts), parts),
        (mixed, [parts[0], hub.Part(raw=b"b"), data_part({"c": 1})]),
    ):
        assert list(run.artifact(given).artifact.parts) == made
        assert list(run.reply(given).parts) == made
        assert list(run.status("working", given).status.message.parts) == made
    assert list(run.artifact("x", parts).artifact.parts) == [hub.Part(text="x"), *parts]
    assert list(request_of([parts]).message.parts) == parts


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("pic.png", "image/png"),
        ("a.json", "application/json"),
        ("a.tar.gz", "application/gzip"),
        ("a.tar.bz2", ""),
        ("pic", ""),
        ("", ""),
    ],
)
def test_bytes_get_the_media_type_of_their_name(name: str, media_type: str) -> None:
    run = run_of()
    own = hub.Part(raw=b"x", media_type="x/y")
    event = run.artifact(b"x", bytearray(b"y"), own, "text", [own, b"z"], name=name)
    assert [part.media_type for part in event.artifact.parts] == [
        media_type,
        media_type,
        "x/y",
        "",
        "x/y",
        media_type,
    ]


# --- Resuming a broken stream: the ids of events, the valid positions of a subscription, and gaps ---

WHOLE = [("task", SUBMITTED), WORKING, "chunk 0 ", "chunk 1 ", "chunk 2 ", COMPLETED]


def after(event_id: str, context: CallContext | None = None) -> CallContext:
    """A context that asks to resume after an event."""
    context = context or CallContext()
    return context.replace(parameters={LAST_EVENT_PARAMETER: event_id}, reply=ResponseParameters())


async def told(events: Any) -> list[tuple[str, Any]]:
    async with aclosing(events), asyncio.timeout(PATIENCE):
        return [
            (event.id, shape(getattr(event.message, event.message.WhichOneof("payload"))))
            async for event in events
        ]


def subscription(talk: Talk, task_id: str, context: CallContext) -> Any:
    return talk.engine.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id), context)


async def streamed(talk: Talk, text: str, **members: Any) -> list[tuple[str, Any]]:
    return await told(talk.engine.send_streaming_message(request(text, **members), CallContext()))


async def resumed(talk: Talk, task_id: str, event_id: str) -> list[tuple[str, Any]]:
    return await told(subscription(talk, task_id, after(event_id)))


async def test_events_have_numbers() -> None:
    talk = Talk(ScriptedAgent())
    assert await streamed(talk, "chunks 3") == list(zip("123456", WHOLE, strict=True))


@pytest.mark.parametrize("agent", [EchoAgent, ScriptedAgent])
async def test_a_direct_answer_has_none(agent: type[EchoAgent]) -> None:
    ((event_id, event),) = await streamed(Talk(agent()), "hello")
    assert (event_id, event) == ("", ("message", "hello"))


@pytest.mark.parametrize("cut", range(7))
async def test_a_task_that_has_ended_gives_the_rest(cut: int) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    assert await resumed(talk, task.id, str(cut)) == list(zip("123456", WHOLE, strict=True))[cut:]
    async with aclosing(subscription(talk, task.id, after(str(cut)))) as events:
        assert not any([event.gap async for event in events])


async def test_a_live_task_is_gone_on_with() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        yield run.artifact("a", artifact_id="a")
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    events = talk.events("x")
    task = await anext(events)
    await gate.reached()
    await events.aclose()
    waiting = [asyncio.create_task(resumed(talk, task.id, number)) for number in "123"]
    await asyncio.sleep(0)
    gate.open()
    whole = [("2", WORKING), ("3", "a"), ("4", COMPLETED)]
    assert await asyncio.gather(*waiting) == [whole, whole[1:], whole[2:]]


async def test_a_snapshot_has_the_number_of_its_last_event() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("input")
    events = subscription(talk, task.id, CallContext())
    async with aclosing(events):
        assert (await anext(events)).id == "3"
        followed = asyncio.create_task(streamed(talk, "x", task_id=task.id, message_id="m-2"))
        event = await anext(events)
        assert (event.id, event.message.status_update.status.state) == ("4", WORKING)
    assert await followed == [("3", ("task", INPUT)), ("4", WORKING), ("5", "x"), ("6", COMPLETED)]
    assert await resumed(talk, task.id, "3") == (await followed)[1:]
    # A question that has been answered since ends no stream.
    assert await resumed(talk, task.id, "1") == [("2", WORKING), ("3", INPUT), *(await followed)[1:]]


@each("asked", ["7", "999999999999999999", "abc", "abc-3", "03", "0-0"])
@each("text", ["chunks 3", "input"])
async def test_unknown_positions_are_a_gap(asked: str, text: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, text)
    (task,) = (await talk.list()).tasks
    events = subscription(talk, task.id, after(asked))
    async with aclosing(events), asyncio.timeout(PATIENCE):
        first = await anext(events)
        last = "6" if text == "chunks 3" else "3"
        assert (first.id, first.gap) == (last, True)
        mark = gap_of(first.message)
        assert mark is not None
        assert (mark.after, mark.id, first.message.task.status.state) == (asked, last, task.status.state)
        if text == "chunks 3":
            assert [one async for one in events] == []
            return
        following = asyncio.ensure_future(anext(events))
        await talk.send("x", task_id=task.id, message_id="m-2")
        event = await following
        assert (event.id, event.message.status_update.status.state) == ("4", WORKING)


async def test_dropped_events_are_a_gap() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(window=8))
    events = await streamed(talk, "chunks 100")
    assert len(events) == 103
    (task,) = (await talk.list()).tasks
    async with aclosing(subscription(talk, task.id, after("5"))) as subscribed:
        (snapshot,) = [event async for event in subscribed]
    assert (snapshot.id, snapshot.gap, snapshot.message.task.status.state) == ("103", True, COMPLETED)
    assert await resumed(talk, task.id, "98") == events[98:]


@pytest.mark.parametrize("asked", ["-", "é", "a b", "1" * 65, "1,2"])
async def test_invalid_ids_are_rejected(asked: str) -> None:
    talk = Talk(ScriptedAgent())
    await streamed(talk, "chunks 3")
    (task,) = (await talk.list()).tasks
    if asked == "-":  # it could be one, of another agent
        assert (await resumed(talk, task.id, asked))[0][1] == ("task", COMPLETED)
        return
    with rejected(Reason.INVALID_PARAMS, "Last-Event-ID"):
        await resumed(talk, task.id, asked)


async def test_a_foreign_task_cannot_be_gone_on_with() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("task", context=ALICE)
    for who, task_id in ((BOB, task.id), (None, task.id), (ALICE, "none")):
        context = after("1", who)
        with rejected(Reason.TASK_NOT_FOUND):
            await told(subscription(talk, task_id, context))
        assert context.reply == {}


# --- Calls about a task that comes from a dead process, while it is being taken over ---
async def test_a_call_that_comes_while_a_task_is_taken_over_has_the_same_lease() -> None:
    store, lasting = LateStore(), Lasting("input-required")
    task = await killed(lasting, store, resumes=False)
    lasting.gate.open()
    talk = Talk(ScriptedAgent(), store=store)
    known = await store.get(Scope(), task.id)
    taking = asyncio.create_task(talk.engine._sending.recover(Scope(), task.id, known))
    await asyncio.sleep(0)  # it opens the task
    assert (await talk.send("go on", task_id=task.id, message_id="m-2")).status.state == COMPLETED
    assert await taking
    await talk.rest()


async def test_a_task_that_a_takeover_has_failed_is_not_canceled_after_that() -> None:
    store = LateStore()
    lasting, cleaned = Lasting(), []
    task = await killed(lasting, store, resumes=False)
    lasting.gate.open()

    async def cancel(run: Run) -> AsyncIterator[Event]:
        cleaned.append(run.task_id)
        yield run.status("canceled")

    talk = Talk(agent_of(lasting.execute, cancel), store=store)
    known = await store.get(Scope(), task.id)
    taking = asyncio.create_task(talk.engine._sending.recover(Scope(), task.id, known))
    await asyncio.sleep(0)  # it opens the task
    with rejected(Reason.TASK_NOT_CANCELABLE):
        await talk.cancel(task.id)
    assert await taking
    assert cleaned == []
    await talk.rest()
