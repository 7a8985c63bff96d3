"""What each adapter of a framework does, asked by the official client on a socket: one table for all of them.

The agents are scripted: see adapted/. Each check has a context of its own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.patience import PATIENCE

HIDDEN = "a secret of the framework"


@dataclass
class Told:
    """What an agent told about one message."""

    task_id: str = ""
    state: str = ""
    chunks: list[str] = field(default_factory=list)
    parts: list[a2a.Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.chunks)

    def take(self, event: a2a.StreamResponse) -> None:
        which = event.WhichOneof("payload")
        if which == "artifact_update":
            self.task_id = event.artifact_update.task_id
            for part in event.artifact_update.artifact.parts:
                self.parts.append(part)
                if part.HasField("text"):
                    self.chunks.append(part.text)
            return
        found = event.task if which == "task" else event.status_update
        self.task_id = found.id if which == "task" else found.task_id
        self.state = a2a.TaskState.Name(found.status.state).removeprefix("TASK_STATE_")
        for part in found.status.message.parts:
            if part.HasField("text"):
                self.notes.append(part.text)
            elif part.HasField("data") and self.state == "INPUT_REQUIRED":
                self.asked = MessageToDict(part.data)["calls"]


class Caller:
    """One caller with the official client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def stream(
        self, *content: Any, context: str = "", task: str = ""
    ) -> AsyncIterator[a2a.StreamResponse]:
        message = a2a.Message(
            message_id=uuid.uuid4().hex, role=a2a.ROLE_USER, context_id=context, task_id=task
        )
        for one in content:
            if isinstance(one, str):
                message.parts.add(text=one)
            elif isinstance(one, dict):
                ParseDict(one, message.parts.add().data)
            else:
                message.parts.append(one)
        async for event in self.client.send_message(a2a.SendMessageRequest(message=message)):
            yield event

    async def send(self, *content: Any, context: str = "", task: str = "") -> Told:
        told = Told()
        async with asyncio.timeout(PATIENCE):
            async for event in self.stream(*content, context=context, task=task):
                told.take(event)
        return told


@asynccontextmanager
async def caller(url: str, key: str) -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(headers={"x-api-key": key}, timeout=PATIENCE) as http:
        yield Caller(await create_client(url, ClientConfig(streaming=True, httpx_client=http)))


def expect(found: Any, wanted: Any) -> None:
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def context() -> str:
    return uuid.uuid4().hex


async def chunks(ann: Caller, bob: Caller) -> None:
    told = await ann.send("chunks")
    expect((told.state, told.text), ("COMPLETED", "one two three"))
    assert len([one for one in told.chunks if one]) > 1, f"one chunk: {told.chunks}"


async def two_turns(ann: Caller, bob: Caller) -> None:
    where = context()
    await ann.send("first", context=where)
    expect((await ann.send("recall", context=where)).text, "first,recall")


async def two_tasks_at_once(ann: Caller, bob: Caller) -> None:
    where = context()
    await asyncio.gather(*(ann.send("same", context=where) for _ in range(3)))
    expect((await ann.send("recall", context=where)).text, "same,same,same,recall")


