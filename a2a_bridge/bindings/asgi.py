"""The types of ASGI 3, for hosts that are applications and for applications on a host."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def client_left(receive: Receive) -> None:
    """Returns when the client has left. For a request whose body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def certificate_of(scope: Scope) -> bytes | None:
    """The client certificate (DER) of a scope with the extension `tls` of ASGI; None without one."""
    found = (scope.get("extensions") or {}).get("tls") or {}
    chain = found.get("client_cert_chain")
    if not chain or found.get("client_cert_error"):
        return None
    return ssl.PEM_cert_to_DER_cert(next(iter(chain)))
