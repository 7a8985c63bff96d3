"""A message to an agent, the options of its call, and its answers: shared by `call` and the comparison of
interfaces.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from a2a_bridge.bindings import DialOptions
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.options import Exit
from a2a_bridge.codec import encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peer import Peer, request_of

_encode_response = encoder(hub.SendMessageResponse)
_encode_event = encoder(hub.StreamResponse)

Answer = hub.SendMessageResponse | hub.StreamResponse


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The text to send, and its task and context."""

    text: str
    task: str = ""
    context: str = ""
    immediate: bool = False

    def request(self) -> hub.SendMessageRequest:
        """A request with a new message id."""
        return request_of(
            (self.text,), task=self.task, context_id=self.context, return_immediately=self.immediate
        )


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How to call and how to print."""

    #: how the agent is connected to
    dial: DialOptions
    binding: str
    #: of the protocol; empty for the card's choice
    version: str
    stream: bool
    #: whether a stream that breaks is resumed
    follow: bool
    #: in seconds; None: no limit, because the user can interrupt
    timeout: float | None
    output: Output

    def context(self) -> CallContext:
        """The context of a call; its deadline is also sent to the agent."""
        return CallContext(deadline=None if self.timeout is None else time.monotonic() + self.timeout)


async def answers_of(
    peer: Peer, outgoing: Outgoing, call_options: CallOptions
) -> AsyncGenerator[Answer, None]:
    """The response of a unary call, or the events of a stream."""
    if not call_options.stream:
        yield await peer.send_message(outgoing.request(), call_options.context())
        return
    async with aclosing(
        peer.events(outgoing.request(), call_options.follow, call_options.context())
    ) as events:
        async for event in events:
            yield event.message


def tree_of(answer: Answer) -> Any:
    """An answer as JSON."""
    return _encode_event(answer) if isinstance(answer, hub.StreamResponse) else _encode_response(answer)


def followed(task: hub.Task | None, answer: Answer) -> hub.Task | None:
    """The task as far as the answers up to this one describe it: ids and status."""
    which = answer.WhichOneof("payload")
    if which == "task":
        return hub.Task(id=answer.task.id, context_id=answer.task.context_id, status=answer.task.status)
    if isinstance(answer, hub.StreamResponse) and which == "status_update":
        update = answer.status_update
        return hub.Task(id=update.task_id, context_id=update.context_id, status=update.status)
    return task


def exit_of(task: hub.Task | None) -> Exit:
    """The exit code for a task. A task that continues, or waits for the caller, has not failed."""
    state = hub.TASK_STATE_COMPLETED if task is None else task.status.state
    if state == hub.TASK_STATE_AUTH_REQUIRED:
        return Exit.AUTH
    return Exit.TASK_FAILED if state in TERMINAL - {hub.TASK_STATE_COMPLETED} else Exit.OK
