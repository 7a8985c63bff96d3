"""The waist: what every server side takes, every client side is, and every middleware wraps.

Rules:
1. Two methods, for ever. What is not expressible as one of them is not a service.
2. `stream` returns an async generator; whoever iterates it closes it (`contextlib.aclosing`), and closing
   releases everything below it. It is a generator and not any iterator so that closing is always possible.
3. Both raise A2AError for what the caller should see. Anything else is a defect and becomes INTERNAL at the
   rim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res


class Service(Protocol):
    """Anything that answers calls: a hosted agent, a dialled client, a gateway, a middleware around one."""

    async def unary(self, call: Call[Req, Res], /) -> Res:
        """Answers a unary operation. Raises A2AError."""
        ...

    def stream(self, call: Call[Any, Any], /) -> Events:
        """Answers a streaming operation. The generator raises A2AError when iterated."""
        ...


Middleware = Callable[[Service], Service]


def compose(service: Service, *middleware: Middleware) -> Service:
    """Wraps `service`; the first listed middleware acts first on the way in."""
    for wrap in reversed(middleware):
        service = wrap(service)
    return service


async def refused_stream(error: A2AError) -> Events:
    """What `stream` returns when it refuses a call: a generator that raises `error` when iterated."""
    raise error
    yield  # type: ignore[unreachable]  # what makes this a generator
