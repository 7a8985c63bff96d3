"""Classes of options that are plain values: of servers, engines, stores, streams, callers and client sides.

Rules:
1. A field that `flag` makes is also an option of a command: the command says with `of` that it has it, and
   `taken` gives its value back. Its description, default and limits stand here only.
2. Fields with collaborators (functions, objects, credentials) are added by classes above: `ServeOptions`,
   `HostOptions`, `DialOptions` and `UpstreamOptions` are derived from classes here.
3. `--help` loads this module, so it loads nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from a2a_bridge.core.options import flag

_DAY = 24 * 3600.0

#: whether callers need a certificate of the client authorities
CertReqs = Literal["required", "optional"]

#: how a client proves its identity: `client_secret_basic`, `client_secret_post`, or as the issuer says
ClientMethod = Literal["", "basic", "post"]

#: see `ServeValues.task_access`
TaskAccess = Literal["own", "unowned", "all"]

#: how gRPC interfaces are written in the members of 0.x: as `host:port` around a URL; as both with the URL
#: last; as `host:port` only; or as URL only. `http` writes URLs in the members of 1.0 too, for readers that
#: want all interfaces to be URLs
GrpcUrls = Literal["both-in-0.x", "url-last-in-0.x", "bare", "http-in-0.x", "http"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine treats its tasks. Times in seconds; 0 means no limit."""

    #: time that a cancelled run gets to stop; if it ignores its cancellation, its later events are dropped
    patience: float = 5.0
    #: time that the executor's `cancel` gets to clean up; then the run is stopped without it
    cancel_timeout: float = 30.0
    #: messages that may wait for the run of one task to end, those that are not stored yet included; more are
    #: RESOURCE_EXHAUSTED
    queue: int = 16
    #: more are RESOURCE_EXHAUSTED; tasks that have ended or wait for input do not count
    tasks: int = flag(
        10_000, "Running tasks of one principal, over all tenants; 0: no limit.", "N", least=0, group="Limits"
    )
    #: over all principals; more are RESOURCE_EXHAUSTED. Calls without a tenant are not limited
    tenant_tasks: int = flag(0, "Running tasks of one tenant; 0: no limit.", "N", least=0, group="Limits")
    #: further messages are RESOURCE_EXHAUSTED without a time to wait: begin a new task in the same context.
    #: The agent's own messages count, but are never rejected
    history: int = flag(
        10_000, "Messages of one task; further ones are rejected; 0: no limit.", "N", least=0, group="Limits"
    )
    #: a run that takes longer is stopped, and its task fails
    run_timeout: float = flag(0.0, "Time limit of one run; 0: none.", "SECONDS", least=0, group="Limits")
    #: a run without an event for longer is stopped, and its task fails
    silence_timeout: float = flag(
        0.0, "Time limit for a run without output; 0: none.", "SECONDS", least=0, group="Limits"
    )
    #: a repeated message (same id, same content) gets the result of the first one, without a second run; off
    #: because clients in the field reuse ids
    idempotent_sends: bool = flag(
        False, "Process a message that is sent twice only once, with the same answer.", group="Protocol"
    )


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """How the program of an agent is run: see docs/how-to/serve-a-program.md."""

    #: variables of this process that the program gets, beside a fixed list
    env: tuple[str, ...] = flag(
        (), "Pass this variable on to the program; may be repeated.", "NAME", group="Program"
    )
    #: further runs wait
    concurrency: int = flag(
        16, "Programs at the same time; further calls wait.", "N", least=1, group="Program"
    )
    #: a program that takes longer is stopped, and its task fails; 0 means no limit
    timeout: float = flag(0.0, "Time limit of one program; 0: none.", "SECONDS", least=0, group="Program")
    #: a program that writes more is stopped, and its task fails
    max_output: int = flag(
        16 * 1024 * 1024,
        "Bytes that one program may write, on stdout and in files.",
        "BYTES",
        least=1,
        group="Program",
    )


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of a durable store. Its URL says where it is. Times in seconds."""

    #: longest delay of a change that no caller waits for, so that changes share commits; a crash can lose
    #: changes of this age, which no client has seen
    commit_delay: float = 0.01
    #: time after which a caller that waits for a failing store gets UNAVAILABLE
    ack_timeout: float = 10.0
    #: a stream that resumes later begins with a gap; the task stays
    events_kept: float = flag(
        _DAY,
        "Keep the events of a task this long after its end, for streams that resume.",
        "DAYS",
        least=0,
        group="Store",
    )
    #: None to keep them for ever
    tasks_kept: float | None = flag(
        None, "Delete tasks this long after their end; 0: never.", "DAYS", least=0, group="Store"
    )
    #: time for which ids of messages are kept, for idempotent sends
    sends_kept: float = _DAY
    #: keys that encrypt secrets of push configs, the newest first (see a2a_bridge.push.secrets); empty for no
    #: encryption
    keys: Sequence[str] = field(default=(), repr=False)
    #: a replica without a heartbeat for this long counts as dead
    lease: float = flag(
        10.0,
        "PostgreSQL: other replicas take over the tasks of a server that is silent for this long.",
        "SECONDS",
        least=1,
        group="Store",
    )
    #: bytes of ended tasks in the cache of GetTask; other tasks are read from the database
    cache_bytes: int = 8 << 20
    #: of one process; stores in memory and gateways have it, too
    max_memory: int = flag(
        1 << 30,
        "Memory for tasks, events, requests and answers; 0: no limit.",
        "BYTES",
        least=0,
        group="Limits",
    )
    #: empty for PostgreSQL alone
    cluster: str = flag(
        "",
        "NATS over which replicas on one PostgreSQL talk: nats:// or tls:// addresses.",
        "URL,…",
        group="Store",
        secret=True,
    )
    #: empty for none
    cluster_credentials: str = flag("", "Credentials file (JWT and key) for NATS.", "FILE", group="Store")
    #: empty for the certificates of the system
    cluster_ca: str = flag("", "Certificates to trust for NATS (PEM).", "FILE", group="Store")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one principal; 0: no limit."""

    #: more are RESOURCE_EXHAUSTED; calls that wait for a task count
    calls: int = flag(
        10_000,
        "Concurrent unary calls of one principal; 0: no limit.",
        "N",
        least=0,
        group="Limits",
        live=True,
    )
    #: more are RESOURCE_EXHAUSTED
    streams: int = flag(
        10_000, "Open streams of one principal; 0: no limit.", "N", least=0, group="Limits", live=True
    )
    #: more are INVALID_PARAMS naming `message.parts`
    parts: int = flag(1_000, "Parts of a message; 0: no limit.", "N", least=0, group="Limits", live=True)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How much a gateway keeps of streams, and for how long. Sizes in bytes, times in seconds."""

    #: streams that are kept; beyond this number the stream that was read longest ago is dropped. 0: streams
    #: are neither shared nor resumed
    tasks: int = 1000
    #: events of one stream that are kept for readers that resume; before them is a gap
    events: int = 1024
    #: bytes of these events
    size: int = 1 << 20
    #: largest task of which a copy is kept, for snapshots
    task_size: int = 4 << 20
    #: bytes of all streams together
    total: int = flag(
        64 << 20,
        "Memory for events of streams, for readers that resume or join; 0: keep none.",
        "BYTES",
        least=0,
        group="Limits",
    )
    #: events by which the agent may be ahead of the fastest reader; then reading from the agent stops
    window: int = 64
    #: bytes by which the agent may be ahead of the fastest reader
    window_size: int = 256 << 10
    linger: float = flag(
        30.0,
        "Keep the stream of an agent that cannot resume open this long without readers.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
    #: after that the agent is asked again before the caller joins a stream or gets a replay
    revalidate: float = flag(
        60.0,
        "Cache the agent's permission for a caller to join a stream this long; 0: ask each time.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
    #: attempts in a row to subscribe again after a break; then the readers get the error
    attempts: int = 8
    #: pause before the second attempt, doubled before each further one
    pause: float = 0.1
    #: longest pause between attempts
    longest_pause: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamValues:
    """The plain values of `UpstreamOptions`. Times in seconds."""

    retries: int = flag(
        2,
        "Repetitions of a call that did not reach the agent, and of a read that it was not ready for.",
        "N",
        least=0,
        group="Upstream",
    )
    #: repetitions as a share of all calls, and how many more a few calls may cause
    retry_share: float = 0.2
    retry_burst: float = 10.0
    #: failures to connect in a row after which an endpoint gets nothing for a pause
    trip: int = 5
    #: the first and the longest of these pauses
    pause: float = 1.0
    longest_pause: float = 10.0
    #: http(s) URLs, or `host:port` of gRPC (see `gateway.destinations`)
    endpoints: tuple[str, ...] = flag(
        (),
        "Further address of the agent, to share the calls with; may be repeated.",
        "URL|HOST:PORT",
        group="Upstream",
    )
    affinity: bool = flag(
        True,
        "Send calls about a task to the endpoint that has it.",
        None,
        "--affinity/--no-affinity",
        group="Upstream",
    )
    card_refresh: float = flag(
        300.0,
        "Read the card of the agent again after this time at the latest; 0: never.",
        "SECONDS",
        least=0,
        group="Upstream",
    )


@dataclass(frozen=True, slots=True)
class HostValues:
    """The plain values of `HostOptions`. Sizes in bytes, times in seconds."""

    #: a larger request is REQUEST_TOO_LARGE with `limit` in the metadata
    max_body: int = flag(16 << 20, "Largest request.", "BYTES", least=1, group="Limits")
    #: more are REQUEST_TOO_LARGE with `maxValues` in the metadata, before the request is decoded
    max_values: int = flag(
        100_000,
        "JSON values in a request, or their equivalent in protobuf; 0: no limit.",
        "N",
        least=0,
        group="Limits",
    )
    #: largest header block or metadata: beyond it 431 over HTTP, 414 for a longer URL; grpcio rejects larger
    #: metadata itself
    max_header: int = 16 * 1024
    #: time limit for the headers of a request, then the connection is closed; a body slower than 1 KiB/s
    #: after the headers is INVALID_REQUEST
    header_timeout: float = 20.0
    #: silence on a stream after which a keep-alive is sent
    keep_alive: float = 15.0
    #: a method or a path of another version counts as well
    lenient_versions: bool = flag(
        False, "Accept methods of another version than the one the caller declares.", group="Protocol"
    )
    backlog: int = 1024
    #: further connections are closed at once, with a line in the log
    max_connections: int = flag(
        10_000, "Open connections of each listener; 0: no limit.", "N", least=0, group="Limits"
    )
    #: after its first call, a client knows the limit and delays further calls until another one has ended;
    #: earlier calls beyond it are UNAVAILABLE. A second channel has streams of its own
    max_connection_streams: int = flag(
        1000, "Open streams of one gRPC connection, unary calls included.", "N", least=1, group="Limits"
    )
    #: readiness fails and responses close their connections meanwhile. None: half a second, and only while
    #: connections are open
    drain_window: float | None = flag(
        None,
        "After SIGTERM, keep listening this long with failing readiness, so that clients move away.",
        "SECONDS",
        least=0,
        group="Process",
    )
    #: "*" for any
    trust_forwarded: tuple[str, ...] = flag(
        (), "Trust forwarded headers from these proxies; * for any.", "IP,…", group="Listen"
    )


@dataclass(frozen=True, slots=True)
class ServerTlsValues:
    """The PEM files of a listener with TLS: see `bindings.server_tls.ServerTls`. Empty: no such file."""

    certificate: str = flag(
        "",
        "Serve HTTP and gRPC with TLS, with this certificate and its chain (PEM).",
        "FILE",
        group="Security",
        common=True,
    )
    key: str = flag(
        "", "Private key of --ssl-certfile, if it is not in the same file.", "FILE", group="Security"
    )
    client_ca: str = flag(
        "", "Ask callers for a client certificate of these authorities (PEM).", "FILE", group="Security"
    )
    cert_reqs: CertReqs = flag(
        "required",
        "Whether --ssl-ca-certs rejects callers without a certificate. optional: HTTP accepts them.",
        group="Security",
    )


@dataclass(frozen=True, slots=True)
class TlsFileValues:
    """The plain values of `TlsFiles`. Empty: no such file."""

    ca: str = flag(
        "",
        "PEM file of trusted certificate authorities; default: those of the system.",
        "FILE",
        group="Upstream",
    )
    certificate: str = flag("", "Client certificate (PEM, with its chain).", "FILE", group="Upstream")
    key: str = flag(
        "",
        "Private key of --cert, if it is not in the same file.",
        "FILE",
        group="Upstream",
    )
    #: whether the server certificate is verified; gRPC always verifies it
    verify: bool = True


@dataclass(frozen=True, slots=True)
class CardTrustValues:
    """Which signatures of an agent's card are trusted: see `CardTrust`."""

    keys: tuple[str, ...] = flag(
        (), "Keys (JWKS) that verify the agent's signed card; may be repeated.", "FILE|URL", group="Security"
    )
    jku_hosts: tuple[str, ...] = flag(
        (),
        "Allow signatures of the card to name keys at this host, over https; may be repeated.",
        "HOST",
        group="Security",
    )
    required: bool = flag(
        False, "Reject a card without a valid signature, at the start and later.", group="Security"
    )


