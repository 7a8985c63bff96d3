"""An agent of the official SDK that does what A2A's conformance documents ask for (ACTS 11.2).

A program as tests/interop/sdk_agent.py, over all bindings; it asks nobody for credentials.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as pb

if __name__ == "__main__":
    # As a program only the folder of this file is on the path.
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.interop.script import STATES, status_update
from tests.interop.sdk_agent import BINDINGS, run

#: seconds of long work; a number among the steps is a pause
LONG = 3.0
#: a pause until the task is cancelled, or the test is over
UNTIL_CANCELLED = 60.0

_FILE = pb.Part(raw=b"made by a test\n", media_type="text/plain", filename="output.txt")
_LINK = pb.Part(url="https://example.com/output.txt", media_type="text/plain", filename="output.txt")
_DATA = pb.Part(media_type="application/json")
_DATA.data.struct_value.update({"key": "value", "count": 42})

Steps = Callable[[RequestContext], Sequence[Any]]


def _status(context: RequestContext, verb: str, text: str = "") -> Any:
    return status_update(pb, context.task_id, context.context_id, STATES[verb], text)


def _chunk(context: RequestContext, part: pb.Part, *, append: bool = False, last: bool = True) -> Any:
    event = pb.TaskArtifactUpdateEvent(
        task_id=context.task_id, context_id=context.context_id, append=append, last_chunk=last
    )
    event.artifact.artifact_id = "out"
    event.artifact.parts.append(part)
    return event


def _with(part: pb.Part) -> Steps:
    return lambda context: [_status(context, "work"), _chunk(context, part), _status(context, "done")]


def _only(verb: str, text: str) -> Steps:
    return lambda context: [_status(context, verb, text)]


def _chunks(context: RequestContext) -> Sequence[Any]:
    pieces = [
        _chunk(context, pb.Part(text="1 "), last=False),
        _chunk(context, pb.Part(text="2 "), append=True, last=False),
        _chunk(context, pb.Part(text="3"), append=True),
    ]
    return [_status(context, "work"), *pieces, _status(context, "done")]


def _message(context: RequestContext) -> Sequence[Any]:
    return [pb.Message(message_id="said", role=pb.ROLE_AGENT, parts=[pb.Part(text="A direct answer")])]


BEHAVIOURS: dict[str, Steps] = {
    "tck-complete-task": _only("done", "Done"),
    "tck-input-required": _only("ask", "What else?"),
    "tck-auth-required": _only("auth", "Please authorise me"),
    "tck-reject-task": _only("reject", "Rejected, as asked"),
    "tck-task-failure": _only("fail", "Failed, as asked"),
    "tck-message-response": _message,
    "tck-artifact-text": _with(pb.Part(text="Generated text")),
    "tck-artifact-file": _with(_FILE),
    "tck-artifact-file-url": _with(_LINK),
    "tck-artifact-data": _with(_DATA),
    "tck-stream-basic": _with(pb.Part(text="Streamed text")),
    "tck-stream-chunked": _chunks,
    "tck-long-running": lambda context: [
        _status(context, "work"),
        LONG,
        _chunk(context, pb.Part(text="The result")),
        _status(context, "done"),
    ],
    "tck-multi-turn": _only("ask", "Go on, or say: done"),
    "tck-cancel": lambda context: [_status(context, "work"), UNTIL_CANCELLED],
}


class Behaving(AgentExecutor):
    """Does what the first word of a task's first message names; without one it completes the task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        words = context.get_user_input().split()
        steps = BEHAVIOURS.get(words[0] if words else "", BEHAVIOURS["tck-complete-task"])
        if task is None and steps is not _message:
            opened = pb.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
            opened.status.state = pb.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(opened)
        elif task is not None and words[:1] == ["done"]:
            steps = BEHAVIOURS["tck-artifact-text"]
        elif task is not None:
            steps = BEHAVIOURS["tck-multi-turn"]
        for step in steps(context):
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                await event_queue.enqueue_event(step)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(_status(context, "cancel"))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(run(list(BINDINGS), compat=False, executor=Behaving()))
