"""AdapterContract: what an adapter of a framework guarantees. The agent is called in this process, without a
socket.

The agent of the test has an offline model, and does what the newest message says:

| message | the agent |
|---|---|
| `chunks` | streams `one `, `two `, `three` |
| `recall` | says the texts of the user in this conversation, this one included, with commas between them |
| `approve` | calls a tool that needs an approval, with `{"path": "x"}`; after it `done: deleted x` |
| `question` | asks the user, and says `done: got ANSWER` |
| `slow` | says `begun`, and works until it is cancelled |
| `crash` | raises an exception with the text of SECRET |
| `file` | gives the file `table.csv`, which is `a,b` and a line feed |
| any other text | says `heard TEXT` |
| a file, data | says something with its media type, or with the keys and values of the data |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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
    """One authenticated caller of the agent, with a context of its own unless one is named."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self._context = CallContext(principal=Principal(name))

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


class AdapterContract:
    """Subclass it, and override the fixture `agent`: the agent of the table above, made by the adapter."""

    @pytest.fixture
    def agent(self) -> Agent:
        """The agent that the adapter makes."""
        raise NotImplementedError

    async def test_streamed_text_is_chunks(self, agent: Agent) -> None:
        async with connect(agent) as peer:
            turn = await Caller(peer, "ann").say("chunks")
        assert (turn.state, turn.text) == ("completed", "one two three")
        assert len([part for part in turn.parts if part.text]) > 1

    async def test_a_conversation_goes_on_and_two_tasks_at_once_lose_no_turn(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            await ann.say("first", where=where)
            await asyncio.gather(*(ann.say("same", where=where) for _ in range(2)))
            assert (await ann.say("recall", where=where)).text == "first,same,same,recall"

    async def test_an_approval_and_a_denial_reach_the_call(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            asked = await ann.say("approve", where=where)
            assert asked.state == "input_required"
            assert [one["arguments"] for one in asked.calls] == [{"path": "x"}]
            by_call = await ann.say({asked.calls[0]["callId"]: True}, where=where, task=asked.task_id)
            assert (by_call.state, by_call.text) == ("completed", "done: deleted x")
            asked = await ann.say("approve", where=where)
            denied = await ann.say("no", where=where, task=asked.task_id)
            assert denied.state == "completed"
            assert "deleted" not in denied.text

    async def test_a_question_gets_its_answer(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            asked = await ann.say("question", where=where)
            assert asked.state == "input_required"
            answered = await ann.say("red", where=where, task=asked.task_id)
            assert (answered.state, answered.text) == ("completed", "done: got red")

    async def test_a_question_that_nobody_answers_is_denied_by_the_next_task(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            asked = await ann.say("approve", where=where)
            assert asked.state == "input_required"
            assert (await ann.say("hello", where=where)).text == "heard hello"
            late = await ann.say("yes", where=where, task=asked.task_id)
            assert (late.state, late.text) == ("failed", "")

    async def test_a_cancelled_turn_has_ended_before_the_next_one(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            assert (await ann.say("slow", where=where, cancel_at="begun")).state == "canceled"
            assert (await ann.say("hello", where=where)).text == "heard hello"
            asked = await ann.say("approve", where=where)
            assert (await ann.cancel(asked.task_id)).status.state == hub.TASK_STATE_CANCELED
            assert (await ann.say("hello", where=where)).text == "heard hello"

    async def test_a_crash_shows_no_text_and_harms_no_later_turn(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            crashed = await ann.say("crash", where=where)
            assert crashed.state == "failed"
            assert SECRET not in "".join(crashed.notes) + crashed.text
            assert (await ann.say("hello", where=where)).text == "heard hello"

    async def test_files_and_data_pass_both_ways(self, agent: Agent) -> None:
        async with connect(agent) as peer:
            ann = Caller(peer, "ann")
            picture = hub.Part(raw=b"\x89PNG", media_type="image/png", filename="x.png")
            assert "image/png" in (await ann.say(picture)).text
            said = (await ann.say({"key": "value"})).text
            assert "key" in said
            assert "value" in said
            files = [part for part in (await ann.say("file")).parts if part.HasField("raw")]
            assert [(one.raw, one.media_type) for one in files] == [(b"a,b\n", "text/csv")]

    async def test_two_callers_with_one_context_id_share_nothing(self, agent: Agent) -> None:
        where = new_id()
        async with connect(agent) as peer:
            ann, bob = Caller(peer, "ann"), Caller(peer, "bob")
            await ann.say("mine", where=where)
            asked = await ann.say("approve", where=where)
            assert asked.state == "input_required"
            assert (await bob.say("recall", where=where)).text == "recall"
            done = await ann.say("yes", where=where, task=asked.task_id)
            assert done.text == "done: deleted x"
            assert (await ann.say("recall", where=where)).text == "mine,approve,recall"
