"""Ends calls to an agent that sends nothing for too long with an error. Implements Service.

After an internal failure some agents never answer (a panic in an executor of the SDK for Rust), and keep the
connection alive. The limit is off by default, because an agent may think for any time.

Rules:
1. A call without a response, and a stream without a next event, end after the limit with DEADLINE_EXCEEDED.
2. Keep-alives count as silence: the client side watches the connection (`DialOptions.idle_timeout`).
3. It does not count as a break of the connection, so the gateway does not subscribe again.
4. The limit begins when the request has been sent (`bounded.Silence`). The wait for a connection has limits
   of its own: `DialOptions.connect_timeout`, and the caller's deadline.
"""

from __future__ import annotations

from a2a_bridge.bindings.bounded import Silence, bound_result, bound_stream
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service

#: the value of `phase` in the metadata of the error
SILENCE = "silence"


class SilenceLimit:
    """A service whose calls end when the agent behind it is silent for `limit` seconds."""

    def __init__(self, service: Service, limit: float) -> None:
        self._service = service
        self._limit = limit

    async def unary(self, call: Call[Req, Res], /) -> Res:
        return await bound_result(self._service.unary(call), self._bound(), self._silent)

    def stream(self, call: Call[Req, Res], /) -> Events:
        return bound_stream(self._service.stream(call), self._bound, self._silent)

    def _bound(self) -> Silence:
        return Silence(self._limit)

    def _silent(self, _ended: BaseException) -> A2AError:
        text = f"the agent said nothing for {self._limit:g} seconds; the task may go on, see GetTask"
        return A2AError(Reason.DEADLINE_EXCEEDED, text, metadata={"phase": SILENCE}, blame=Blame.PEER)
