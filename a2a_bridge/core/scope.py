"""Whose things: what a caller may see is what was made in its scope. Not who the caller is: authenticators
say that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext


class Scope(NamedTuple):
    """Whose things: the tenant of the call and the name of its principal. Both may be empty."""

    tenant: str = ""
    owner: str = ""


def scope_of(request: Any, context: CallContext) -> Scope:
    """The scope of a call. `request` is any request of the protocol: all have a tenant."""
    principal = context.principal
    return Scope(context.tenant or request.tenant, "" if principal is None else principal.name)
