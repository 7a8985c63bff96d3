"""Callers: the interface between transports, which have the credentials of a request, and authenticators; and
the scope of a caller, which sees only the resources that were created in it.

Rules:
1. A transport authenticates a request before it decodes its body. The principal goes into the call context.
2. A failure is UNAUTHENTICATED with a challenge, and its text never repeats a credential.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from a2a_bridge.core.call import CallContext, Principal, entries_of
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.masking import HEADER_NAME


def parameter_of(header: str) -> str:
    """The parameter of a header that identifies callers: its name in lower case. Raises ValueError for a text
    that cannot be the name of a header.
    """
    if not HEADER_NAME.fullmatch(header):
        raise ValueError(f"{header!r} is no name of a header")
    return header.lower()


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request presents to prove its caller."""

    #: service parameters (HTTP headers, gRPC metadata) by lower-case name
    parameters: Mapping[str, str]
    #: IP address of the peer; empty if unknown
    peer: str = ""
    #: reads the client certificate (DER) that the listener has verified; None for a connection without one
    certificate: Callable[[], bytes | None] | None = None

    def credential(self, name: str, challenges: tuple[str, ...] = ()) -> str | None:
        """The value of a parameter (in lower case) that proves who the caller is; None without it. Raises
        UNAUTHENTICATED with `challenges` for several values: a proxy that adds a header instead of replacing
        it would let callers choose a part of it.
        """
        value = self.parameters.get(name)
        if value is not None and len(entries_of(value)) > 1:
            raise UnauthenticatedError("A header that identifies the caller has several values", challenges)
        return value


#: identifies the caller of a request. Raises UNAUTHENTICATED (`UnauthenticatedError`), or UNAVAILABLE while
#: it cannot decide
Authenticate = Callable[[Presented], Awaitable[Principal]]


#: checks whether a caller may use an operation, by its name. Raises PERMISSION_DENIED
Permit = Callable[[str, Principal | None], None]


class UnauthenticatedError(A2AError):
    """The caller is not known. challenges: values for the header WWW-Authenticate (RFC 9110, 11.6.1)."""

    def __init__(self, message: str = "", challenges: tuple[str, ...] = ()) -> None:
        super().__init__(Reason.UNAUTHENTICATED, message)
        self.challenges = challenges


class ScopeMissingError(A2AError):
    """The caller is known and lacks a scope. challenges: as in `UnauthenticatedError`."""

    def __init__(self, message: str, challenges: tuple[str, ...] = ()) -> None:
        super().__init__(Reason.PERMISSION_DENIED, message)
        self.challenges = challenges


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
