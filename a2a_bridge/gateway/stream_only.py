"""Answers SendMessage from a stream, for an interface whose address is that of streams. Implements Service.

Some agents name `…/message:stream` in their card, where they take nothing but messages to stream (agno 3.1,
os/interfaces/a2a/router.py). Rules:
1. The response is what the whole stream adds up to: the task, or its messages as one message. Messages beside
   a task are in its history; the last one is its status message, if the task has no other content.
2. SendMessage waits for the end, also with `return_immediately`: the agent works as long as its stream is
   read.
3. Every other operation is UNSUPPORTED_OPERATION, before the agent is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, cast

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.lifecycle import IllegalTransitionError, fold
from a2a_bridge.core.operations import Operation, Req, Res
from a2a_bridge.core.service import Events, Service, reject_stream
from a2a_bridge.dialects import JSONRPC
from a2a_bridge.pb import lf_a2a_v1 as hub

_PATH = "/message:stream"


def is_stream_only(interface: hub.AgentInterface) -> bool:
    """Whether the address of an interface is that of streams."""
    address = interface.url.partition("?")[0].rstrip("/")
    return interface.protocol_binding == JSONRPC.name and address.endswith(_PATH)


class StreamOnly:
    """See above."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if call.operation is not ops.SEND_MESSAGE:
            raise _unsupported_error(call.operation)
        streaming: Call[Any, Any] = Call(ops.SEND_STREAMING_MESSAGE, call.request, call.context)
        task: hub.Task | None = None
        messages: list[hub.Message] = []
        async with aclosing(self._service.stream(streaming)) as events:
            async for event in events:
                which = event.message.WhichOneof("payload")
                if which == "message":
                    messages.append(event.message.message)
                    continue
                if task is None:
                    update = getattr(event.message, which or "task")
                    task = hub.Task(id=getattr(update, "task_id", ""), context_id=update.context_id)
                try:
                    fold(task, event.message)
                except IllegalTransitionError as error:
                    raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from error
        return cast("Res", _response_of(task, messages))

    def stream(self, call: Call[Req, Res], /) -> Events:
        if call.operation is not ops.SEND_STREAMING_MESSAGE:
            return reject_stream(_unsupported_error(call.operation))
        return self._service.stream(call)


def _response_of(task: hub.Task | None, messages: Sequence[hub.Message]) -> hub.SendMessageResponse:
    """What a stream adds up to. Raises A2AError INVALID_AGENT_RESPONSE for an empty one."""
    if task is None:
        if not messages:
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE, "the stream ended without a response", blame=Blame.PEER
            )
        whole = hub.Message()
        for message in messages:
            whole.MergeFrom(message)  # the parts of all
        return hub.SendMessageResponse(message=whole)
    known = {message.message_id for message in task.history}
    task.history.extend(message for message in messages if message.message_id not in known)
    if messages and not task.artifacts and not task.status.HasField("message"):
        task.status.message.CopyFrom(messages[-1])
    return hub.SendMessageResponse(task=task)


def _unsupported_error(operation: Operation[Any, Any]) -> A2AError:
    return A2AError(
        Reason.UNSUPPORTED_OPERATION,
        f"the card names the address of the agent's streams only, so it does not offer {operation.name}",
        metadata={"operation": operation.name},
        blame=Blame.PEER,
    )
