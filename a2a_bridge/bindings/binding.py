"""The interface of transports: `mount` a server side, `dial` a client side. Transports are found by name.

A binding lives in a folder of `a2a_bridge_transports` named after its kind (`JSONRPC` → `jsonrpc`,
`HTTP+JSON` → `http_json`), or in another distribution behind an entry point of group `a2a_bridge.bindings`.
Either way the module or object has an attribute `BINDING`, or is the binding.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.codec.budget import ANSWER_VALUES
from a2a_bridge.core.addresses import ListenAddress as ListenAddress  # noqa: PLC0414  a part of this interface
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.callers import Authenticate, Permit
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.kinds import NUMBER, Kinds, check_items, check_kinds
from a2a_bridge.core.option_classes import DialValues, HostValues, TlsFileValues
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.dialects import KNOWN, BindingKind, Dialect
from a2a_bridge.extensions import entry_points, load
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import UNKNOWN, Files, Profile
from a2a_bridge.peers import find_profile as named_peer

MIB = 1024 * 1024


@dataclass(slots=True, eq=False)
class InheritedListener:
    """A bound socket that a supervisor gave to this process."""

    #: its file descriptor
    descriptor: int
    #: True if another process accepts the connections of this socket when this one no longer does
    has_successor: bool = False


_TEXTS = 'a mapping of texts, such as {"authorization": "Bearer TOKEN"}'
_SECONDS = "a number of seconds"
_DIAL_KINDS: Kinds = {
    "timeout": ((*NUMBER, NoneType), _SECONDS),
    "connect_timeout": (NUMBER, _SECONDS),
    "idle_timeout": (NUMBER, _SECONDS),
    "silence_timeout": (NUMBER, _SECONDS),
    "parameters": ((Mapping,), _TEXTS),
    "query": ((Mapping,), _TEXTS),
    "middleware": ((tuple, list), "a tuple of functions such as (f,)"),
}
_DIAL_TEXTS: Kinds = dict.fromkeys(("parameters", "query"), ((str,), _TEXTS))
_HOST_KINDS: Kinds = {
    "cors": ((str,), "an origin, `*` or empty"),
    "trust_forwarded": ((tuple, list), 'a tuple of networks such as ("10.0.0.0/8",)'),
}


@dataclass(frozen=True, slots=True)
class HostOptions(HostValues):
    """Options of a listening host."""

    #: Access-Control-Allow-Origin of documents such as the card; empty: no such header
    cors: str = "*"
    #: answer only requests whose Host is an address or localhost. A web page can make a name of its own lead
    #: to this machine (DNS rebinding), and then read the responses. Only the own HTTP listener has it
    local_names: bool = False
    #: a ServerTls for either host; or an ssl.SSLContext (HTTP), grpc.ServerCredentials (gRPC); None: none
    tls: Any = None
    #: let other processes listen at the same address (SO_REUSEPORT); the system spreads connections
    reuse_port: bool = False
    #: a bound socket that an HTTP host listens on; None: it opens one
    listener: InheritedListener | None = None
    #: the same for a gRPC host
    grpc_listener: InheritedListener | None = None
    #: why the server takes no new work, None while it does; readiness probes ask this
    rejection: Callable[[], A2AError | None] | None = None
    #: figures for `/readyz?verbose`, by name
    status: Callable[[], Mapping[str, int]] | None = None
    #: further paths of the first JSON-RPC mount, such as the paths of the agent behind a gateway
    jsonrpc_paths: tuple[str, ...] = ()
    #: identifies the caller of each operation before its body is decoded; None: callers are not identified.
    #: Documents such as the card, probes and reflection are open to all
    authenticate: Authenticate | None = None
    #: whether that caller may use an operation, before the body is decoded: errors of the body tell about the
    #: operation; None: not checked here
    permit: Permit | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for a field of another type."""
        check_kinds(self, _HOST_KINDS)


#: (host, port) → the addresses to connect to. Raises OSError if there are none, A2AError to reject
#: the host.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class TlsFiles(TlsFileValues):
    """PEM files for the TLS of a client side. The URL decides whether TLS is used."""

    def context(self) -> ssl.SSLContext:
        """The SSL context. Raises OSError (ssl.SSLError included) for unusable files."""
        for path in filter(None, (self.ca, self.certificate, self.key)):
            # OpenSSL's error names no file.
            os.close(os.open(path, os.O_RDONLY))
        context = ssl.create_default_context(cafile=self.ca or None)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


