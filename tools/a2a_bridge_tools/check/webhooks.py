"""Whether notifications of the agent arrive: a receiver is opened, and registered with a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from a2a_bridge.app.peer import request_of
from a2a_bridge.bindings.binding import DocumentHost, HostOptions, ListenAddress, ReadBody, find
from a2a_bridge.cli.values import listen_address
from a2a_bridge.core.errors import A2AError, Reason, cause_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.check.messages import connect_to, context, tidy_up
from a2a_bridge_tools.check.network import place

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
