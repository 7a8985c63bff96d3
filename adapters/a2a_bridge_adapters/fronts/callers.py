"""Callers of a front over HTTP: an ASGI application that identifies them before the front sees a request, and
limits the size of their requests.

Rules:
1. The credential is checked here and goes no further: the agent is called with a context that has the
   principal. Of the headers of a caller it has the name of the program and the trace.
2. The body is read after that. A front gets it whole, with a bounded number of bytes and of JSON values.
3. Errors are answered in the form of the front.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from a2a_bridge.bindings.asgi import Application, Message, Receive, Scope, Send, certificate_of
from a2a_bridge.bindings.offload import needs_worker
from a2a_bridge.codec.budget import REQUEST_VALUES
from a2a_bridge.core.call import CallContext, Joined, Origin, Principal
from a2a_bridge.core.callers import Authenticate, Permit, Presented
from a2a_bridge.core.errors import A2AError, Blame, Reason, request_too_large
from a2a_bridge.core.operations import SEND_STREAMING_MESSAGE
from a2a_bridge.middleware.tracing import TRACE_PARAMETERS
from a2a_bridge.peers import USER_AGENT

#: headers of callers that go with a call: they name the program, for counts, and its trace
_PASSED = {name.encode(): name for name in (*TRACE_PARAMETERS, USER_AGENT)}
#: the key of the principal in a scope
_KEY = "a2a_bridge.principal"
#: seconds for a body to come, where the server has no limit of its own
_BODY_TIME = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What a front asks of its callers.

    authenticate: None lets all in, as one caller. max_body: bytes of a request. max_values: its JSON values;
    0: no limit. allowed_hosts: values of the header Host, `NAME:*` with any port; empty: all. bearer_as: the
    header of API keys; a key that comes as a bearer token, as many clients send it, counts as one there.
    permit: whether a caller may use the agent, for lists; None: everybody may.
    """

    max_body: int
    authenticate: Authenticate | None = None
    max_values: int = REQUEST_VALUES
    allowed_hosts: Sequence[str] = ()
    bearer_as: str = ""
    permit: Permit | None = None


class Guarded:
    """An application whose callers are known, and whose requests are bounded. reject: answers an error."""

    def __init__(
        self, app: Application, edge: Edge, reject: Callable[[A2AError, Send], Awaitable[None]]
    ) -> None:
        self._app = app
        self._edge = edge
        self._reject = reject

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("a front takes requests of HTTP only")
        scope = {**scope, _KEY: None}  # nobody else may have set it
        edge = self._edge
        try:
            if edge.authenticate is not None:
                scope[_KEY] = await edge.authenticate(presented(scope, edge.bearer_as))
            body = await read_body(receive, edge.max_body)
            if body is None:
                return
            await needs_worker(body, edge.max_values)
        except A2AError as error:
            await self._reject(error, send)
            return
        await self._app(scope, _replaying(body, receive), send)


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if the caller has left. Raises A2AError for one that is too large or too
    slow.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIME):
            while (message := await receive())["type"] == "http.request":
                body += message.get("body", b"")
                if len(body) > most:
                    raise request_too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise A2AError(Reason.INVALID_REQUEST, f"the body has not come within {_BODY_TIME:g} s") from None
    return None


def _replaying(body: bytes, receive: Receive) -> Receive:
    """`receive` for an application whose body has been read."""
    first: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def next_message() -> Message:
        nonlocal first
        if first is None:
            return await receive()
        message, first = first, None
        return message

    return next_message


def presented(scope: Scope, bearer_as: str = "") -> Presented:
    """What a request presents to prove its caller. bearer_as: see `Edge`."""
    entries: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        entries.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    parameters = {name: found[0] if len(found) == 1 else Joined(found) for name, found in entries.items()}
    scheme, _, token = parameters.get("authorization", "").partition(" ")
    bearer_as = bearer_as.lower()
    # An API key has one dot, and a JWT two.
    if bearer_as and bearer_as not in parameters and scheme.lower() == "bearer" and token.count(".") == 1:
        parameters[bearer_as] = token.strip()
    client = scope.get("client")
    return Presented(parameters, client[0] if client else "", partial(certificate_of, scope))


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
    if scope is None:
        return CallContext(origin=Origin(binding, ""))
    client = scope.get("client")
    origin = Origin(binding, "", client[0] if client else "")
    passed = {}
    for name, value in scope["headers"]:
        if name in _PASSED:
            passed[_PASSED[name]] = value.decode("latin-1")
    return CallContext(parameters=passed, principal=principal_of(scope), origin=origin)


def may_send(permit: Permit | None, principal: Principal | None) -> bool:
    """Whether a caller may send messages to an agent. permit: see `HostOptions`."""
    try:
        if permit is not None:
            permit(SEND_STREAMING_MESSAGE.name, principal)
    except A2AError:
        return False
    return True


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
