"""The contract of executors of a2a-sdk 0.3 on our engine; the exit code is 0 if all holds.

Arguments: see executor_0_3.py.
"""

import asyncio
import os
import sys
from typing import Any

sys.path += sys.argv[1].split(os.pathsep)

from a2a import types
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.utils import new_agent_text_message, new_task
from a2a.utils.errors import ServerError

from a2a_bridge import A2AError, connect
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.pb import lf_a2a_v1 as hub

SEEN: list[RequestContext] = []


class Executor(AgentExecutor):
    """The text of the message decides."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        SEEN.append(context)
        text = context.get_user_input()
        if text == "reject":
            raise ServerError(types.InvalidParamsError(message="no city"))
        if text == "unnamed":
            raise ServerError(None)
        if text == "crash":
            raise ValueError("a secret")
        context.add_activated_extension("urn:x")
        if text == "message and more":
            await event_queue.enqueue_event(new_agent_text_message("the answer"))
            await event_queue.enqueue_event(new_agent_text_message("another"))
            await TaskUpdater(event_queue, context.task_id, context.context_id).complete()
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if text == "ask":
            await updater.update_status(
                types.TaskState.input_required, new_agent_text_message("what?"), final=True
            )
            return
        if text.startswith("message after"):
            if text == "message after question":
                await updater.update_status(types.TaskState.input_required)
            elif text == "message after end":
                await updater.complete()
            else:
                await updater.start_work()
            await event_queue.enqueue_event(new_agent_text_message("the answer"))
            return
        child = event_queue.tap()
        for number in range(100):
            part = types.Part(root=types.TextPart(text=f"{number} "))
            await updater.add_artifact([part], artifact_id="a", append=number > 0)
        assert child.queue.qsize() == 100
        await updater.complete()
        await event_queue.close()
        assert event_queue.is_closed()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise ServerError(types.TaskNotCancelableError(message="never"))


async def error_of(call: Any) -> tuple[str, str]:
    try:
        await call
    except A2AError as error:
        return error.name, error.message
    raise AssertionError("no error")


async def main() -> None:
    async with connect(Executor) as peer:
        context = CallContext(parameters={"a2a-extensions": "urn:x, urn:y"}, principal=Principal("ada"))
        assert await error_of(peer.send("reject")) == ("INVALID_PARAMS", "no city")
        assert (await error_of(peer.send("unnamed")))[0] == "INTERNAL_ERROR"
        assert await error_of(peer.send("crash")) == ("INTERNAL_ERROR", "Internal error")
        direct = await peer.send("message and more")
        assert (direct.text, direct.task) == ("the answer", None)
        for text, state, told in (
            ("message after work", "completed", "the answer"),
            ("message after end", "completed", ""),
        ):
            answer = await peer.send(text)
            assert (answer.state, answer.text) == (state, told), text
        asking = await peer.send("message after question")
        assert asking.state == "input-required"
        went_on = await peer.send("go", task=asking.task)
        texts = [one.parts[0].text for one in went_on.task.history]
        assert texts == ["message after question", "the answer", "go"]
        asked = await peer.send("ask", context=context)
        assert (asked.text, asked.state) == ("what?", "input-required")
        assert context.reply["a2a-extensions"] == "urn:x"
        call = SEEN[-1].call_context
        assert (call.user.user_name, call.user.is_authenticated) == ("ada", True)
        assert SEEN[-1].requested_extensions == {"urn:x", "urn:y"}
        assert call.state["headers"]["a2a-extensions"] == "urn:x, urn:y"
        canceling = peer.cancel_task(hub.CancelTaskRequest(id=asked.task.id), context)
        assert await error_of(canceling) == ("TASK_NOT_CANCELABLE", "never")
        ended = await peer.send("go", task=asked.task, context=context)
        assert ended.state == "completed"
        assert ended.text.split() == [str(number) for number in range(100)]
        shown = SEEN[-1].current_task.history
        assert [one.parts[0].root.text for one in shown] == ["ask", "what?", "go"]
        assert [one.parts[0].text for one in ended.task.history] == ["ask", "what?", "go"]


if __name__ == "__main__":
    asyncio.run(main())