#: parameters without information about the caller
IMPERSONAL = frozenset({"a2a-extensions", "traceparent", "tracestate", "baggage", SIDE_CHANNEL})


#: (a card as it was received, where) → the part of it that may be read. Raises A2AError to reject the card
CheckCard = Callable[[bytes, str], Awaitable[bytes]]


_UNCONNECTED = "the call ended before its connection was made"


def mark_unconnected(error: BaseException) -> None:
    """Says of the cancellation of a call that nothing of the call was sent, because it had no connection."""
    error.add_note(_UNCONNECTED)


def is_unconnected(error: BaseException | None) -> bool:
    """Whether the cancellation of a call says that."""
    return _UNCONNECTED in getattr(error, "__notes__", ())


def unconnected_error(text: str = _UNCONNECTED, reason: Reason = Reason.UNAVAILABLE) -> A2AError:
    """The error of such a call: another interface may get it. reason: DEADLINE_EXCEEDED if its time is up."""
    return A2AError(
        reason,
        f"no connection to the agent: {text}",
        metadata={"phase": "connect"},
        blame=Blame.PEER,
    )


@dataclass(frozen=True, slots=True)
class DialOptions(DialValues):
    """Options of a client side. Sizes in bytes."""

    #: service parameters of every call, such as credentials; lower-case names
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: members of the query of each call's URL over HTTP, which are credentials, too
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: names of parameters that travel on from the caller to the agent
    forward: frozenset[str] = IMPERSONAL | {"authorization"}
    #: largest response or event
    max_message: int = 64 * MIB
    #: the MemoryAccount that can have a response ended while it arrives; None: only `max_message` limits it
    memory: Any = None
    #: JSON values in a response or event, or their equivalent in protobuf. 0: no limit
    max_values: int = ANSWER_VALUES
    #: None: as the URL says; True or False: with or without TLS; an ssl.SSLContext or grpc credentials: with
    #: them; TlsFiles: with them if the URL asks for TLS
    tls: Any = None
    #: profile of the agent, or its name, if the agent is not recognised (see a2a_bridge.peers)
    peer: Profile | str = ""
    #: whether files go to agents of 0.x as base64 text over gRPC and HTTP+JSON. None: as the profile says,
    #: base64 text for an unknown agent; files that arrived in one form keep it
    base64_files: bool | None = None
    #: URL that the operator named, from which the card came. Interfaces at other hosts get no `parameters`
    #: and no `query`, only IMPERSONAL of `forward`, and may be rejected (see gateway.destinations). Empty:
    #: the interfaces were named
    named: str = ""
    #: resolves hosts to addresses, without a proxy; a client side connects to no others. None: the system's
    #: resolver
    resolve: Resolve | None = None
    #: checks each card that is read, such as `CardTrust.check`; None: cards are not checked
    check_card: CheckCard | None = None
    #: is called with every frame, credentials included; must not raise
    frame_observer: Callable[[Frame], None] | None = None
    #: around each client side, the first one outermost: it sees every attempt, in the version 1.0
    middleware: tuple[Middleware, ...] = ()
    #: whether calls are traced: "auto", with the OpenTelemetry provider that the application has configured,
    #: if any; "off"; or a provider. A gateway follows ServeOptions.tracing instead
    tracing: Any = "auto"

    def __post_init__(self) -> None:
        """Raises TypeError for a field of another type."""
        check_kinds(self, _DIAL_KINDS)
        check_items("DialOptions", {"parameters": self.parameters, "query": self.query}, _DIAL_TEXTS)

    @property
    def profile(self) -> Profile:
        """The profile of the agent. Raises LookupError for one that does not exist."""
        return named_peer(self.peer)

    @property
    def files(self) -> Files:
        """The variant of file contents of the agent. Raises LookupError as `profile` does."""
        if self.base64_files is not None:
            return Files.BASE64 if self.base64_files else Files.RAW
        return self.profile.quirks.file_bytes

    def with_profile(self, profile: Profile) -> DialOptions:
        """These options with a recognised profile; a configured one has priority."""
        return self if self.peer or profile is UNKNOWN else replace(self, peer=profile)


class Host(Protocol):
    """One listening socket and its mounts."""

    @property
    def address(self) -> ListenAddress:
        """The listening address; with the real port after `start`."""

    async def start(self) -> None:
        """Opens the socket. Raises OSError when the address is in use or not local."""

    async def drain(self, grace: float) -> None:
        """Rejects new work, gives running calls `grace` seconds, ends the rest as UNAVAILABLE, closes."""


