"""Callers of a front over HTTP: an ASGI application that identifies them before the front sees a request, and
limits the size of their requests.

Rules:
1. The credential is checked here and goes no further: the agent is called with a context that has the
   principal. Of the headers of a caller it has the name of the program and the trace.
2. The body is read after that. A front gets it whole, with a bounded number of bytes and of JSON values.
3. Errors are answered in the form of the front, and counted as those of each binding.
4. A caller that may not use an agent of several gets what it gets for an agent that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from a2a_bridge.bindings.asgi import Application, Message, Receive, Scope, Send, certificate_of
from a2a_bridge.bindings.offload import needs_worker
from a2a_bridge.bindings.traffic import log_rejected
from a2a_bridge.codec.budget import REQUEST_VALUES
from a2a_bridge.core.addresses import ListenAddress
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
#: the key of the body of a request in the scope of its application
BODY = "a2a_bridge.body"
#: seconds for a body to come, where the server has no limit of its own
_BODY_TIME = 60.0


class EdgeOptions(TypedDict, total=False):
    """What the owner of an application chooses of `Edge`."""

    authenticate: Authenticate | None
    max_body: int
    max_values: int
    allowed_hosts: Sequence[str]
    bearer_as: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What a front asks of its callers.

    authenticate: None lets all in, as one caller. max_body: bytes of a request. max_values: its JSON values;
    0: no limit. allowed_hosts: values of the header Host, `NAME:*` with any port; empty: all. local_only:
    they count for requests that came to a loopback address of the server. bearer_as: the header of API keys;
    a key that comes as a bearer token, as many clients send it, counts as one there. permit: whether a caller
    may use the agent, for lists; None: everybody may.
    """

    max_body: int = 16 << 20
    authenticate: Authenticate | None = None
    max_values: int = REQUEST_VALUES
    allowed_hosts: Sequence[str] = ()
    local_only: bool = False
    bearer_as: str = ""
    permit: Permit | None = None


