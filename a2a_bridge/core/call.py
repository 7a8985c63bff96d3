"""A call: one operation, its request and its context. Not its transport.

Rules:
1. A context is made once, where the call enters, and passed on unchanged; middleware derives a new one with
   `replace`.
2. `reply` is the only mutable member: its content is sent back as response parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, Self

from a2a_bridge.core.operations import Operation, Req, Res

NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


def _no_parameters() -> Mapping[str, str]:
    # Python 3.11 rejects the mapping itself as a default, because it cannot be hashed there.
    return NO_PARAMETERS


#: the name of the parameter with the version of the protocol
VERSION_PARAMETER = "a2a-version"
#: the name of the parameter with the extensions that a caller activates
EXTENSIONS_PARAMETER = "a2a-extensions"
#: the name of the `side_channel` of CallContext and ResponseParameters on the wire between two bridges
SIDE_CHANNEL = "x-a2a-bridge-aside"

#: asks a subscription to resume after this event of the task instead of starting with a snapshot
LAST_EVENT_PARAMETER = "last-event-id"
#: on the wire of bindings without an id per event: the id of the first event; each further one is one higher
EVENT_PARAMETER = "a2a-event-id"
#: on the wire of a stream: "gap" if its first event replaces lost events
RESUME_PARAMETER = "a2a-resume"
#: in `reply` of a list: the number of tasks left out of this page, because they cannot be read or encoded
LEFT_OUT_PARAMETER = "x-a2a-bridge-left-out"


def left_out(reply: dict[str, str], count: int) -> None:
    """Adds to the number of tasks missing from a list. Agents behind a gateway may have counted some tasks
    already.
    """
    if count:
        before = reply.get(LEFT_OUT_PARAMETER, "")
        reply[LEFT_OUT_PARAMETER] = str(
            count + (int(before) if before.isdecimal() and len(before) < 9 else 0)
        )


class Joined(str):
    """A parameter that came in several entries: their texts joined by commas, and the original entries.

    Readers split at commas. Code that forwards the parameter writes the original entries again, because
    agents in Go read each entry of `a2a-extensions` as one URI (a2a-go 2.3.1, a2asrv/extensions.go,
    RequestedURIs).
    """

    __slots__ = ("entries",)
    entries: tuple[str, ...]

    def __new__(cls, entries: Iterable[str]) -> Self:
        items = tuple(entries)
        made = super().__new__(cls, ",".join(items))
        made.entries = items
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]  # copies are made of the entries
        return (self.entries,)


def entries_of(value: str) -> tuple[str, ...]:
    """The original entries of a parameter, or only its value."""
    return value.entries if type(value) is Joined else (value,)


def relayable(parameters: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The parameters of a peer that every binding can forward, which are printable ASCII, and the names of
    those that lost content. A list of extensions only loses the affected entries.
    """
    if all(value.isascii() and value.isprintable() for value in parameters.values()):
        return parameters, []
    forwarded, lossy = {}, []
    for name, value in parameters.items():
        if value.isascii() and value.isprintable():
            forwarded[name] = value
            continue
        lossy.append(name)
        parts = value.split(",") if name == EXTENSIONS_PARAMETER else []
        if rest := ",".join(part for part in parts if part.isascii() and part.isprintable()).strip():
            forwarded[name] = rest
    return forwarded, lossy


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as identified by an authenticator."""

    #: unique within the server
    name: str
    #: further data of the authenticator, such as the claims of a token
    claims: Mapping[str, Any] = field(default_factory=_no_parameters)
    #: the scheme name of the method that has identified it; empty if unknown
    method: str = field(default="", compare=False)
    #: when the client certificate of its connection expires, in seconds since the epoch; None without one
    until: float | None = field(default=None, compare=False)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the claims: `scope` is text with spaces (RFC 8693, 4.2), `scp` text or a list."""
        found = self.claims.get("scope", self.claims.get("scp", ""))
        if isinstance(found, str):
            return frozenset(found.split())
        return (
            frozenset(one for one in found if isinstance(one, str))
            if isinstance(found, list)
            else frozenset()
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """The entry point of a call. All fields are empty for a call made in-process."""

    #: the name of the binding, such as `JSONRPC`
    binding: str = ""
    #: the protocol version, such as `1.0`
    version: str = ""
    #: the address of the peer, if known
    peer: str = ""
    #: URL of the application as the caller used it (scheme, host, mount path), for transports that have one
    base_url: str = ""


IN_PROCESS = Origin()


class ResponseParameters(dict[str, str]):
    """The parameters sent back with a response, by lower-case name, and attributes for bindings only."""

    #: content of the response that 1.0 cannot hold: ASCII JSON, bounded (see dialects), or empty
    side_channel: str = ""
    #: the version to answer in, by a service that knows it better than the address; empty: the caller's
    version: str = ""
    #: True if the response is large: passes through it are made in a thread
    large: bool = False

    def merge(self, other: ResponseParameters) -> None:
        """Adds the parameters of another response."""
        self.update(other)
        self.side_channel = other.side_channel or self.side_channel
        self.version = other.version or self.version
        self.large = other.large or self.large


@dataclass(slots=True, eq=False)
class CallContext:
    """The context of a call."""

    #: from the route or the request; empty if there is none
    tenant: str = ""
    #: service parameters (HTTP headers, gRPC metadata; spec 3.2.6) by lower-case name. Several entries of one
    #: name are joined by a comma (`Joined`). The mapping may be case-insensitive
    parameters: Mapping[str, str] = field(default_factory=_no_parameters)
    #: the authenticated caller; None without authentication
    principal: Principal | None = None
    #: the time on the clock of `time.monotonic()`, in seconds, after which the response is no longer needed
    deadline: float | None = None
    #: the entry point of the call
    origin: Origin = IN_PROCESS
    #: parameters to send back with the response (before the first event of a stream)
    reply: ResponseParameters = field(default_factory=ResponseParameters)
    #: content of the request that no 1.0 message can hold: ASCII JSON, bounded (see dialects); empty for none
    side_channel: str = ""
    #: True if the request is so large that it was decoded in a thread: passes through it are made there
    large: bool = False

    @property
    def extensions(self) -> tuple[str, ...]:
        """URIs of the extensions the caller declared (spec 3.2.6), in its order, without repetition."""
        declared = self.parameters.get(EXTENSIONS_PARAMETER)
        if not declared:
            return ()
        return tuple(dict.fromkeys(uri for part in declared.split(",") if (uri := part.strip())))

    def replace(self, **changes: Any) -> CallContext:
        """A copy with changed members. The copy shares `reply` unless `reply` is changed too."""
        return replace(self, **changes)


@dataclass(slots=True, eq=False)
class Call(Generic[Req, Res]):
    """One invocation of an operation. Treat it as immutable; derive a new one to change it."""

    operation: Operation[Req, Res]
    request: Req
    context: CallContext


def with_side_channel(parameters: Mapping[str, str], side_channel: str) -> Mapping[str, str]:
    """Parameters with the content beside a message under its wire name, as the rows of dialects expect it."""
    return {**parameters, SIDE_CHANNEL: side_channel} if side_channel else parameters


def take_side_channel(reply: ResponseParameters, found: Mapping[str, str]) -> None:
    """Adds the content that a row of a dialect found beside a response to the reply."""
    for name, value in found.items():
        if name == SIDE_CHANNEL:
            reply.side_channel = value
        else:
            reply[name] = value
