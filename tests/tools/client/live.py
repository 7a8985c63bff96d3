"""Agents that client commands talk to, and what to say to them. No tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.cli.commands import Done, command
from tests.peers.processes import Agent

#: what an agent shall do -> what the demo server, and the scripted agents of the official SDK, do it for
OURS = {
    "echo": "hello",
    "message": "tck-message-response",
    "complete": "tck-complete-task",
    "artifact": "tck-artifact-text",
    "ask": "tck-input-required",
    "auth": "tck-auth-required",
    "fail": "tck-task-failure",
    "reject": "tck-reject-task",
    "work": "tck-cancel",
    "long": "tck-long-running",
    "chunks": "tck-stream-chunked",
    "answer": "done",
}
THEIRS = {
    "echo": "script: open; copy; done",
    "message": "script: say hello",
    "complete": "script: open; work; done",
    "artifact": "script: open; work; chunk text; done",
    "ask": "script: open; ask which?",
    "auth": "script: open; auth please",
    "fail": "script: open; work; fail broken",
    "reject": "script: open; reject never",
    "work": "script: open; work; hold {unique}",
    "long": "script: open; work; tick {unique}",
    "chunks": "script: open; work; chunk a; chunk b; done",
    "answer": "script: work; done",
}


@dataclass(frozen=True)
class Live:
    """An agent over one binding."""

    reference: str
    binding: str
    says: Mapping[str, str] = field(repr=False)
    #: flags that every command needs
    flags: tuple[str, ...] = ()

    def text(self, behaviour: str) -> str:
        """The text for a behaviour."""
        return self.says[behaviour].format(unique=uuid4().hex)

    async def run(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """A command about this agent; its words without the agent and the binding."""
        end = next((number for number, word in enumerate(words) if word.startswith("-")), len(words))
        own = ("-a", self.reference, "--transport", self.binding, *self.flags)
        return await command(*words[:end], *own, *words[end:], env=env)

    async def send(self, behaviour: str, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """`send` with the text for a behaviour."""
        return await self.run("send", self.text(behaviour), *words, env=env)

    async def task(self, behaviour: str, *words: str) -> Any:
        """The task that a message creates, as JSON."""
        done = await self.send(behaviour, *words, "-o", "json")
        assert done.code == 0, done.err
        return done.json["task"]


def ours(addresses: Mapping[str, str], binding: str) -> Live:
    """The demo server."""
    return Live(addresses["http"], binding, OURS)


def theirs(agent: Agent, binding: str) -> Live:
    """A scripted agent of the official SDK."""
    version = () if agent.release == "1.3.0" else ("--a2a-version", "0.3")
    return Live(agent.http or f"grpc://{agent.grpc}", binding, THEIRS, version)


def lines(done: Done) -> list[Any]:
    """Standard output, a JSON document a line."""
    return [json.loads(line) for line in done.out.splitlines()]


def states(done: Done) -> list[str]:
    """The states in the events of a stream."""
    found = []
    for event in lines(done):
        inner = event.get("task") or event.get("statusUpdate")
        found += [inner["status"]["state"].removeprefix("TASK_STATE_").lower()] if inner else []
    return found
