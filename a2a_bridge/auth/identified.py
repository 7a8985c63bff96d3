"""Middleware behind transports of other packages: they have to identify callers if the server asks for it.

A transport that ignores `HostOptions.authenticate` would admit every caller, without a sign of it. The
transports of this project are tested for it, and need no check of each call.
"""

from __future__ import annotations

import logging
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Middleware, reject_if

_log = logging.getLogger("a2a_bridge.auth")


def reject_unidentified(binding: str) -> Middleware:
    """Middleware that rejects calls without a principal as UNAUTHENTICATED. binding: its name."""
    logged = False

    def problem(call: Call[Any, Any]) -> A2AError | None:
        nonlocal logged
        if call.context.principal is not None:
            return None
        if not logged:
            logged = True
            _log.error(
                "%s does not identify its callers (HostOptions.authenticate): its calls are rejected", binding
            )
        return A2AError(Reason.UNAUTHENTICATED, f"{binding} does not identify callers")

    return reject_if(problem)
