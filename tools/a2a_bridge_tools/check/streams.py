"""The same message as a stream: whether it ends, and whether it adds up to the response without a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a_bridge.app.peer import request_of
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.lifecycle import IllegalTransitionError, fold
from a2a_bridge.core.messages import TERMINAL, text_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.check.messages import connect_to, state_of, tidy_up


async def stream(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Streams the message over each interface that has answered it."""
    card = inspection.card
    if not inspection.answered:
        return
    if not card.capabilities.streaming:
        yield Finding("stream", True, "the card declares none")
        return
    whole = []
    for one in inspection.answered:
        fault = await _fault(inspection, one)
        if fault is None:
            whole.append(one)
        else:
            yield fault
    if whole:
        yield Finding("stream", True, f"ends, with the same answer as without, {inspection.over(whole)}")


class _Received:
    """What a stream has added up to."""

    def __init__(self) -> None:
        self.count = 0
        self.task = hub.Task()
        self.message: hub.Message | None = None

    def add(self, event: hub.StreamResponse) -> None:
        """Raises IllegalTransitionError for an event that the state before it does not allow."""
        self.count += 1
        which = event.WhichOneof("payload")
        if which == "message":
            self.message = event.message
            return
        fold(self.task, event)
        if not self.task.id and which is not None:
            update = getattr(event, which)
            self.task.id, self.task.context_id = update.task_id, update.context_id

    @property
    def words(self) -> str:
        if self.message is not None:
            return "a message"
        return f"{self.count} events, task {state_of(self.task)}"


async def _fault(inspection: Inspection, one: Dialled) -> Finding | None:
    name = f"stream {one.name}"
    received = _Received()
    try:
        async with connect_to(inspection, one) as peer:
            try:
                async with (
                    asyncio.timeout(inspection.limit),
                    aclosing(peer.events(request_of((inspection.text,)))) as events,
                ):
                    async for event in events:
                        received.add(event.message)
            finally:
                await tidy_up(inspection, peer, received.task)
    except TimeoutError:
        return _endless(name, received, inspection)
    except IllegalTransitionError as error:
        return Finding(name, False, str(error), "send no event after one with a terminal state")
    except A2AError as error:
        if error.reason is Reason.DEADLINE_EXCEEDED and error.blame is Blame.PEER and received.count:
            return _endless(name, received, inspection)
        fix = "let proxies pass on text/event-stream (gRPC: server streaming) without a buffer"
        if error.reason in (Reason.UNSUPPORTED_OPERATION, Reason.METHOD_NOT_FOUND):
            fix = "stream, or write capabilities.streaming: false in the card"
        return Finding(name, False, cause_of(error), fix)
    different = "" if one.response is None else _different(one.response, received)
    if different:
        fix = "send in the stream what the answer without a stream has: the same state and artifacts"
        return Finding(name, False, different, fix)
    return None


def _endless(name: str, received: _Received, inspection: Inspection) -> Finding:
    ended = received.task.status.state in TERMINAL or received.message is not None
    return Finding(
        name,
        False,
        f"{received.words}, and no end after {inspection.limit:g} s",
        "close the stream after the terminal state (0.x: after the event with final: true)"
        if ended
        else "send events while the agent works, and close the stream at its end; or pass a larger --timeout",
    )


def _different(response: hub.SendMessageResponse, received: _Received) -> str:
    """How the response differs from the stream; empty if it does not."""
    if response.HasField("message") is not (received.message is not None):
        other = "a message" if response.HasField("message") else "a task"
        return f"{received.words} as a stream, {other} without"
    if received.message is not None:
        return _texts(text_of(received.message), text_of(response.message))
    before, after = response.task, received.task
    if before.status.state in TERMINAL and after.status.state != before.status.state:
        return f"task {state_of(after)} as a stream, {state_of(before)} without"
    if before.status.state not in TERMINAL:
        return ""  # the response is about work that goes on
    if len(before.artifacts) != len(after.artifacts):
        return f"{len(after.artifacts)} artifacts as a stream, {len(before.artifacts)} without"
    return _texts(text_of(after), text_of(before))


def _texts(streamed: str, whole: str) -> str:
    # Agents with a language model say it differently each time; none or some is a difference of the binding.
    if bool(streamed.strip()) is bool(whole.strip()):
        return ""
    return f"{streamed[:60]!r} as a stream, {whole[:60]!r} without"
