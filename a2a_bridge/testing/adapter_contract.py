"""AdapterContract: what an adapter of a framework guarantees. The agent is called in this process, without a
socket; `Caller` takes any peer, so that the same tests can be run over sockets.

The agent of the test has an offline model, and does what the newest message says:

| message | the agent |
|---|---|
| `chunks` | streams `one `, `two `, `three` |
| `recall` | says the texts of the user in this conversation, this one included, with commas between them |
| `approve` | calls the tool `delete`, which needs an approval, for `{"path": "x"}`; then `done: deleted x` |
| `both` | calls it twice at once, for x and for y; then says `done: `, and the results with commas |
| `question` | asks the user, and says `done: got ANSWER` |
| `slow` | says `begun`, and works until it is cancelled |
| `crash` | raises an exception with the text of SECRET |
| `file` | gives the file `table.csv`, which is `a,b` and a line feed |
| any other text | says `heard TEXT` |
| a file, data | says something with its media type, or with the keys and values of the data |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.app.runtime import connect
from a2a_bridge.codec.structs import read_value
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.hosting import Agent
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds after which a turn fails as hanging
PATIENCE = 120.0
#: the text of the exception of `crash`
SECRET = "a secret of the framework"  # noqa: S105  no password


@dataclass
class Turn:
    """The outcome of one message. notes: the texts of statuses. calls: the open calls of a question."""

    task_id: str = ""
    state: str = ""
    parts: list[hub.Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the artifacts."""
        return "".join(part.text for part in self.parts)

    def take(self, event: hub.StreamResponse) -> None:
        """Adds an event of the stream."""
        if event.HasField("artifact_update"):
            self.task_id = event.artifact_update.task_id
            self.parts += event.artifact_update.artifact.parts
            return
        found = event.task if event.HasField("task") else event.status_update
        self.task_id = found.id if isinstance(found, hub.Task) else found.task_id
        self.state = hub.TaskState.Name(found.status.state).removeprefix("TASK_STATE_").lower()
        for part in found.status.message.parts:
            if part.HasField("text"):
                self.notes.append(part.text)
            elif part.HasField("data"):
                tree: Any = read_value(part.data)
                self.calls = tree.get("calls", [tree]) if isinstance(tree, dict) else []


class Caller:
    """One caller of the agent, with a context of its own unless one is named. context: identifies the caller
    to an agent in this process; for an agent on a socket, the options of `peer` do.
    """

    def __init__(self, peer: Peer, context: CallContext | None = None) -> None:
        self._peer, self._context = peer, context

    async def say(self, *content: Any, where: str = "", task: str = "", cancel_at: str = "") -> Turn:
        """One message, to the end of its stream. cancel_at: the text at which the task is cancelled."""
        turn, request = Turn(), request_of(content, task=task or None, context_id=where)
        async with asyncio.timeout(PATIENCE):
            async for event in self._peer.events(request, context=self._context):
                turn.take(event.message)
                if cancel_at and turn.text == cancel_at:
                    cancel_at = ""
                    await self.cancel(turn.task_id)
        return turn

    async def cancel(self, task_id: str) -> hub.Task:
        """Cancels a task."""
        return await self._peer.cancel_task(hub.CancelTaskRequest(id=task_id), self._context)


@asynccontextmanager
async def callers(agent: Agent) -> AsyncIterator[tuple[Caller, Caller]]:
    """Two callers of an agent in this process, while the context is open."""
    async with connect(agent) as peer:
        yield (
            Caller(peer, CallContext(principal=Principal("ann"))),
            Caller(peer, CallContext(principal=Principal("bob"))),
        )


async def _asked(caller: Caller, text: str, where: str) -> Turn:
    turn = await caller.say(text, where=where)
    assert turn.state == "input_required"
    return turn


