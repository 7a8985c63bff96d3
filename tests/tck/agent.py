"""Agents for the conformance suites: what the suites expect of the agent that they test.

    a2a-bridge serve tests/tck/agent.py:scenarios
    a2a-bridge serve tests/tck/agent.py:waiting

The suite of 1.0 says by the beginning of a message's id what the agent does (its scenarios/*.feature). Those of
0.x say it of one message only, and cancel and continue the tasks of all others.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from a2a_bridge import Agent, Run, agent
from a2a_bridge.ext import hub

#: seconds, as the suites read it; streams that they join last for twice this time
_TIMEOUT = float(os.environ.get("TCK_STREAMING_TIMEOUT", "2.0"))
_JOINED = "test-resubscribe-message-id"

_FILE = hub.Part(raw=b"tck", media_type="text/plain", filename="output.txt")
_LINK = hub.Part(url="https://example.com/output.txt", media_type="text/plain", filename="output.txt")

Event = Any
#: what a run yields; a number is a pause in seconds
Steps = Callable[[Run], Sequence[Event]]


def _working(*content: Any) -> Steps:
    return lambda run: [run.status("working"), run.artifact(*content), run.status("completed")]


def _having(*content: Any) -> Steps:
    return lambda run: [run.artifact(*content), run.status("completed")]


def _chunks(run: Run) -> Sequence[Event]:
    first = run.artifact("chunk-1 ", artifact_id="chunks", last=False)
    last = run.artifact("chunk-2", artifact_id="chunks", append=True)
    return [run.status("working"), first, last, run.status("completed")]


#: how the id of a message begins -> what the agent does
_SCENARIOS: dict[str, Steps] = {
    "tck-complete-task": lambda run: [run.status("completed", "Hello from TCK")],
    "tck-delayed-complete": lambda run: [
        run.status("working"),
        _TIMEOUT,
        run.status("completed", "Done after delay"),
    ],
    "tck-artifact-text": _having("Generated text content"),
    "tck-artifact-file": _having(_FILE),
    "tck-artifact-file-url": _having(_LINK),
    "tck-artifact-data": _having({"key": "value", "count": 42}),
    "tck-message-response": lambda run: [run.reply("Direct message response")],
    "tck-input-required": lambda run: [run.status("input-required")],
    "tck-reject-task": lambda run: [run.status("rejected", "rejected")],
    "tck-stream-001": _working("Stream hello from TCK"),
    "tck-stream-002": lambda run: [run.status("completed")],
    "tck-stream-003": _working("Stream task lifecycle"),
    "tck-stream-ordering-001": _working("Ordered output"),
    "tck-stream-artifact-text": _working("Streamed text content"),
    "tck-stream-artifact-file": _working(_FILE),
    "tck-stream-artifact-chunked": _chunks,
    _JOINED: lambda run: [run.status("working"), 2 * _TIMEOUT, run.status("completed")],
}


def steps_of(message_id: str) -> Steps:
    found = max((one for one in _SCENARIOS if message_id.startswith(one)), key=len, default="")
    return _SCENARIOS.get(found, lambda run: [run.status("completed", f"No scenario of {message_id!r}")])


class Scenarios:
    """Plays the scenario of each message. No `@agent`: one scenario is a direct answer, the others are tasks."""

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        for step in steps_of(run.message.message_id)(run):
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                yield step


scenarios = Agent(
    Scenarios(), name="TCK", description="Does what the suite of 1.0 expects", push_notifications=True
)


@agent(name="TCK", description="Does what the suites of 0.x expect", task=True, push_notifications=True)
async def waiting(run: Run) -> AsyncIterator[Event]:
    yield run.status("working")
    if run.message.message_id.startswith(_JOINED):
        # The suite of 0.2.5 reads the stream that it joins to its end, so the task has to end.
        await asyncio.sleep(2 * _TIMEOUT)
        yield run.status("completed")
        return
    yield run.status("input-required", "And now?")
