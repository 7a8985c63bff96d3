"""One message over each interface, and whether all of them answer the same."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer, Reply, request_of
from a2a_bridge.codec import encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason, cause_of
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.gateway import rewrite
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.client.canonical import canonical, differences, without_generated

_encode = encoder(hub.SendMessageResponse)
#: differences that are named, at most
_MOST = 3


@asynccontextmanager
async def connect_to(inspection: Inspection, one: Dialled) -> AsyncIterator[Peer]:
    """A client that uses this interface only."""
    card = rewrite(inspection.card, [one.candidate.interface])
    options = one.candidate.dial_options(inspection.dial_options())
    async with runtime.connect(card, options=options) as peer:
        yield peer


def context(inspection: Inspection) -> CallContext:
    """The context of a call, with the time limit."""
    return CallContext(deadline=time.monotonic() + inspection.limit)


async def message(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Sends the message over each interface. Leaves the responses."""
    if not inspection.text:
        return
    slowest = 0.0
    for one in inspection.working:
        started = time.monotonic()
        try:
            one.response = await _sent(inspection, one)
        except A2AError as error:
            yield Finding(f"message {one.name}", False, cause_of(error), _remedy(error))
        else:
            slowest = max(slowest, time.monotonic() - started)
    answered = inspection.answered
    if answered:
        found = " or ".join(dict.fromkeys(words(one.response) for one in answered if one.response))
        took = f"within {slowest * 1000:.0f} ms"
        yield Finding("message", True, f"answered with {found} {inspection.over(answered)}, {took}")


async def answers(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the interfaces have answered the same."""
    answered = inspection.answered
    if len(answered) < 2:
        return
    first, *others = answered
    found = [(one, _compare(first.response, one.response)) for one in others]
    found = [(one, lines) for one, lines in found if lines]
    if not found:
        yield Finding("answers", True, f"the same {inspection.over(answered)}")
        return
    if await _varies(inspection, first):
        yield Finding("answers", True, "not comparable: the agent answers one message differently each time")
        return
    for one, lines in found:
        more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
        yield Finding(
            "answers",
            False,
            f"{first.name} and {one.name} differ: {'; '.join(lines[:_MOST])}{more}",
            "let every interface lead to the same agent, with the same store and settings",
        )


def words(response: hub.SendMessageResponse) -> str:
    """A response in two words."""
    return "a message" if response.HasField("message") else f"task {state_of(response.task)}"


def state_of(task: hub.Task) -> str:
    """The state of a task in words, such as `input-required`."""
    return Reply(task=task).state


async def _sent(inspection: Inspection, one: Dialled) -> hub.SendMessageResponse:
    async with connect_to(inspection, one) as peer:
        response = await peer.send_message(request_of((inspection.text,)), context(inspection))
        await tidy_up(inspection, peer, response.task)
        return response


async def tidy_up(inspection: Inspection, peer: Peer, task: hub.Task) -> None:
    """Cancels a task that still runs or waits for us. Whether the agent can do that is not the question."""
    if task.id and task.status.state not in TERMINAL:
        try:
            await peer.cancel_task(hub.CancelTaskRequest(id=task.id), context(inspection))
        except A2AError:
            return


async def _varies(inspection: Inspection, one: Dialled) -> bool:
    """Whether the agent answers the message differently when it is sent again over the same interface."""
    try:
        again = await _sent(inspection, one)
    except A2AError:
        return False
    return bool(_compare(one.response, again))


def _compare(one: hub.SendMessageResponse | None, other: hub.SendMessageResponse | None) -> list[str]:
    return [str(found) for found in differences(_comparable(one), _comparable(other))]


def _comparable(response: hub.SendMessageResponse | None) -> Any:
    """A response without what may differ: ids, times, generated values; and history, which agents may cut."""
    made = hub.SendMessageResponse()
    if response is not None:
        made.CopyFrom(response)
    del made.task.history[:]
    if response is not None and response.HasField("message"):
        made.message.CopyFrom(response.message)
    return without_generated(canonical(_without_empty(_encode(made))))


def _without_empty(tree: Any) -> Any:
    """A tree without empty objects and times, which some SDKs write over one binding and not over another."""
    if isinstance(tree, list):
        return [_without_empty(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: _without_empty(value) for name, value in tree.items() if value != {} and name != "timestamp"
    }


def _remedy(error: A2AError) -> str:
    if error.reason is Reason.DEADLINE_EXCEEDED:
        return "answer sooner, for long work with a task that still runs; or pass a larger --timeout"
    if error.reason in (Reason.INVALID_PARAMS, Reason.CONTENT_TYPE_NOT_SUPPORTED):
        return "pass a text that this agent understands: --send TEXT, or --no-send"
    if error.reason is Reason.EXTENSION_SUPPORT_REQUIRED:
        return "declare the extension: -H 'A2A-Extensions: URI'"
    if error.reason is Reason.INVALID_AGENT_RESPONSE:
        return "answer with a Task or a Message in the shape of this version"
    return "see the log of the agent, which fails for this message"