#: (base URL the caller used for the mount, without a trailing slash) → a JSON document, or a page
Document = Callable[[str], bytes]

#: (base URL, query as sent, value of A2A-Version) → a JSON document. Raises A2AError to reject the query.
Variant = Callable[[str, str, str], bytes]


@dataclass(frozen=True, slots=True)
class Page:
    """A document that is not JSON, or changes with each request."""

    #: HTTP status
    status: int
    #: value of the header Content-Type
    content_type: str
    body: bytes


#: (value of the header Accept, empty if there is none) → a page, which nobody caches
Render = Callable[[str], Awaitable[Page]]

#: reads the body of a post; see `Request.read` of hosts. The body of a rejected post is not read
ReadBody = Callable[[], Awaitable[bytes]]

#: (path below the receiver's, header names in lower case, body) → HTTP status. Raises A2AError to reject.
Receive = Callable[[str, Mapping[str, str], ReadBody], Awaitable[int]]


def operator_options(address: ListenAddress) -> HostOptions:
    """The options of a listener without authentication: no CORS, and on loopback only local Host headers. A
    web page must not learn who calls.
    """
    return HostOptions(cors="", local_names=address.is_local)


class DocumentHost(Host, Protocol):
    """A host that also serves documents and receives posts: every HTTP host."""

    options: HostOptions

    def publish(self, path: str, document: Document, variant: Variant | None = None) -> None:
        """Serves `document` at an absolute path with ETag, Cache-Control and conditional requests. variant:
        the document for requests with a query or A2A-Version; None: `document` for them, too.
        """

    def front(self, page: Document) -> None:
        """Serves an HTML page at the root to GET with `Accept: text/html`. The page changes nothing for other
        requests.
        """

    def show(self, path: str, render: Render) -> None:
        """Serves a page at an absolute path."""

    def mount_application(
        self,
        path: str,
        application: Application,
        *,
        at: Sequence[str] = (),
        ending: Callable[[], None] | None = None,
    ) -> None:
        """Gives the requests below an absolute path to an application of ASGI 3, with the limits of all
        others. It starts before the host is ready, and ends after the last request. at: its paths below that
        path, with `/*` at the end for all below; empty: all. ending: ends running calls with an error of the
        application, before the grace of a drain is over.
        """

    def receive(self, path: str, receive: Receive) -> None:
        """Calls `receive` for each POST below an absolute path. The response is the status that `receive`
        returns, without a body.
        """


HostT = TypeVar("HostT", bound=Host)


class Binding(Protocol, Generic[HostT]):
    """One transport."""

    kind: BindingKind[Any, Any]
    #: bindings of one family share a host: "http", "grpc", or another name
    family: str

    def host(self, address: ListenAddress, options: HostOptions) -> HostT:
        """A host for this binding, not started yet."""

    def mount(self, host: HostT, path: str, service: Service, dialects: Sequence[Dialect]) -> None:
        """Attaches a server side at `path` ("" for the root; bindings without paths ignore it). To be called
        before `start` only. Only dialects with a form for this kind are served; they may share addresses, see
        dialects.detect.
        """

    def dial(
        self, interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
    ) -> AbstractAsyncContextManager[Service]:
        """A client side. Entering it does not connect; a failed connection is A2AError UNAVAILABLE with
        `metadata["phase"] == "connect"`: the agent has not seen the call.
        """


class Fetched(NamedTuple):
    """A complete HTTP response. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


#: (url, request headers) → response. Raises A2AError UNAVAILABLE when there is none.
Fetch = Callable[[str, Mapping[str, str]], Awaitable[Fetched]]

#: (url, request headers, body) → response. Raises A2AError when there is none.
Post = Callable[[str, Mapping[str, str], bytes], Awaitable[Fetched]]

#: (method, url, request headers, body) → response. Raises A2AError when there is none.
Exchange = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[Fetched]]

GROUP = "a2a_bridge.bindings"
PACKAGE = "a2a_bridge_transports"


def module_name(kind: str) -> str:
    """The folder name of a kind: "HTTP+JSON" → "http_json"."""
    return re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")


def find(kind: str) -> Binding[Any]:
    """The binding of a kind: the folder of that name, else an entry point of that name. Raises LookupError
    with the known names, BrokenExtensionError for an entry point that cannot be loaded.
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
            loaded = load(point, f"the transport {point.name!r}")
            return cast("Binding[Any]", getattr(loaded, "BINDING", loaded))
    raise LookupError(f"no binding {kind!r}; known: {', '.join(names())}")


