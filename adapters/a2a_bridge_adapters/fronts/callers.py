"""Callers of a front over HTTP: an ASGI application that identifies them before the front sees a request.

Rules:
1. The credential is checked here and goes no further: the agent is called with a context that has the
   principal and no parameters of the caller.
2. Errors are answered in the form of the front.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from a2a_bridge.core.call import CallContext, Joined, Origin, Principal
from a2a_bridge.core.callers import Authenticate, Presented
from a2a_bridge.core.errors import A2AError, Blame

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: the key of the principal in a scope
_KEY = "a2a_bridge.principal"


class Identified:
    """An application whose callers are known. reject: answers an error. authenticate: None lets all in.
    bearer_as: the header of API keys; a key that comes as a bearer token, as many clients send it, counts as
    if it was in that header.
    """

    def __init__(
        self,
        app: Application,
        authenticate: Authenticate | None,
        reject: Callable[[A2AError, Send], Awaitable[None]],
        bearer_as: str = "",
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._reject = reject
        self._bearer_as = bearer_as.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, _KEY: None}  # nobody else may have set it
        if self._authenticate is not None:
            try:
                scope[_KEY] = await self._authenticate(presented(scope, self._bearer_as))
            except A2AError as error:
                await self._reject(error, send)
                return
        await self._app(scope, receive, send)


def presented(scope: Scope, bearer_as: str = "") -> Presented:
    """What a request presents to prove its caller. bearer_as: see `Identified`."""
    entries: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        entries.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    parameters = {name: found[0] if len(found) == 1 else Joined(found) for name, found in entries.items()}
    scheme, _, token = parameters.get("authorization", "").partition(" ")
    # An API key has one dot, and a JWT two.
    if bearer_as and bearer_as not in parameters and scheme.lower() == "bearer" and token.count(".") == 1:
        parameters[bearer_as] = token.strip()
    client = scope.get("client")
    return Presented(parameters, client[0] if client else "")


def path_of(scope: Scope) -> str:
    """The path of a request below the mount path of the application."""
    return str(scope["path"].removeprefix(scope.get("root_path", "")))


#: host names of this machine, with any port
LOCAL = ("127.0.0.1:*", "localhost:*", "[::1]:*")


def is_allowed_host(scope: Scope, allowed: Sequence[str]) -> bool:
    """Whether the header Host of a request is one of `allowed`; `NAME:*` allows any port. Empty: all are."""
    hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    if not allowed:
        return True
    return len(hosts) == 1 and any(
        hosts[0] == one or (one.endswith(":*") and hosts[0].rpartition(":")[0] == one[:-2])
        for one in map(str.lower, allowed)
    )


def principal_of(scope: Scope | None) -> Principal | None:
    """The caller of a request; None if it is not known."""
    return None if scope is None else scope.get(_KEY)


def context_for(binding: str, scope: Scope | None) -> CallContext:
    """The context of a call for a request. binding: the name of the front, for logs and metrics. scope: None
    for a caller at the other end of a pipe.
    """
    client = None if scope is None else scope.get("client")
    origin = Origin(binding, "", client[0] if client else "")
    return CallContext(principal=principal_of(scope), origin=origin)


def owner_of(context: CallContext) -> str:
    """The name of the caller; empty for callers that are not identified."""
    return "" if context.principal is None else context.principal.name


def problem_headers(error: A2AError) -> list[tuple[bytes, bytes]]:
    """The headers of a response to an error: challenges, unless the agent has sent them, and the time to try
    again after.
    """
    challenges = () if error.blame is Blame.PEER else error.challenges
    found = [(b"www-authenticate", one.encode("latin-1", "replace")) for one in challenges]
    if error.retry_after is not None:
        found.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    return found


async def respond(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Sends a response with a JSON document."""
    head = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(headers or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
