"""A message to an agent, and the options of its call: shared by `call` and the comparison of interfaces."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from a2a_bridge.bindings import DialOptions
from a2a_bridge.cli.flags import Output
from a2a_bridge.codec import encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peer import Peer, request_of

encode_response = encoder(hub.SendMessageResponse)
encode_event = encoder(hub.StreamResponse)


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


async def events_of(peer: Peer, said: Outgoing, how: CallOptions) -> AsyncIterator[Any]:
    """The answer as JSON trees: one for a unary call, one for each event of a stream."""
    if not how.stream:
        yield encode_response(await peer.send_message(said.request(), how.context()))
        return
    async with aclosing(peer.events(said.request(), how.follow, how.context())) as events:
        async for event in events:
            yield encode_event(event.message)
