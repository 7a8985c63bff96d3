"""The scripts of the agents in these tests: a message that starts with `script:` contains its answer.

    script: open; work busy; chunk one; chunk two; hold here; done

Any other message is echoed. One generator feeds the official SDK's agent and ours, with their message
classes. `hold NAME` waits until a later message contains `free NAME`: tests order events without a clock.
Until then `tick NAME` sends working statuses again and again, so that a subscriber gets one soon.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

PREFIX = "script:"
#: seconds after which an agent gives up on a `hold`, so that a failed test does not leave it waiting
PATIENCE = 240.0
#: seconds between two events of a `tick`
TICK = 0.05

#: step -> the state it sets
STATES = {
    "work": "TASK_STATE_WORKING",
    "ask": "TASK_STATE_INPUT_REQUIRED",
    "auth": "TASK_STATE_AUTH_REQUIRED",
    "done": "TASK_STATE_COMPLETED",
    "fail": "TASK_STATE_FAILED",
    "reject": "TASK_STATE_REJECTED",
    "cancel": "TASK_STATE_CANCELED",
}


class Gates:
    """Named events that one message waits for and another one sets."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())

    async def wait(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.event(name).wait()


def steps_of(message: Any) -> list[tuple[str, str]]:
    """The steps in a message: `[("echo", "")]` if it is no script."""
    text = next((part.text for part in message.parts if part.WhichOneof("content") == "text"), "")
    if not text.startswith(PREFIX):
        return [("echo", "")]
    steps = []
    for step in text.removeprefix(PREFIX).split(";"):
        verb, _, rest = step.strip().partition(" ")
        steps.append((verb, rest.strip()))
    return steps


def status_update(pb: Any, task_id: str, context_id: str, state: str, text: str = "") -> Any:
    """A status update; `pb` is the module of message classes."""
    event = pb.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id)
    event.status.state = getattr(pb, state)
    event.status.timestamp.FromNanoseconds(time.time_ns())
    if text:
        event.status.message.CopyFrom(
            pb.Message(
                message_id=f"status-{state}",
                role=pb.ROLE_AGENT,
                parts=[pb.Part(text=text)],
                task_id=task_id,
                context_id=context_id,
            )
        )
    return event


async def play(
    pb: Any,
    message: Any,
    task_id: str,
    context_id: str,
    gates: Gates,
    failure: Callable[[str, str], Exception],
) -> AsyncIterator[Any]:
    """The events of one run, as messages of `pb`. failure: the SDK's exception for (reason, text)."""
    artifact_open = False
    for verb, text in steps_of(message):
        if verb in STATES:
            yield status_update(pb, task_id, context_id, STATES[verb], text)
        elif verb == "open":
            task = pb.Task(id=task_id, context_id=context_id, history=[message])
            task.status.state = pb.TASK_STATE_SUBMITTED
            task.status.timestamp.FromNanoseconds(time.time_ns())
            yield task
        elif verb in ("chunk", "last"):
            event = pb.TaskArtifactUpdateEvent(
                task_id=task_id, context_id=context_id, append=artifact_open, last_chunk=verb == "last"
            )
            event.artifact.artifact_id = "out"
            event.artifact.parts.add(text=text)
            artifact_open = verb != "last"
            yield event
        elif verb == "flood":
            count, _, piece = text.partition(" ")
            for number in range(int(count)):
                event = pb.TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, append=number > 0)
                event.artifact.artifact_id = "flood"
                event.artifact.parts.add(text=f"{number} {piece}")
                yield event
        elif verb == "data":
            event = pb.TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, last_chunk=True)
            event.artifact.artifact_id = "data"
            event.artifact.name = text
            part = event.artifact.parts.add(media_type="application/json")
            part.data.struct_value.update({"n": 7, "list": [None, True, {"deep": "x"}], "half": 0.5})
            event.artifact.parts.add(raw=b"\x00\xff" * 8, filename="x.bin", media_type="image/png")
            event.artifact.parts.add(url="https://example.org/x.png")
            event.metadata.update({"step": "data"})
            yield event
        elif verb == "copy":
            event = pb.TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, last_chunk=True)
            event.artifact.artifact_id = event.artifact.name = "copy"
            event.artifact.parts.extend(message.parts)
            if message.HasField("metadata"):
                event.artifact.metadata.CopyFrom(message.metadata)
            yield event
        elif verb == "hold":
            await gates.wait(text)
        elif verb == "tick":
            while not gates.event(text).is_set():
                yield status_update(pb, task_id, context_id, STATES["work"])
                await asyncio.sleep(TICK)
        elif verb == "free":
            gates.event(text).set()
        elif verb == "say":
            yield pb.Message(
                message_id="said", role=pb.ROLE_AGENT, parts=[pb.Part(text=text)], context_id=context_id
            )
        elif verb == "echo":
            answer = pb.Message(
                message_id="echo", role=pb.ROLE_AGENT, parts=message.parts, context_id=context_id
            )
            answer.extensions.extend(message.extensions)
            answer.reference_task_ids.extend(message.reference_task_ids)
            if message.HasField("metadata"):
                answer.metadata.CopyFrom(message.metadata)
            yield answer
        elif verb == "raise":
            reason, _, rest = text.partition(" ")
            raise failure(reason, rest)
        elif verb == "crash":
            raise RuntimeError("a secret of the agent's")
        else:
            raise AssertionError(f"no such step: {verb!r}")
