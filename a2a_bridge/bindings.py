"""What a transport is to the rest: two verbs, `mount` and `dial`, found by name. Not a transport itself.

A binding lives in a folder of `a2a_bridge_transports` named after its kind (`JSONRPC` → `jsonrpc`, `HTTP+JSON` →
`http_json`), or in another distribution behind an entry point of group `a2a_bridge.bindings`. Either way the
module or object has an attribute `BINDING`, or is the binding.
"""

from __future__ import annotations

import importlib
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, Generic, Protocol, TypeVar, cast

from a2a_bridge.codec.budget import ANSWER_VALUES, REQUEST_VALUES
from a2a_bridge.core.call import ASIDE_PARAMETER
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import GRPC, KNOWN, Dialect, Kind
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import UNKNOWN, Files, Profile
from a2a_bridge.peers import named as named_peer

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a TCP port. Port 0 asks the system for a free one."""

    host: str = "127.0.0.1"
    port: int = 0

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Limits and habits of a listening host. Sizes in bytes, times in seconds.

    max_body: largest request; a larger one is REQUEST_TOO_LARGE.
    max_values: JSON values, or as much in protobuf, that a request may hold; more are REQUEST_TOO_LARGE. 0: any number.
    max_header: largest header block or metadata.
    header_timeout: how long a connection may take to send a request's headers.
    keep_alive: silence on a stream after which a keep-alive goes out.
    lenient_versions: an address or method name that one version has outweighs what the caller declared or did not.
    trust_forwarded: peers whose forwarded headers (Forwarded, X-Forwarded-*) are believed; "*" for any.
    cors: value of Access-Control-Allow-Origin on documents such as the card; empty for none.
    refusal: why no new work can be taken just now, None while it can; asked by whoever asks whether this is ready.
    max_connections: open connections of the listener; further ones are closed at once. 0 for no limit.
    max_connection_streams: open streams of one gRPC connection. A client waits before it opens a further one.
    drain_window: how long the listener stays open once draining has begun. The readiness probe fails from then on, and
        answers end their connections, so that clients turn to others in time. None: half a second, and only as long
        as connections are open.
    status: figures for `/readyz?verbose`, by name.
    jsonrpc_paths: further paths at which the first JSON-RPC mount answers, such as those that clients know of an agent
        that a gateway stands before.
    """

    max_body: int = 16 * MIB
    max_values: int = REQUEST_VALUES
    max_header: int = 16 * 1024
    header_timeout: float = 20.0
    keep_alive: float = 15.0
    lenient_versions: bool = False
    trust_forwarded: tuple[str, ...] = ()
    cors: str = "*"
    tls: Any = None
    backlog: int = 1024
    refusal: Callable[[], A2AError | None] | None = None
    max_connections: int = 10_000
    max_connection_streams: int = 1000
    drain_window: float | None = None
    status: Callable[[], Mapping[str, int]] | None = None
    jsonrpc_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """Something that crossed the rim of a client side, as it was on the wire; for people to look at.

    sent: towards the agent. head: request line, status line, gRPC path or gRPC status; empty for what belongs
    to the frame before. headers: HTTP headers, metadata or trailers. body: bytes, of a stream one event or
    chunk. message: the same as a message, where the bytes are not readable.
    """

    sent: bool
    head: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    message: Any = None


#: (host, port) → the addresses that may be connected to. Raises OSError when there are none, A2AError to refuse.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What a client side trusts and shows over TLS, as PEM files. Whether it speaks TLS is for the URL to say."""

    #: certificates of authorities that are trusted in place of the system's; empty for those
    ca: str = ""
    #: the client's certificate, with its chain; empty for none
    certificate: str = ""
    #: the key of that certificate; empty when it stands in the same file
    key: str = ""
    #: whether the other side's certificate is checked; gRPC always does
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """The same for Python's ssl. Raises OSError (ssl.SSLError included) for files that cannot be used."""
        context = ssl.create_default_context(cafile=self.ca or None)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


#: parameters that say nothing of who calls
IMPERSONAL = frozenset({"a2a-extensions", "traceparent", "tracestate", "baggage", ASIDE_PARAMETER})