@dataclass(frozen=True, slots=True)
class JwtValues:
    """Which JWTs identify callers: see `BearerTokens`, and `KeySetSource` for their keys."""

    issuer: str = flag(
        "",
        "Identify callers by JWTs of this issuer (OpenID Connect, OAuth 2).",
        "URL",
        group="Security",
        common=True,
    )
    audience: tuple[str, ...] = flag(
        (),
        "Audience that a JWT has to name; may be repeated, one of them is enough.",
        "AUDIENCE",
        group="Security",
        common=True,
    )
    jwks: str = flag(
        "", "Keys of the issuer; default: from its discovery document.", "URL|FILE", group="Security"
    )
    #: empty: `ALGORITHMS`
    algorithms: tuple[str, ...] = flag(
        (),
        "Accepted signature algorithms; default: RS*, PS*, ES256, ES384 and EdDSA.",
        "NAME,…",
        group="Security",
    )
    claim: str = flag("sub", "Claim that names the caller.", "NAME", group="Security")
    ca: str = flag(
        "",
        "PEM file of authorities for the issuer's https; default: those of the system.",
        "FILE",
        group="Security",
    )
    streams_outlive: bool = flag(
        False, "Open streams go on after the JWT of their caller has expired.", group="Security"
    )


@dataclass(frozen=True, slots=True)
class TokenEndpointValues:
    """Where a gateway gets tokens for its agent: see `TokenEndpoint`, which reads the secret itself."""

    url: str = flag("", "Token endpoint (OAuth 2) of the agent's identity provider.", "URL", group="Upstream")
    issuer: str = flag(
        "",
        "Identity provider of the agent, whose discovery document names the token endpoint.",
        "URL",
        group="Upstream",
    )
    client_id: str = flag("", "Client id of this gateway at the token endpoint.", "ID", group="Upstream")
    #: empty: as the issuer says, else `basic`
    method: ClientMethod = flag(
        "",
        "How the secret is sent to the token endpoint; auto: as the issuer says, else basic.",
        group="Upstream",
    )


