"""The result of `connect`: a client with the agent's card and shortcuts for text. No transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from a2a_bridge.bindings.following import Following, follow_stream
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.unknown_events import known_only
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    LAST_EVENT_PARAMETER,
    Call,
    CallContext,
    Joined,
    entries_of,
)
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.kinds import check_options
from a2a_bridge.core.lifecycle import state_name
from a2a_bridge.core.messages import parts_of, text_of
from a2a_bridge.core.resume import RESUME_URI, offers_resume
from a2a_bridge.core.service import Events, Service, messages_of
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of an agent: a message or a task, exactly one of them."""

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
        return state_name(self.task.status.state).lower().replace("_", "-")


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
        #: the account of what this process keeps for the agent; None without one
        self.memory: MemoryAccount | None = None

    async def send(
        self,
        *content: Any,
        task: hub.Task | str | None = None,
        context_id: str = "",
        return_immediately: bool = False,
        context: CallContext | None = None,
    ) -> Reply:
        """Sends one message and waits for the response (spec 3.1.1). Raises A2AError.

        content: str becomes text, bytes raw, a Part stays, anything else JSON data. task: a task (or its
        id) to continue. return_immediately: answer with the task as soon as it exists.
        """
        request = request_of(content, task=task, context_id=context_id, return_immediately=return_immediately)
        return reply_of(await self.send_message(request, context))

    def stream(
        self,
        *content: Any,
        task: hub.Task | str | None = None,
        context_id: str = "",
        follow: Following | bool = False,
        context: CallContext | None = None,
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Sends one message and yields the events (spec 3.1.2). Raises A2AError when iterated.

        follow: resumes the stream if it breaks; see `bindings/following.py`. The message is sent once. If the
        agent can resume streams, no event is lost or repeated; for events that it no longer keeps, there is a
        snapshot of the task, marked as a gap (`core.resume.gap_of`).

        `events` is the same with the ids of the events, for `subscribe`.
        """
        request = request_of(content, task=task, context_id=context_id)
        return messages_of(self.events(request, follow, context))

    def subscribe(
        self,
        task: hub.Task | str,
        *,
        after: str = "",
        follow: Following | bool = False,
        context: CallContext | None = None,
    ) -> AsyncGenerator[hub.StreamResponse, None]:
        """Yields a snapshot of a task and its further events (spec 3.1.6). Raises A2AError when
        iterated.

        after: the id of the last seen event: the events after it are yielded instead of the snapshot, also
        for a task that has ended; for events that are no longer kept, a snapshot that is marked as a gap. An
        agent that cannot resume streams begins with the snapshot. follow: see `stream`.
        """
        check_options(context, CallContext, "context")
        context = context or CallContext()
        parameters = {**context.parameters, LAST_EVENT_PARAMETER: after}
        if not after:
            del parameters[LAST_EVENT_PARAMETER]
        request = hub.SubscribeToTaskRequest(id=_id_of(task))
        return messages_of(self.events(request, follow, context.replace(parameters=parameters)))

    async def stream_text(
        self, *content: Any, follow: Following | bool = False, context: CallContext | None = None
    ) -> AsyncGenerator[str, None]:
        """Sends one message and yields the text of artifacts and direct answers as it comes.

        follow: see `stream`. The text of a snapshot is left out, because it repeats earlier text.
        """
        async with aclosing(self.stream(*content, follow=follow, context=context)) as events:
            async for event in events:
                which = event.WhichOneof("payload")
                if which == "artifact_update":
                    yield text_of(event.artifact_update.artifact)
                elif which == "message":
                    yield text_of(event.message)

    def events(
        self,
        request: hub.SendMessageRequest | hub.SubscribeToTaskRequest,
        follow: Following | bool = False,
        context: CallContext | None = None,
    ) -> Events:
        """The events after a request, with their ids. Raises A2AError when iterated. An event that is not
        known here is left out, with a warning in the log. follow: see `stream`.
        """
        check_options(context, CallContext, "context")
        context = context or CallContext()
        if offers_resume(self.card) and RESUME_URI not in (declared := context.extensions):
            # Agents may then rely on it that the ids are looked at.
            requested = entries_of(context.parameters[EXTENSIONS_PARAMETER]) if declared else ()
            extensions = {EXTENSIONS_PARAMETER: Joined((*requested, RESUME_URI))}
            context = context.replace(parameters={**context.parameters, **extensions})
        sends = isinstance(request, hub.SendMessageRequest)
        call: Call[Any, hub.StreamResponse] = Call(
            ops.SEND_STREAMING_MESSAGE if sends else ops.SUBSCRIBE_TO_TASK, request, context
        )
        if follow is False:
            return known_only(self.service.stream(call))
        # Without a card it is unknown.
        resumes = offers_resume(self.card) or not self.card.name
        following = Following() if follow is True else follow
        return known_only(follow_stream(self.service, call, following, resumes=resumes))


def request_of(
    content: Iterable[Any],
    *,
    task: hub.Task | str | None = None,
    context_id: str = "",
    return_immediately: bool = False,
) -> hub.SendMessageRequest:
    """A SendMessageRequest of a user's message with a new id. Raises TypeError for a task that is none."""
    if not isinstance(context_id, str):
        raise TypeError(f"context_id is text, not {type(context_id).__name__}")
    message = hub.Message(
        message_id=str(uuid4()),
        role=hub.ROLE_USER,
        parts=[part for item in content for part in parts_of(item)],
        task_id="" if task is None else _id_of(task),
        context_id=context_id or (task.context_id if isinstance(task, hub.Task) else ""),
    )
    request = hub.SendMessageRequest(message=message)
    if return_immediately:
        request.configuration.return_immediately = True
    return request


def _id_of(task: hub.Task | str) -> str:
    if not isinstance(task, (hub.Task, str)):
        raise TypeError(f"task is a Task or the id of one, as text, not {type(task).__name__}")
    return task.id if isinstance(task, hub.Task) else task


def reply_of(response: hub.SendMessageResponse) -> Reply:
    """The response as a Reply. Raises A2AError INVALID_AGENT_RESPONSE when it holds neither member."""
    which = response.WhichOneof("payload")
    if which == "message":
        return Reply(message=response.message)
    if which == "task":
        return Reply(task=response.task)
    raise A2AError(Reason.INVALID_AGENT_RESPONSE, "neither a task nor a message", blame=Blame.PEER)