@dataclass(frozen=True, slots=True)
class DialOptions:
    """Limits and habits of a client side. Sizes in bytes, times in seconds.

    timeout: deadline of a unary call whose context has none; None for no limit. Streams have no default.
    connect_timeout: how long making a connection may take.
    idle_timeout: silence on a stream after which the peer counts as dead; keep-alives are no silence.
    silence_timeout: how long an agent may give no answer, or no next event, before the call is DEADLINE_EXCEEDED;
        keep-alives are silence. 0 for ever.
    parameters: service parameters for every call (credentials, say), lower-case names.
    forward: names of parameters of the caller's context that travel on to the peer. One of them is between
        bridges only (ASIDE_PARAMETER) and goes to 1.0 peers alone.
    max_message: largest response or event.
    max_values: JSON values, or as much in protobuf, that a response or event may hold. 0: any number.
    tls: None decides by the URL; True/False force it; or an ssl.SSLContext / grpc credentials; TlsFiles are used where
        the URL decides for TLS.
    grpc_tls: whether gRPC is spoken over TLS, whatever the URL says; None: by its scheme, without one on port 443.
    peer: the profile of the agent, or its name, where the card does not show it (see a2a_bridge.peers).
    base64_files: whether the agent wants base64 text where the bytes of a file belong, over gRPC and HTTP+JSON of 0.x.
        None: as its profile says; base64 text for an agent without one, but files that came that way keep their spelling.
    named: the URL that the operator named, whose card is followed: interfaces at other hosts get no `parameters` and of
        `forward` only IMPERSONAL, and may be refused (see gateway.destinations). Empty where the interfaces themselves
        were named.
    credentials_for: further origins, as URLs or `host:port`, that get all of them.
    trust_card_urls: the card's URLs are dialled as they are, also where they lead inwards or do not answer.
    resolve: asked for the addresses to connect to, without a proxy; None asks the system.
    exact: a URL whose own path shows no card has none; else the card of its origin is taken.
    tap: is shown every frame, credentials included; must not raise.
    """

    timeout: float | None = 60.0
    connect_timeout: float = 10.0
    idle_timeout: float = 120.0
    silence_timeout: float = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    forward: frozenset[str] = IMPERSONAL | {"authorization"}
    max_message: int = 64 * MIB
    max_values: int = ANSWER_VALUES
    tls: Any = None
    grpc_tls: bool | None = None
    peer: Profile | str = ""
    base64_files: bool | None = None
    named: str = ""
    credentials_for: frozenset[str] = frozenset()
    trust_card_urls: bool = False
    resolve: Resolve | None = None
    exact: bool = False
    tap: Callable[[Frame], None] | None = None

    @property
    def profile(self) -> Profile:
        """The profile of the agent. Raises LookupError for one that does not exist."""
        return named_peer(self.peer)

    @property
    def files(self) -> Files:
        """The spelling of file contents of the agent. Raises LookupError as `profile` does."""
        if self.base64_files is not None:
            return Files.BASE64 if self.base64_files else Files.RAW
        return self.profile.quirks.file_bytes

    def recognised(self, profile: Profile) -> DialOptions:
        """The options for an agent that showed a profile; one that was named outweighs it."""
        return self if self.peer or profile is UNKNOWN else replace(self, peer=profile)


class Host(Protocol):
    """One listening socket and what is mounted on it."""

    @property
    def address(self) -> ListenAddress:
        """Where it listens; the real port once started."""
        ...

    async def start(self) -> None:
        """Opens the socket. Raises OSError when the address is taken or not ours."""
        ...

    async def drain(self, grace: float) -> None:
        """Takes no new work, lets what runs finish for `grace` seconds, tells the rest UNAVAILABLE, closes."""
        ...


#: (base URL the caller used for the mount, without a trailing slash) → a JSON document
Document = Callable[[str], bytes]

#: (the same, the query as it was sent, the value of A2A-Version) → a JSON document. Raises A2AError to refuse the query.
Variant = Callable[[str, str, str], bytes]


#: (path below the receiver's, header names in lower case, body) → HTTP status. Raises A2AError to refuse.
Receive = Callable[[str, Mapping[str, str], bytes], Awaitable[int]]


class DocumentHost(Host, Protocol):
    """A host that can also serve documents and take posts: every HTTP host."""

    def publish(self, path: str, document: Document, variant: Variant | None = None) -> None:
        """Serves `document` at an absolute path with ETag, Cache-Control and conditional requests.

        variant: what to serve to requests with a query or A2A-Version; the same document when it is None.
        """
        ...

    def receive(self, path: str, receive: Receive) -> None:
        """Hands every POST below an absolute path to `receive`; the answer is its status without a body."""
        ...


