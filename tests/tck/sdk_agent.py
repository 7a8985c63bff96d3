"""The scenarios of the suite of 1.0 as an agent of the official SDK: the other end of a gateway.

It prints one line, `ready http=http://HOST:PORT grpc=HOST:PORT`, and runs until its standard input ends.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2

if __name__ == "__main__":
    # As a program only the folder of this file is on the path.
    sys.path.insert(0, str(Path(__file__).parents[2]))

from a2a_bridge.core.messages import parts_of
from tests.interop.script import status_update
from tests.interop.sdk_agent import BINDINGS, run
from tests.tck.agent import steps_of


class _Steps:
    """What the steps of a scenario need of a run, as messages of the SDK."""

    def __init__(self, context: RequestContext) -> None:
        self._ids = {"task_id": context.task_id, "context_id": context.context_id}

    def status(self, state: str, *content: Any) -> Any:
        update = status_update(a2a_pb2, **self._ids, state=f"TASK_STATE_{state.upper().replace('-', '_')}")
        if content:
            update.status.message.CopyFrom(self._message(content))
        return update

    def reply(self, *content: Any) -> Any:
        return self._message(content)

    def artifact(self, *content: Any, artifact_id: str = "", append: bool = False, last: bool = True) -> Any:
        artifact = a2a_pb2.Artifact(artifact_id=artifact_id or str(uuid4()), parts=_parts(content))
        return a2a_pb2.TaskArtifactUpdateEvent(**self._ids, artifact=artifact, append=append, last_chunk=last)

    def _message(self, content: Any) -> Any:
        ids = {"context_id": self._ids["context_id"], "task_id": ""}
        return a2a_pb2.Message(message_id=str(uuid4()), role="ROLE_AGENT", parts=_parts(content), **ids)


def _parts(content: Any) -> list[Any]:
    return [a2a_pb2.Part.FromString(part.SerializeToString()) for one in content for part in parts_of(one)]


class Scenarios(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        steps = steps_of(context.message.message_id)(_Steps(context))
        if context.current_task is None and not any(isinstance(step, a2a_pb2.Message) for step in steps):
            task = a2a_pb2.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
            task.status.state = a2a_pb2.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(task)
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                await event_queue.enqueue_event(step)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(_Steps(context).status("canceled"))


if __name__ == "__main__":
    asyncio.run(run(list(BINDINGS), compat=False, executor=Scenarios(), push=True))
