"""What `connect` gives: a client with the agent's card and shortcuts for text. Not a transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import part_of, text_of
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered: a message or a task, exactly one of them."""

    message: hub.Message | None = None
    task: hub.Task | None = None

    @property
    def text(self) -> str:
        """The text of the message, or of the task's artifacts (its status message when it has none)."""
        source = self.message if self.message is not None else self.task
        return "" if source is None else text_of(source)

    @property
    def state(self) -> str:
        """The task's state such as "completed"; empty for a message."""
        if self.task is None:
            return ""
        state = self.task.status.state
        # Enums are open: a later version may have states that have no name here.
        name = hub.TaskState.Name(state) if state in hub.TaskState.values() else str(state)
        return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


class Peer(Client):
    """An agent one can talk to.

    card: the agent's card; of a bare address without a card, one that only lists that interface.
    interface: the one that is tried first; None for an agent in the same process.
    """

    def __init__(
        self, service: Service, card: hub.AgentCard, interface: hub.AgentInterface | None = None
    ) -> None:
        super().__init__(service)
        self.card = card
        self.interface = interface

    async def send(
        self,
        *content: Any,
        task: hub.Task | str | None = None,
        context_id: str = "",
        return_immediately: bool = False,
        context: CallContext | None = None,
    ) -> Reply:
        """Sends one message and waits for the answer (spec 3.1.1). Raises A2AError.

        content: str becomes text, bytes raw, a Part stays, anything else JSON data. task: a task (or its
        id) to continue. return_immediately: answer with the task as soon as it exists.
        """
        request = request_of(content, task=task, context_id=context_id, return_immediately=return_immediately)
        response = await self.send_message(request, context)
        return reply_of(response)

    def stream(
        self,
        *content: Any,
        task: hub.Task | str | None = None,
        context_id: str = "",
        context: CallContext | None = None,
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Sends one message and yields what happens (spec 3.1.2). Raises A2AError when iterated."""
        return self.send_streaming_message(request_of(content, task=task, context_id=context_id), context)

    async def stream_text(
        self, *content: Any, context: CallContext | None = None
    ) -> AsyncGenerator[str, None]:
        """Sends one message and yields the text of artifacts and direct answers as it comes."""
        async with aclosing(self.stream(*content, context=context)) as events:
            async for event in events:
                which = event.WhichOneof("payload")
                if which == "artifact_update":
                    yield text_of(event.artifact_update.artifact)
                elif which == "message":
                    yield text_of(event.message)


def request_of(
    content: Iterable[Any],
    *,
    task: hub.Task | str | None = None,
    context_id: str = "",
    return_immediately: bool = False,
) -> hub.SendMessageRequest:
    """A SendMessageRequest of a user's message with a new id."""
    task_id = task.id if isinstance(task, hub.Task) else task or ""
    message = hub.Message(
        message_id=str(uuid4()),
        role=hub.ROLE_USER,
        parts=[part_of(item) for item in content],
        task_id=task_id,
        context_id=context_id or (task.context_id if isinstance(task, hub.Task) else ""),
    )
    request = hub.SendMessageRequest(message=message)
    if return_immediately:
        request.configuration.return_immediately = True
    return request


def reply_of(response: hub.SendMessageResponse) -> Reply:
    """The response as a Reply. Raises A2AError INVALID_AGENT_RESPONSE when it holds neither member."""
    which = response.WhichOneof("payload")
    if which == "message":
        return Reply(message=response.message)
    if which == "task":
        return Reply(task=response.task)
    raise A2AError(Reason.INVALID_AGENT_RESPONSE, "neither a task nor a message", blame=Blame.PEER)