class EdgeError(A2AError):
    """An error of a request whose HTTP status is not that of its reason. headers: of the response."""

    def __init__(
        self, status: int, reason: Reason, message: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(reason, message)
        self.status = status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Form:
    """How a front speaks HTTP. binding: its name, for logs and metrics. methods: those that a path takes;
    None for a path that the front does not have. reject: answers an error. checks_origin: whether pages of
    other servers are rejected.
    """

    binding: str
    methods: Callable[[str], Sequence[str] | None]
    reject: Callable[[A2AError, Send], Awaitable[None]]
    checks_origin: bool = False


class Guarded:
    """An application whose callers are known, and whose requests are bounded. hides: it is that of an agent
    of several, and not there for callers that may not use it.
    """

    def __init__(self, app: Application, edge: Edge, form: Form, *, hides: bool = False) -> None:
        self._app = app
        self._edge = edge
        self._form = form
        self._hides = hides

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises A2AError for a caller that may not see the agent: the host answers as where nothing is."""
        if scope["type"] != "http":
            raise ValueError("a front takes requests of HTTP only")
        scope = {**scope, _KEY: None}  # nobody else may have set it
        edge, form = self._edge, self._form
        allowed = form.methods(path_of(scope))
        try:
            if edge.allowed_hosts:
                self._check_host(scope)
            if edge.authenticate is not None:
                scope[_KEY] = await edge.authenticate(presented(scope, edge.bearer_as))
            is_hidden = self._hides and not may_send(edge.permit, scope[_KEY])
            if allowed is not None and scope["method"] not in allowed and not is_hidden:
                if scope["method"] == "OPTIONS":
                    await respond(send, 204, b"", [_allow(allowed)])
                    return
                raise _not_allowed(allowed)
            if is_hidden:
                body = None
            else:
                _check_length(dict(scope["headers"]), edge.max_body)
                body = await read_body(receive, edge.max_body)
            if body is not None:
                await needs_worker(body, edge.max_values)
        except A2AError as error:
            await self._refuse(scope, error, send)
            return
        if is_hidden:
            raise A2AError(Reason.METHOD_NOT_FOUND, "there is nothing at this path")
        if body is None:
            return
        scope[BODY] = body
        try:
            await self._app(scope, _replaying(body, receive), send)
        except EdgeError as error:  # before a response
            await self._refuse(scope, error, send)

    async def _refuse(self, scope: Scope, error: A2AError, send: Send) -> None:
        log_error(scope, error, self._form.binding)
        await self._form.reject(error, send)

    def _check_host(self, scope: Scope) -> None:
        edge = self._edge
        if edge.local_only and not _came_to_loopback(scope):
            return
        if not _is_allowed_host(scope, edge.allowed_hosts):
            text = "the header Host is none of this server"
            raise EdgeError(421, Reason.INVALID_REQUEST, text)
        if self._form.checks_origin and not _is_allowed_origin(scope, edge.allowed_hosts):
            text = "the header Origin is none of this server"
            raise EdgeError(403, Reason.PERMISSION_DENIED, text)


def _check_length(headers: Mapping[bytes, bytes], most: int) -> None:
    """Raises A2AError for a body that is compressed, or is declared as larger than `most` bytes."""
    if headers.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
        text = "bodies are read without Content-Encoding only"
        identity = [(b"accept-encoding", b"identity")]
        raise EdgeError(415, Reason.CONTENT_TYPE_NOT_SUPPORTED, text, identity)
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > most:
        raise request_too_large(most)


def _allow(allowed: Sequence[str]) -> tuple[bytes, bytes]:
    return b"allow", ", ".join(sorted({*allowed, "OPTIONS"})).encode()


def _not_allowed(allowed: Sequence[str]) -> EdgeError:
    header = _allow(allowed)
    return EdgeError(405, Reason.METHOD_NOT_FOUND, f"this path takes {header[1].decode()}", [header])


def log_error(scope: Scope, error: A2AError, binding: str) -> None:
    """Counts and logs a request that does not become a call."""
    client = scope.get("client")
    log_rejected(f"{scope['method']} {scope['path']}", client[0] if client else "", "", error, binding)


def _came_to_loopback(scope: Scope) -> bool:
    """Whether a request came to an address that only this machine can reach."""
    server = scope.get("server")
    if server is None or server[1] is None:  # a socket of the file system
        return False
    return ListenAddress(server[0]).is_local


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


def _is_allowed_host(scope: Scope, allowed: Sequence[str]) -> bool:
    """Whether the header Host of a request is one of `allowed`."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and _is_one_of(hosts[0], allowed)


def _is_allowed_origin(scope: Scope, allowed: Sequence[str]) -> bool:
    """Whether the page that calls, if one does, is at one of the hosts `allowed`."""
    origins = [value.partition(b"://") for name, value in scope["headers"] if name == b"origin"]
    return all(scheme in (b"http", b"https") and _is_one_of(host, allowed) for scheme, _, host in origins)


def _is_one_of(host: bytes, allowed: Sequence[str]) -> bool:
    """`NAME:*` allows any port."""
    found = host.decode("latin-1").lower()
    return any(
        found == one or (one.endswith(":*") and found.rpartition(":")[0] == one[:-2])
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
    """The headers of a response to an error: its own, challenges, unless the agent has sent them, and the
    time to try again after.
    """
    challenges = () if error.blame is Blame.PEER else error.challenges
    found = list(error.headers) if isinstance(error, EdgeError) else []
    found += [(b"www-authenticate", one.encode("latin-1", "replace")) for one in challenges]
    if error.retry_after is not None:
        found.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    return found


def status_of(error: A2AError) -> int:
    """The HTTP status of an error."""
    return error.status if isinstance(error, EdgeError) else error.reason.http


async def respond(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Sends a response with a JSON document."""
    head = list(headers or ())
    if status != 204:
        head += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
