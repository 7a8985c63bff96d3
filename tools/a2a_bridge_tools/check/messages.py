"""Messages over each interface: whether all of them answer the same, as a response and as a stream; limits
that callers run into (the size of a request, the time of a response); notifications to a receiver of ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer, Reply, request_of
from a2a_bridge.bindings.binding import DocumentHost, HostOptions, ListenAddress, ReadBody, find
from a2a_bridge.cli.values import listen_address
from a2a_bridge.codec import encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Kind, Reason, cause_of
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold
from a2a_bridge.core.messages import TERMINAL, text_of
from a2a_bridge.gateway.cards import rewrite
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.check.network import place
from a2a_bridge_tools.client.comparing import canonical, differences, without_generated

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
        self._index = ArtifactIndex()
        self.message: hub.Message | None = None

    def add(self, event: hub.StreamResponse) -> None:
        """Raises IllegalTransitionError for an event that the state before it does not allow."""
        self.count += 1
        which = event.WhichOneof("payload")
        if which == "message":
            self.message = event.message
            return
        self.task = fold(self.task, event, self._index)
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
        if error.reason.kind is Kind.LACKING:
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


#: characters of a message that is a little larger than 1 MiB, which many proxies have as their limit
_LARGE = 1_100_000
#: the part of the time limit after which a response to a question for a task is slow
_SLOW = 0.5


async def size(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Sends a message of more than 1 MiB to a task that nobody has: it is rejected before any work begins."""
    if not inspection.text:
        return
    arrived = []
    for one in inspection.answered:
        if one.error is None or one.error.reason is not Reason.TASK_NOT_FOUND:
            continue
        finding = await _large(inspection, one)
        if finding is None:
            arrived.append(one)
        else:
            yield finding
    if arrived:
        yield Finding("size", True, f"a message of 1 MiB arrives {inspection.over(arrived)}")


async def time_limits(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether a response that needs no work takes long."""
    slow = [one for one in inspection.working if one.seconds > inspection.limit * _SLOW]
    for one in slow:
        yield Finding(
            f"time {one.name}",
            True,
            f"{one.seconds:.1f} s for the answer that there is no such task",
            "look for what makes it wait: callers give up after 5 to 60 s",
        )


async def _large(inspection: Inspection, one: Dialled) -> Finding | None:
    """None if the message arrives."""
    name = f"size {one.name}"
    async with connect_to(inspection, one) as peer:
        request = request_of(("x" * _LARGE,), task=str(uuid4()))
        try:
            await peer.send_message(request, context(inspection))
        except A2AError as error:
            if error.reason is Reason.TASK_NOT_FOUND:
                return None
            if hasattr(error, "__notes__") or error.reason in (Reason.UNAVAILABLE, Reason.INTERNAL_ERROR):
                fix = "raise the limit of the proxy in front of the agent (nginx: client_max_body_size)"
                return Finding(name, False, f"a message of 1 MiB fails: {cause_of(error)}", fix)
            if error.reason in (Reason.REQUEST_TOO_LARGE, Reason.RESOURCE_EXHAUSTED):
                advice = "raise the limit of the agent, if callers send files"
                return Finding(name, True, f"a message of 1 MiB is rejected: {cause_of(error)}", advice)
            return None
    fix = "answer TaskNotFoundError for a message to a task that does not exist; never start another one"
    return Finding(name, False, "a message to a task that nobody has is taken", fix)


_PATH = "/notifications"
#: rejections of a receiver at this machine: agents should have them, outside of development
_NOT_HERE = frozenset({Reason.INVALID_PARAMS, Reason.PERMISSION_DENIED, Reason.INVALID_REQUEST})


@dataclass
class _Receiver:
    url: str = ""
    #: the token of each notification
    tokens: asyncio.Queue[str] = field(default_factory=asyncio.Queue)


async def webhooks(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Registers a receiver with a message over the first interface, and waits for a notification."""
    card = inspection.card
    answered = inspection.answered
    if not answered:
        return
    if not card.capabilities.push_notifications:
        yield Finding("webhooks", True, "the card declares none")
        return
    here = place(inspection)
    if not inspection.webhook and (here is None or not here.is_local):
        advice = "name an address of this machine that the agent can call: --webhook HOST:PORT"
        yield Finding("webhooks", True, "not tried: the agent is on another machine", advice)
        return
    try:
        async with _receive(inspection.webhook or "127.0.0.1:0") as receiver:
            yield await _check_notification(inspection, answered[0], receiver)
    except OSError as error:
        fix = "name an address of this machine and a free port: --webhook HOST:PORT"
        yield Finding("webhooks", False, f"cannot listen at {inspection.webhook}: {error.strerror}", fix)


async def _check_notification(inspection: Inspection, one: Dialled, receiver: _Receiver) -> Finding:
    request = request_of((inspection.text,))
    token = str(uuid4())
    request.configuration.task_push_notification_config.MergeFrom(
        hub.TaskPushNotificationConfig(url=receiver.url, token=token)
    )
    async with connect_to(inspection, one) as peer:
        try:
            response = await peer.send_message(request, context(inspection))
        except A2AError as error:
            if error.reason in _NOT_HERE and not inspection.webhook:
                advice = "name an address that the agent may call: --webhook HOST:PORT"
                return Finding("webhooks", True, f"none at this machine: {error.message}", advice)
            fix = "take the configuration, or write capabilities.pushNotifications: false in the card"
            return Finding("webhooks", False, f"{one.name} rejects {receiver.url}: {cause_of(error)}", fix)
        await tidy_up(inspection, peer, response.task)
    if response.HasField("message"):
        return Finding("webhooks", True, "not tried: it answers without a task, of which there is no news")
    try:
        async with asyncio.timeout(inspection.limit):
            arrived = await receiver.tokens.get()
    except TimeoutError:
        fix = f"let the agent call {receiver.url} (network, SSRF policy), and see its log for deliveries"
        return Finding("webhooks", False, f"no notification in {inspection.limit:g} s", fix)
    if arrived != token:
        fix = "send the token of the configuration: A2A-Notification-Token, in 0.x X-A2A-Notification-Token"
        return Finding("webhooks", False, "a notification arrives without its token", fix)
    return Finding("webhooks", True, f"a notification arrives at {receiver.url}")


@asynccontextmanager
async def _receive(address: str) -> AsyncIterator[_Receiver]:
    """A receiver of notifications. Raises OSError."""
    host: DocumentHost = find("HTTP+JSON").host(
        ListenAddress(*listen_address(address, "--webhook")), HostOptions()
    )
    receiver = _Receiver()

    async def receive(_path: str, headers: Mapping[str, str], _read_body: ReadBody) -> int:
        get = headers.get
        receiver.tokens.put_nowait(get("a2a-notification-token") or get("x-a2a-notification-token") or "")
        return 200

    host.receive(_PATH, receive)
    await host.start()
    try:
        receiver.url = f"http://{host.address}{_PATH}/check"
        yield receiver
    finally:
        await host.drain(0)