async def approval(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    expect(told.state, "INPUT_REQUIRED")
    expect(
        [(one["name"], one["arguments"], one["approval"]) for one in told.asked],
        [("delete", {"path": "x"}, True)],
    )
    done = await ann.send("yes", context=where, task=told.task_id)
    expect((done.state, done.text), ("COMPLETED", "done: deleted x"))


async def denial(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    done = await ann.send("no", context=where, task=told.task_id)
    expect(done.state, "COMPLETED")
    assert "deleted" not in done.text, done.text
    assert done.text.startswith("done: "), done.text


async def approvals_by_call(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("both", context=where)
    first, second = (one["callId"] for one in told.asked)
    partial = await ann.send({first: True}, context=where, task=told.task_id)
    expect((partial.state, [one["callId"] for one in partial.asked]), ("INPUT_REQUIRED", [first, second]))
    unknown = await ann.send({"another": True}, context=where, task=told.task_id)
    expect(unknown.state, "INPUT_REQUIRED")
    done = await ann.send({first: True, second: False}, context=where, task=told.task_id)
    expect(done.state, "COMPLETED")
    assert "deleted x" in done.text, done.text
    assert "deleted y" not in done.text, done.text


async def changed_arguments(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    answer = {told.asked[0]["callId"]: {"approved": True, "arguments": {"path": "z"}}}
    text = (await ann.send(answer, context=where, task=told.task_id)).text
    assert text.endswith("deleted z"), text
    assert "deleted x" not in text, text


async def refused_arguments(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    answer = {told.asked[0]["callId"]: {"approved": True, "arguments": {"path": "z"}}}
    again = await ann.send(answer, context=where, task=told.task_id)
    expect((again.state, again.text), ("INPUT_REQUIRED", ""))
    assert again.notes[-1].startswith("delete takes no other arguments."), again.notes
    answer[told.asked[0]["callId"]] = {"approved": True, "arguments": {"path": "x"}}
    expect((await ann.send(answer, context=where, task=told.task_id)).text, "done: deleted x")


async def question(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("question", context=where)
    expect(told.state, "INPUT_REQUIRED")
    done = await ann.send("red", context=where, task=told.task_id)
    expect((done.state, done.text), ("COMPLETED", "done: got red"))


async def abandoned_question(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    expect((await ann.send("hello", context=where)).text, "heard hello")
    late = await ann.send("yes", context=where, task=told.task_id)
    expect((late.state, late.text), ("FAILED", ""))
    expect((await ann.send("recall", context=where)).text, "approve,hello,recall")


async def cancel(ann: Caller, bob: Caller) -> None:
    where = context()
    told = Told()
    async with asyncio.timeout(PATIENCE):
        async for event in ann.stream("slow", context=where):
            told.take(event)
            if told.text == "begun" and told.state != "CANCELED":
                await ann.client.cancel_task(a2a.CancelTaskRequest(id=told.task_id))
    expect(told.state, "CANCELED")
    expect((await ann.send("hello", context=where)).text, "heard hello")


async def cancelled_question(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("approve", context=where)
    task = await ann.client.cancel_task(a2a.CancelTaskRequest(id=told.task_id))
    expect(task.status.state, a2a.TASK_STATE_CANCELED)
    expect((await ann.send("hello", context=where)).text, "heard hello")


async def masked_crash(ann: Caller, bob: Caller) -> None:
    where = context()
    told = await ann.send("crash", context=where)
    expect(told.state, "FAILED")
    assert HIDDEN not in "".join(told.notes), told.notes
    expect((await ann.send("hello", context=where)).text, "heard hello")


async def file_in(ann: Caller, bob: Caller) -> None:
    told = await ann.send(a2a.Part(raw=b"\x89PNG", media_type="image/png", filename="x.png"))
    expect((told.state, told.text), ("COMPLETED", "image image/png"))


async def file_out(ann: Caller, bob: Caller) -> None:
    told = await ann.send("file")
    files = [(one.raw, one.media_type, one.filename) for one in told.parts if one.HasField("raw")]
    expect(files, [(b"a,b\n", "text/csv", "table.csv")])


async def data_in(ann: Caller, bob: Caller) -> None:
    told = await ann.send({"a": 1})
    expect(told.text.replace(" ", "").replace("1.0", "1"), 'data{"a":1}')


async def two_callers(ann: Caller, bob: Caller) -> None:
    where = context()
    await ann.send("mine", context=where)
    told = await ann.send("approve", context=where)
    expect((await bob.send("recall", context=where)).text, "recall")
    expect((await ann.send("yes", context=where, task=told.task_id)).text, "done: deleted x")
    expect((await ann.send("recall", context=where)).text, "mine,approve,recall")


CHECKS: dict[str, Callable[[Caller, Caller], Awaitable[None]]] = {
    "streamed text is chunks": chunks,
    "a conversation goes on": two_turns,
    "two tasks of one context at once": two_tasks_at_once,
    "approval of a tool": approval,
    "denial of a tool": denial,
    "answers by call": approvals_by_call,
    "approval with other arguments": changed_arguments,
    "question, and its answer": question,
    "question that nobody answers": abandoned_question,
    "cancel, and the turn after it": cancel,
    "cancel while a question is open": cancelled_question,
    "errors are masked": masked_crash,
    "files to the agent": file_in,
    "files of the agent": file_out,
    "data to the agent": data_in,
    "two callers with one context id": two_callers,
}


#: instead of the check of that name, for a framework that cannot pass it
REFUSALS = {"approval with other arguments": refused_arguments}


async def run_checks(url: str, ann: str, bob: str, refuses: Collection[str] = ()) -> dict[str, str]:
    """The fault of each check; empty if there is none. ann, bob: API keys of two callers. refuses: checks that
    the agent cannot pass, and has to refuse.
    """
    found = {}
    async with caller(url, ann) as first, caller(url, bob) as second:
        for name, check in CHECKS.items():
            try:
                await (REFUSALS[name] if name in refuses else check)(first, second)
            except Exception as error:  # noqa: BLE001  it is the row of a table
                found[name] = f"{type(error).__name__}: {error}"
            else:
                found[name] = ""
    return found
