"""Whether a gateway can reach its agent, for its readiness.

Rules:
1. A gateway is not ready while the last call reached no interface of its agent.
2. Without readiness no caller comes, so the gateway itself asks the lost agent again: for a task that nobody
   has. It asks nothing while the agent can be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import GET_TASK
from a2a_bridge.gateway.failover import Failover
from a2a_bridge.gateway.upstream import QUESTION
from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds between two questions, and for the response to one
PAUSE, _LIMIT = 2.0, 10.0


def rejection(failover: Failover) -> A2AError | None:
    """Why a gateway takes no new work; None while its agent can be reached."""
    if not failover.is_gone:
        return None
    text = "the agent behind this gateway cannot be reached"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER)


def question() -> Call[Any, Any]:
    """A harmless call, for a task that nobody has: any response, even an error, shows an agent."""
    return Call(GET_TASK, hub.GetTaskRequest(id=str(uuid4())), CallContext(origin=QUESTION))


async def ask_while_gone(current: Callable[[], Failover], pause: float = PAUSE) -> None:
    """Asks a lost agent until it answers; runs until it is cancelled. current: the connections to use."""
    while True:
        await asyncio.sleep(pause)
        failover = current()
        if not failover.is_gone:
            continue
        with suppress(A2AError, TimeoutError):
            async with asyncio.timeout(_LIMIT):
                await failover.unary(question())  # Failover notes any response
