"""Middleware behind transports of other packages: they have to identify callers if the server asks for it.

One that ignores `HostOptions.authenticate` would let everybody in, and nobody would notice. The transports of
this project are tested for it, and need no look at each call.
"""

from __future__ import annotations

import logging
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.event import Events
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service, reject, reject_stream

_log = logging.getLogger("a2a_bridge.auth")


def reject_unidentified(binding: str) -> Middleware:
    """Middleware that rejects calls without a principal as UNAUTHENTICATED. binding: its name."""
    return lambda service: _Identified(service, binding)


class _Identified:
    def __init__(self, service: Service, binding: str) -> None:
        self._service = service
        self._binding = binding
        self._logged = False

    async def unary(self, call: Call[Req, Res], /) -> Res:
        error = self._problem(call)
        return await (self._service.unary(call) if error is None else reject(error))

    def stream(self, call: Call[Any, Any], /) -> Events:
        error = self._problem(call)
        return self._service.stream(call) if error is None else reject_stream(error)

    def _problem(self, call: Call[Any, Any]) -> A2AError | None:
        if call.context.principal is not None:
            return None
        if not self._logged:
            self._logged = True
            _log.error(
                "%s does not identify its callers (HostOptions.authenticate): its calls are rejected",
                self._binding,
            )
        return A2AError(Reason.UNAUTHENTICATED, f"{self._binding} does not identify callers")