class AdapterContract:
    """Subclass it, and override the fixture `agent`: the agent of the table above, made by the adapter.

    changes_arguments: whether an approval can change the arguments of its call; else the adapter asks again.
    """

    changes_arguments = True

    @pytest.fixture
    def agent(self) -> Agent:
        """The agent that the adapter makes."""
        raise NotImplementedError

    @pytest.fixture
    async def both(self, agent: Agent) -> AsyncIterator[tuple[Caller, Caller]]:
        """Two callers of the agent."""
        async with callers(agent) as both:
            yield both

    @pytest.fixture
    def ann(self, both: tuple[Caller, Caller]) -> Caller:
        """The first caller."""
        return both[0]

    @pytest.fixture
    def bob(self, both: tuple[Caller, Caller]) -> Caller:
        """The second caller."""
        return both[1]

    async def test_streamed_text_is_chunks(self, ann: Caller) -> None:
        turn = await ann.say("chunks")
        assert (turn.state, turn.text) == ("completed", "one two three")
        assert len([part for part in turn.parts if part.text]) > 1

    async def test_a_conversation_goes_on(self, ann: Caller) -> None:
        where = new_id()
        await ann.say("first", where=where)
        assert (await ann.say("recall", where=where)).text == "first,recall"

    async def test_two_tasks_of_one_context_at_once(self, ann: Caller) -> None:
        where = new_id()
        await asyncio.gather(*(ann.say("same", where=where) for _ in range(3)))
        assert (await ann.say("recall", where=where)).text == "same,same,same,recall"

    async def test_an_approval_of_a_tool(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "approve", where)
        (call,) = asked.calls
        assert (call["name"], call["arguments"], call["approval"]) == ("delete", {"path": "x"}, True)
        done = await ann.say("yes", where=where, task=asked.task_id)
        assert (done.state, done.text) == ("completed", "done: deleted x")

    async def test_a_denial_of_a_tool(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "approve", where)
        denied = await ann.say("no", where=where, task=asked.task_id)
        assert denied.state == "completed"
        assert denied.text.startswith("done: ")
        assert "deleted" not in denied.text

    async def test_answers_by_call(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "both", where)
        first, second = (one["callId"] for one in asked.calls)
        for unclear in ({first: True}, {"another": True}):
            again = await ann.say(unclear, where=where, task=asked.task_id)
            assert (again.state, [one["callId"] for one in again.calls]) == (
                "input_required",
                [first, second],
            )
        done = await ann.say({first: True, second: False}, where=where, task=asked.task_id)
        assert done.state == "completed"
        assert "deleted x" in done.text
        assert "deleted y" not in done.text

    async def test_an_approval_with_other_arguments(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "approve", where)
        name = asked.calls[0]["callId"]
        changed = {name: {"approved": True, "arguments": {"path": "z"}}}
        turn = await ann.say(changed, where=where, task=asked.task_id)
        if not self.changes_arguments:
            assert (turn.state, turn.text) == ("input_required", "")
            assert turn.notes[-1].startswith("delete takes no other arguments.")
            same = {name: {"approved": True, "arguments": {"path": "x"}}}
            turn = await ann.say(same, where=where, task=asked.task_id)
        assert turn.state == "completed"
        assert turn.text.endswith("deleted z" if self.changes_arguments else "deleted x")
        assert turn.text.count("deleted") == 1

    async def test_a_question_and_its_answer(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "question", where)
        answered = await ann.say("red", where=where, task=asked.task_id)
        assert (answered.state, answered.text) == ("completed", "done: got red")

    async def test_a_question_that_nobody_answers(self, ann: Caller) -> None:
        """It is denied by the next task."""
        where = new_id()
        asked = await _asked(ann, "approve", where)
        assert (await ann.say("hello", where=where)).text == "heard hello"
        late = await ann.say("yes", where=where, task=asked.task_id)
        assert (late.state, late.text) == ("failed", "")
        assert (await ann.say("recall", where=where)).text == "approve,hello,recall"

    async def test_a_cancelled_turn_and_the_one_after_it(self, ann: Caller) -> None:
        where = new_id()
        assert (await ann.say("slow", where=where, cancel_at="begun")).state == "canceled"
        assert (await ann.say("hello", where=where)).text == "heard hello"

    async def test_a_cancelled_question(self, ann: Caller) -> None:
        where = new_id()
        asked = await _asked(ann, "approve", where)
        assert (await ann.cancel(asked.task_id)).status.state == hub.TASK_STATE_CANCELED
        assert (await ann.say("hello", where=where)).text == "heard hello"

    async def test_a_crash_without_its_text(self, ann: Caller) -> None:
        where = new_id()
        crashed = await ann.say("crash", where=where)
        assert crashed.state == "failed"
        assert SECRET not in "".join(crashed.notes) + crashed.text
        assert (await ann.say("hello", where=where)).text == "heard hello"

    async def test_a_file_to_the_agent(self, ann: Caller) -> None:
        turn = await ann.say(hub.Part(raw=b"\x89PNG", media_type="image/png", filename="x.png"))
        assert turn.state == "completed"
        assert "image/png" in turn.text

    async def test_a_file_of_the_agent(self, ann: Caller) -> None:
        files = [part for part in (await ann.say("file")).parts if part.HasField("raw")]
        assert [(one.raw, one.media_type, one.filename) for one in files] == [
            (b"a,b\n", "text/csv", "table.csv")
        ]

    async def test_data_to_the_agent(self, ann: Caller) -> None:
        said = (await ann.say({"key": "value"})).text
        assert "key" in said
        assert "value" in said

    async def test_two_callers_with_one_context_id(self, ann: Caller, bob: Caller) -> None:
        where = new_id()
        await ann.say("mine", where=where)
        assert (await bob.say("recall", where=where)).text == "recall"
        asked = await _asked(ann, "approve", where)
        assert (await bob.say("recall", where=where)).text == "recall,recall"
        assert (await ann.say("yes", where=where, task=asked.task_id)).text == "done: deleted x"
        assert (await ann.say("recall", where=where)).text == "mine,approve,recall"
