"""Scopes: a caller may see only resources created in its own scope. Authenticators identify the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext


class Scope(NamedTuple):
    """The owner of resources: the tenant of the call and the name of its principal. Both may be empty."""

    #: the tenant of the call
    tenant: str = ""
    #: the name of its principal
    owner: str = ""


#: the scope of a call
ScopeOf = Callable[[Any, CallContext], Scope]

#: the scope of callers without tenant and principal
_ANYONE = Scope()


def scope_of(request: Any, context: CallContext) -> Scope:
    """The scope of a call. `request` is any request of the protocol: all have a tenant."""
    principal = context.principal
    tenant = context.tenant or request.tenant
    if principal is None:
        return Scope(tenant) if tenant else _ANYONE
    return Scope(tenant, principal.name)