HostT = TypeVar("HostT", bound=Host)


class Binding(Protocol, Generic[HostT]):
    """One transport."""

    kind: Kind[Any, Any]
    #: bindings of one family share a host: "http" or "grpc", or a name of one's own
    family: str

    def host(self, address: ListenAddress, options: HostOptions) -> HostT:
        """A host for this binding, not started yet."""
        ...

    def mount(self, host: HostT, path: str, service: Service, dialects: Sequence[Dialect]) -> None:
        """Attaches a server side at `path` ("" for the root; bindings without paths ignore it).

        Only dialects that have a form for this kind are served, and may share addresses: see dialects.detect.
        May be called before `start` only.
        """
        ...

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        """A client side. Entering it does not connect yet; a failed connection is A2AError UNAVAILABLE with
        `metadata["phase"] == "connect"`, which tells that the agent has not seen the call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """An HTTP response that was read whole. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


#: (url, request headers) → response. Raises A2AError UNAVAILABLE when there is none.
Fetch = Callable[[str, Mapping[str, str]], Awaitable[Fetched]]

#: (url, request headers, body) → response. Raises A2AError when there is none.
Post = Callable[[str, Mapping[str, str], bytes], Awaitable[Fetched]]

GROUP = "a2a_bridge.bindings"
PACKAGE = "a2a_bridge_transports"


def module_name(kind: str) -> str:
    """The folder name of a kind: "HTTP+JSON" → "http_json"."""
    return re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")


def find(kind: str) -> Binding[Any]:
    """The binding of a kind: the folder of that name first, then an entry point of that name.

    Raises LookupError naming what exists.
    """
    name = module_name(kind)
    target = f"{PACKAGE}.{name}"
    if name:
        try:
            return cast("Binding[Any]", importlib.import_module(target).BINDING)
        except ModuleNotFoundError as error:
            if error.name != target:
                raise
    for point in entry_points(group=GROUP):
        if kind in (point.name, name) or module_name(point.name) == name:
            loaded = point.load()
            return cast("Binding[Any]", getattr(loaded, "BINDING", loaded))
    raise LookupError(f"no binding {kind!r}; known: {', '.join(names())}")


def names() -> list[str]:
    """Kinds that can be found, the in-tree ones first."""
    own = ["JSONRPC", "HTTP+JSON", "GRPC"]
    return own + sorted(point.name for point in entry_points(group=GROUP))


def asgi_host(options: HostOptions, close: Callable[[float], Awaitable[None]] | None = None) -> DocumentHost:
    """A host that listens nowhere and is an ASGI application instead. `close`: called when a lifespan ends."""
    module = importlib.import_module(f"{PACKAGE}._http.asgi")
    return cast("DocumentHost", module.AsgiHost(options, close=close))


def grpc_attach(
    service: Service,
    server: Any,
    *,
    health: bool,
    reflection: bool,
    refusal: Callable[[], A2AError | None] | None = None,
) -> None:
    """Adds the gRPC service of every known version to a grpc.aio server that somebody else runs.

    refusal: see HostOptions; for the health service.
    """
    module = importlib.import_module(f"{PACKAGE}.grpc.host")
    dialects = [dialect for dialect in KNOWN if dialect.form(GRPC) is not None]
    module.add_to_server(service, server, dialects, health=health, reflection=reflection, refusal=refusal)


def http_fetch(options: DialOptions) -> AbstractAsyncContextManager[Fetch]:
    """A Fetch over the HTTP session of the transports, for cards. It follows no redirect."""
    session = importlib.import_module(f"{PACKAGE}._http.session")
    return cast("AbstractAsyncContextManager[Fetch]", session.fetcher(options))


def http_post(options: DialOptions, resolve: Resolve | None = None) -> AbstractAsyncContextManager[Post]:
    """A Post over the HTTP session of the transports, for webhooks. It follows no redirect.

    resolve: says for every host, addresses included, where it may be connected to; then no proxy is used, and
    responses have no body.
    """
    session = importlib.import_module(f"{PACKAGE}._http.session")
    return cast("AbstractAsyncContextManager[Post]", session.poster(options, resolve))