def names() -> list[str]:
    """Kinds that can be found, the in-tree ones first."""
    own = ["JSONRPC", "HTTP+JSON", "GRPC"]
    return own + sorted(point.name for point in entry_points(group=GROUP))


class ApplicationHost(DocumentHost, Protocol):
    """A host that is an ASGI application instead of a listener."""

    #: whether the server below sends HTTP trailers, as gRPC needs; None before the first request
    trailers: bool | None
    #: the cards that a caller at a base URL gets, once the application has started, by the name of the agent;
    #: "" for the only one
    cards: Callable[[str], Mapping[str, hub.AgentCard]] | None
    #: True once the server has begun to drain
    draining: bool
    #: the listener for operators, once the application has started; None without one
    admin: ListenAddress | None

    def retire(self) -> None:
        """Begins to drain."""


def http_host(address: ListenAddress, options: HostOptions) -> DocumentHost:
    """An HTTP listener without a binding. Raises TypeError, ValueError for options that it cannot use."""
    return cast("DocumentHost", importlib.import_module(f"{PACKAGE}._http.host").HttpHost(address, options))


def asgi_host(
    options: HostOptions,
    *,
    startup: Callable[[], Awaitable[None]] | None = None,
    close: Callable[[float], Awaitable[None]] | None = None,
    grace: float = 10.0,
) -> ApplicationHost:
    """A host that is an ASGI application. startup: called once before the first request, or at the lifespan's
    startup. close: called with `grace` (seconds) at the end of the lifespan.
    """
    module = importlib.import_module(f"{PACKAGE}._http.asgi")
    return cast("ApplicationHost", module.AsgiHost(options, startup=startup, close=close, grace=grace))


def http_site(
    host: Any,
    options: HostOptions,
    prefix: str,
    names: tuple[str, ...],
    started: Callable[[], Awaitable[None]],
    *,
    at_root: bool = False,
) -> ApplicationHost:
    """The part of an HTTP host that belongs to one of several agents: see `_http.mounts.Site`."""
    module = importlib.import_module(f"{PACKAGE}._http.mounts")
    return cast("ApplicationHost", module.Site(host, options, prefix, names, started, at_root=at_root))


def grpc_attach(
    service: Service,
    server: Any,
    *,
    health: bool,
    reflection: bool,
    rejection: Callable[[], A2AError | None] | None = None,
    authenticate: Authenticate | None = None,
    permit: Permit | None = None,
) -> None:
    """Adds the gRPC service of every known version to a grpc.aio server of the application. rejection (for
    the health service), authenticate, permit: see HostOptions.
    """
    module = importlib.import_module(f"{PACKAGE}.grpc.host")
    options = HostOptions(rejection=rejection, authenticate=authenticate, permit=permit)
    module.add_to_server(service, server, KNOWN, options, health=health, reflection=reflection)


def http_fetch(options: DialOptions) -> AbstractAsyncContextManager[Fetch]:
    """A Fetch over the HTTP session of the transports, for cards. It follows no redirect."""
    session = importlib.import_module(f"{PACKAGE}._http.session")
    return cast("AbstractAsyncContextManager[Fetch]", session.fetcher(options))


def http_exchange(options: DialOptions) -> AbstractAsyncContextManager[Exchange]:
    """An Exchange over the HTTP session of the transports, for requests as they are: it adds neither
    `options.parameters` nor headers of A2A, and follows no redirect.
    """
    session = importlib.import_module(f"{PACKAGE}._http.session")
    return cast("AbstractAsyncContextManager[Exchange]", session.open_exchange(options))


@asynccontextmanager
async def http_post(options: DialOptions, resolve: Resolve | None = None) -> AsyncIterator[Post]:
    """A Post over an HTTP session of the transports, for webhooks. It follows no redirect.

    The session is opened with the first post: servers that never post need no HTTP client. resolve: resolves
    every host, literal addresses included; then no proxy is used, and responses have no body.
    """
    opening = asyncio.Lock()
    opened: Post | None = None
    async with AsyncExitStack() as stack:

        async def post(url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
            nonlocal opened
            if opened is None:
                async with opening:
                    if opened is None:
                        # Importing an HTTP client takes long: other requests are served meanwhile.
                        name = f"{PACKAGE}._http.session"
                        session = await asyncio.to_thread(importlib.import_module, name)
                        posting: AbstractAsyncContextManager[Post] = session.poster(options, resolve)
                        opened = await stack.enter_async_context(posting)
            return await opened(url, headers, body)

        yield post