@dataclass(frozen=True, slots=True)
class GrantValues:
    """The token that a gateway asks for: see `ClientCredentials` and `TokenExchange`."""

    scope: str = flag("", "Scopes of the token, separated by spaces.", "SCOPES", group="Upstream")
    #: as providers beside the standard name it
    audience: str = flag("", "Audience of the token.", "AUDIENCE", group="Upstream")
    resource: str = flag("", "Resource of the token (RFC 8707).", "URI", group="Upstream")


@dataclass(frozen=True, slots=True)
class PushValues:
    """The plain values of `PushOptions`."""

    #: hosts, addresses and networks that the policy would reject, but may be posted to: see `Allowed.parse`
    allow: tuple[str, ...] = flag(
        (),
        "Allow webhooks at this private host or network; may be repeated.",
        "HOST|NETWORK",
        group="Push notifications",
    )
    #: the keys themselves (PEM or JWK), all of which are published
    signing_keys: tuple[str, ...] = flag(
        (),
        "Private key (PEM or JWK) that signs push notifications; may be repeated, the first one signs.",
        "FILE",
        group="Push notifications",
        shown=False,
    )


@dataclass(frozen=True, slots=True)
class DialValues:
    """The plain values of `DialOptions`. Times in seconds."""

    #: deadline of a unary call whose context has none; None: no limit. Streams have no default deadline
    timeout: float | None = 60.0
    connect_timeout: float = flag(
        10.0, "Time limit for connecting.", "SECONDS", least=0.001, group="Upstream"
    )
    #: time, and at most a quarter of the call's own, after which a call that waits for its connection fails,
    #: because there is another interface to try. The connection is made all the same, for later calls. None:
    #: calls wait as long as it takes
    connect_patience: float | None = None
    #: connections to one interface over gRPC, with 50 calls and streams each, or half of the streams that the
    #: server allows if that is less; further calls are RESOURCE_EXHAUSTED. Over HTTP each call has a
    #: connection
    max_upstream_connections: int = flag(
        201, "Connections to an interface over gRPC, with 50 calls each.", "N", least=1, group="Limits"
    )
    #: silence on a stream after which the peer counts as dead; keep-alives are not silence
    idle_timeout: float = 120.0
    #: counts since the request has been sent, and ends the call with DEADLINE_EXCEEDED; keep-alives do not
    #: count as an event
    silence_timeout: float = flag(
        0.0,
        "Time limit for a call without an answer or event of the agent; 0: none.",
        "SECONDS",
        least=0,
        group="Limits",
    )
    #: the card at the root of the host is not asked for
    exact: bool = flag(
        False, "Use the card at this path only, not the one at the root of the host.", group="Upstream"
    )
    #: origins (URLs or `host:port`) that get all parameters
    credentials_for: frozenset[str] = flag(
        frozenset(),
        "Send -H to this origin of the card too, and allow it to be a private address; may be repeated.",
        "ORIGIN",
        group="Upstream",
    )
    trust_card_urls: bool = flag(
        False, "Use the URLs of the card as they are, private addresses included.", group="Upstream"
    )
    grpc_tls: bool | None = flag(
        None,
        "Use TLS for gRPC to the agent, or not; default: by the scheme, and TLS for port 443.",
        None,
        "--grpc-tls/--grpc-plaintext",
        group="Upstream",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeValues:
    """The plain values of `ServeOptions`."""

    #: in place of the listening address
    public_url: str = flag("", "The public URL, for the card.", "URL", group="Card", common=True)
    #: in place of the listening address
    public_grpc: str = flag("", "The public gRPC address, for the card.", "HOST:PORT", group="Card")
    #: of hosted agents only
    push: bool = flag(
        True,
        "Send push notifications, if the agent declares them.",
        None,
        "--push/--no-push",
        group="Push notifications",
    )
    #: the agent posts notifications there. Empty: no relay, the agent posts to the receivers itself
    push_relay: str = flag(
        "",
        "Relay push notifications in the version of their receivers; URL of this gateway.",
        "URL",
        group="Push notifications",
    )
    #: the adapters are needed, with their extra `mcp`
    mcp: bool = flag(False, "Serve the skills as tools of MCP, too: /mcp.", group="Listen", common=True)
    #: the adapters are needed, with their extra `openai`
    openai: bool = flag(
        False, "Serve the agent as a model of OpenAI's API, too: /v1.", group="Listen", common=True
    )
    #: without it, a card that demands credentials which nothing here checks is an error
    allow_unauthenticated: bool = flag(
        False, "Something in front of this server checks the callers, or nobody has to.", group="Security"
    )
    grpc_urls: GrpcUrls = flag(
        "both-in-0.x",
        "Form of gRPC addresses in the card: host:port around a URL for readers of 0.x, or another.",
        group="Card",
    )
    #: empty: all
    advertise: tuple[str, ...] = flag(
        (),
        "Bindings to list in the card (JSONRPC, HTTP+JSON, GRPC); default: all.",
        "BINDING,…",
        group="Card",
    )
    #: empty: all
    card_versions: tuple[str, ...] = flag(
        (),
        "Protocol versions of the card; default: all served versions in one document.",
        "VERSION,…",
        group="Card",
    )
    #: the tasks that a caller of a gateway reaches, if the agent cannot tell callers apart (`keeps_owners`):
    #: "own": tasks that the caller began; "unowned": also tasks without a known owner; "all": not checked
    task_access: TaskAccess = flag(
        "own", "Tasks that a caller reaches, if the agent cannot tell callers apart.", group="Authentication"
    )
    grace: float = flag(
        10.0, "Time for running calls to finish after SIGTERM.", "SECONDS", least=0, group="Process"
    )
