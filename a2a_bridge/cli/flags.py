"""The flags that several commands share. `declared.py` says how flags are declared.

Rules:
1. A command takes one object of a class of flags, and `with_flags` gives the command an option for each of
   its fields. So a new flag is one new field.
2. `--help` lists the flags of the most derived class first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

# Commands import these from here.
from a2a_bridge.cli.declared import flag as flag  # noqa: PLC0414
from a2a_bridge.cli.declared import table
from a2a_bridge.cli.rule_settings import RuleSettings
from a2a_bridge.cli.upstream_flags import ReachFlags
from a2a_bridge.cli.with_flags import with_flags as with_flags  # noqa: PLC0414


class Output(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The format of data on stdout."""

    TEXT = "text"
    JSON = "json"


class ServerKind(str, Enum):  # noqa: UP042
    """The server that listens."""

    BUILTIN = "builtin"
    ENVOY = "envoy"


class LoopKind(str, Enum):  # noqa: UP042
    """The event loop."""

    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class ClientCertificate(str, Enum):  # noqa: UP042
    """Whether callers need a client certificate."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class GrpcUrlForm(str, Enum):  # noqa: UP042
    """The form of gRPC addresses in the card; see `cards.GrpcUrls`."""

    BOTH = "both-in-0.x"
    URL_LAST = "url-last-in-0.x"
    BARE = "bare"
    HTTP_IN_0_X = "http-in-0.x"
    HTTP = "http"


class FileSpelling(str, Enum):  # noqa: UP042
    """Whether an agent of 0.x gets base64 text where a2a.v1 has bytes."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    @property
    def base64(self) -> bool | None:
        """The value for DialOptions."""
        return None if self is FileSpelling.AUTO else self is FileSpelling.ALWAYS


class LogLevel(str, Enum):  # noqa: UP042
    """The level of the log on stderr."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


class LogFormat(str, Enum):  # noqa: UP042
    """The format of the log on stderr."""

    TEXT = "text"
    JSON = "json"


class TracingMode(str, Enum):  # noqa: UP042
    """Whether calls are traced."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """How a command prints its result."""

    output: Output = flag(Output.TEXT, "Output format on stdout.", None, "-o", "--output")


@dataclass(frozen=True, kw_only=True)
class StoreKeyFlags:
    """The keys of a store."""

    store_key: str = flag(
        "",
        "Keys that encrypt credentials in the store, newest first.",
        "KEY,…|@FILE",
        group="Store",
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class BridgeKeyFlags:
    """The key of bridges in a chain."""

    bridge_key: str = flag(
        "",
        "Shared key of chained bridges; protects content that a version between them cannot express.",
        "KEY|@FILE",
        variable="KEY",
        group="Protocol",
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class HttpFlags:
    """How a URL is fetched."""

    connect_timeout: float = flag(
        10.0, "Time limit for connecting.", "SECONDS", least=0.001, group="Upstream"
    )
    header: list[str] | None = flag(
        None,
        "Send this header (gRPC: metadata); may be repeated.",
        "'NAME: VALUE'|'NAME: @FILE'",
        "-H",
        "--header",
        variable="",
        group="Upstream",
        common=True,
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class DialFlags(HttpFlags):
    """How a remote agent is found and connected to."""

    exact: bool = flag(
        False, "Use the card at this path only, not the one at the root of the host.", group="Upstream"
    )
    credentials_for: list[str] | None = flag(
        None,
        "Send -H to this origin of the card too, and allow it to be a private address; may be repeated.",
        "ORIGIN",
        group="Upstream",
    )
    trust_card_urls: bool = flag(
        False, "Use the URLs of the card as they are, private addresses included.", group="Upstream"
    )
    cacert: Path | None = flag(
        None,
        "PEM file of trusted certificate authorities; default: those of the system.",
        "FILE",
        group="Upstream",
    )
    insecure: bool = flag(False, "Do not verify certificates (HTTP only).", group="Upstream")
    cert: Path | None = flag(None, "Client certificate (PEM, with its chain).", "FILE", group="Upstream")
    cert_key: Path | None = flag(
        None,
        "Private key of --cert, if it is not in the same file.",
        "FILE",
        "--key",
        "--cert-key",
        group="Upstream",
    )
    grpc_tls: bool | None = flag(
        None,
        "Use TLS for gRPC to the agent, or not; default: by the scheme, and TLS for port 443.",
        None,
        "--grpc-tls/--grpc-plaintext",
        group="Upstream",
    )


@dataclass(frozen=True, kw_only=True)
class AgentFlags(DialFlags):
    """How messages are sent to a remote agent."""

    a2a_version: str = flag(
        "",
        "Protocol version to use with the agent; default: the first of the card.",
        "VERSION",
        group="Upstream",
    )
    peer: str = flag(
        "", "The SDK of the agent, if it is not recognised; see `peers`.", "NAME", group="Upstream"
    )
    base64_files: FileSpelling = flag(
        FileSpelling.AUTO,
        "Send files as base64 text to agents of 0.x over gRPC and HTTP+JSON; auto: as --peer says.",
        group="Upstream",
    )


@dataclass(frozen=True, kw_only=True)
class EdgeFlags:
    """Who may call: see `cli/edge.py`."""

    api_keys: Path | None = flag(
        None,
        "Identify callers by the API keys in this file; `a2a-bridge keys create` makes them.",
        "FILE",
        group="Security",
        common=True,
    )
    api_key_header: str = flag(
        "X-API-Key",
        "Header, and in lower case the gRPC metadata, with the API key.",
        "NAME",
        group="Security",
    )
    jwt_issuer: str = flag(
        "",
        "Identify callers by JWTs of this issuer (OpenID Connect, OAuth 2).",
        "URL",
        group="Security",
        common=True,
    )
    jwt_audience: list[str] | None = flag(
        None,
        "Audience that a JWT has to name; may be repeated, one of them is enough.",
        "AUDIENCE",
        group="Security",
        common=True,
    )
    jwt_jwks: str = flag(
        "", "Keys of the issuer; default: from its discovery document.", "URL|FILE", group="Security"
    )
    jwt_algorithms: str = flag(
        "",
        "Accepted signature algorithms; default: RS*, PS*, ES256, ES384 and EdDSA.",
        "NAME,…",
        group="Security",
    )
    jwt_claim: str = flag("sub", "Claim that names the caller.", "NAME", group="Security")
    jwt_cacert: Path | None = flag(
        None,
        "PEM file of authorities for the issuer's https; default: those of the system.",
        "FILE",
        group="Security",
    )
    streams_outlive_tokens: bool = flag(
        False, "Open streams go on after the JWT of their caller has expired.", group="Security"
    )
    proxy_user_header: str = flag(
        "",
        "Identify callers by this header of the proxies in --forwarded-allow-ips.",
        "NAME",
        group="Security",
    )
    allow_unauthenticated: bool = flag(
        False,
        "Something in front of this server checks the callers, or nobody has to.",
        group="Security",
    )
    middleware: list[str] | None = flag(
        None,
        "Factory of middleware (service → service), called without arguments; may be repeated.",
        "FILE:NAME|MODULE:NAME",
        group="Security",
    )


@dataclass(frozen=True, kw_only=True)
class CardTrustFlags:
    """Which signatures of an agent's card are trusted."""

    card_keys: list[str] | None = flag(
        None,
        "Keys (JWKS) that verify the agent's signed card; may be repeated.",
        "FILE|URL",
        group="Security",
    )
    card_jku_host: list[str] | None = flag(
        None,
        "Allow signatures of the card to name keys at this host, over https; may be repeated.",
        "HOST",
        group="Security",
    )
    require_signed_card: bool = flag(
        False, "Reject a card without a valid signature, at the start and later.", group="Security"
    )


@dataclass(frozen=True, kw_only=True)
class UpstreamFlags(AgentFlags, CardTrustFlags, ReachFlags):
    """How a gateway calls one agent."""

    card: Path | None = flag(None, "Card of the agent, if the agent serves none.", "FILE", group="Upstream")
    binding: str = flag(
        "",
        "Binding to use with the agent; default: the first of the card.",
        "BINDING",
        group="Upstream",
        aliases=("--transport",),
    )
    forward: list[str] | None = flag(
        None, "Pass on this header of the caller too; may be repeated.", "NAME", variable="", group="Upstream"
    )
    silence_timeout: float = flag(
        0.0,
        "Time limit for a call without an answer or event of the agent; 0: none.",
        "SECONDS",
        least=0,
        group="Limits",
    )


@dataclass(frozen=True, kw_only=True)
class ConfigFlags:
    """The configuration file of a command."""

    config: Path | None = flag(
        None,
        "Read options from this file (TOML); flags and variables outweigh it.",
        "FILE",
        group="Configuration",
        common=True,
        in_file=False,
    )
    reload: bool = flag(
        False,
        "Also reload --config when the file changes, not only on SIGHUP.",
        group="Configuration",
        in_file=False,
    )
    print_config: bool = flag(
        False,
        "Print the effective options as a configuration file and exit.",
        variable="",
        group="Configuration",
        in_file=False,
    )


@dataclass(frozen=True, kw_only=True)
class ServerFlags(BridgeKeyFlags, StoreKeyFlags, EdgeFlags, ConfigFlags):
    """The flags that `serve` and `gateway` share: listeners, card, limits, stores, process."""

    http: str = flag(
        "127.0.0.1:8080",
        "Listen here for JSON-RPC and HTTP+JSON; port 0 takes a free port.",
        "HOST:PORT",
        group="Listen",
        common=True,
    )
    grpc: str = flag(
        "127.0.0.1:50051",
        "Listen here for gRPC; port 0 takes a free port.",
        "HOST:PORT",
        group="Listen",
        common=True,
    )
    server: ServerKind = flag(
        ServerKind.BUILTIN,
        "builtin: one port for HTTP, one for gRPC; envoy: one port for both (extra `envoy`).",
        group="Listen",
    )
    listen: str = flag(
        "",
        "Envoy: listen here for every binding; port 0 takes a free port. Default: 127.0.0.1:8080.",
        "HOST:PORT",
        group="Listen",
    )
    ssl_certfile: Path | None = flag(
        None,
        "Serve HTTP and gRPC with TLS, with this certificate and its chain (PEM).",
        "FILE",
        group="Security",
        common=True,
    )
    ssl_keyfile: Path | None = flag(
        None, "Private key of --ssl-certfile, if it is not in the same file.", "FILE", group="Security"
    )
    ssl_ca_certs: Path | None = flag(
        None, "Ask callers for a client certificate of these authorities (PEM).", "FILE", group="Security"
    )
    ssl_cert_reqs: ClientCertificate = flag(
        ClientCertificate.REQUIRED,
        "Whether --ssl-ca-certs rejects callers without a certificate; optional: not over HTTP.",
        group="Security",
    )
    print_envoy_config: bool = flag(
        False, "Print the configuration of Envoy and exit.", variable="", group="Listen", in_file=False
    )
    no_http: bool = flag(False, "Do not listen for HTTP.", group="Listen")
    no_grpc: bool = flag(False, "Do not listen for gRPC.", group="Listen")
    #: without 0.1, which needs memory for the ids of its callers
    versions: str = flag(
        "1.0,0.3,0.2.5",
        "Protocol versions to serve: 1.0, 0.3, 0.2.5, 0.1, and those of installed extensions.",
        "VERSION,…",
        group="Protocol",
    )
    lenient_versions: bool = flag(
        False, "Accept methods of another version than the one the caller declares.", group="Protocol"
    )
    public_url: str = flag("", "The public URL, for the card.", "URL", group="Card", common=True)
    public_grpc: str = flag("", "The public gRPC address, for the card.", "HOST:PORT", group="Card")
    grpc_urls: GrpcUrlForm = flag(
        GrpcUrlForm.BOTH,
        "Form of gRPC addresses in the card: host:port around a URL for readers of 0.x, or another.",
        group="Card",
    )
    advertise: str = flag(
        "",
        "Bindings to list in the card (JSONRPC, HTTP+JSON, GRPC); default: all.",
        "BINDING,…",
        group="Card",
    )
    card_versions: str = flag(
        "",
        "Protocol versions of the card; default: all served versions in one document.",
        "VERSION,…",
        group="Card",
    )
    forwarded_allow_ips: str = flag(
        "", "Trust forwarded headers from these proxies; * for any.", "IP,…", group="Listen"
    )
    card_signing_key: list[Path] | None = flag(
        None,
        "Private key (PEM or JWK) that signs the card; may be repeated, the first one signs.",
        "FILE",
        group="Card",
    )

    lease: float = flag(
        10.0,
        "PostgreSQL: other replicas take over the tasks of a server that is silent for this long.",
        "SECONDS",
        least=1,
        group="Store",
    )
    push_allow: list[str] | None = flag(
        None,
        "Allow webhooks at this private host or network; may be repeated.",
        "HOST|NETWORK",
        group="Push notifications",
    )
    push_signing_key: list[Path] | None = flag(
        None,
        "Private key (PEM or JWK) that signs push notifications; may be repeated, the first one signs.",
        "FILE",
        group="Push notifications",
    )

    # The defaults are those of HostOptions, Limits and StoreOptions, which --version does not load; a test
    # compares them.
    max_body: int = flag(16777216, "Largest request.", "BYTES", least=1, group="Limits")
    max_connections: int = flag(
        10000, "Open connections of each listener; 0: no limit.", "N", least=0, group="Limits"
    )
    max_connection_streams: int = flag(
        1000, "Open streams of one gRPC connection, unary calls included.", "N", least=1, group="Limits"
    )
    max_values: int = flag(
        100000,
        "JSON values in a request, or their equivalent in protobuf; 0: no limit.",
        "N",
        least=0,
        group="Limits",
    )
    max_parts: int = flag(1000, "Parts of a message; 0: no limit.", "N", least=0, group="Limits", live=True)
    max_calls: int = flag(
        10000,
        "Concurrent unary calls of one principal; 0: no limit.",
        "N",
        least=0,
        group="Limits",
        live=True,
    )
    max_streams: int = flag(
        10000, "Open streams of one principal; 0: no limit.", "N", least=0, group="Limits", live=True
    )
    max_memory: int = flag(
        1073741824,
        "Memory for tasks, events, requests and answers; 0: no limit.",
        "BYTES",
        least=0,
        group="Limits",
    )

    usage_file: Path | None = flag(
        None, "Keep call counts in this file across restarts; see `usage`.", "FILE", group="Process"
    )
    usage_listen: str = flag("", "Serve call counts here; see `usage`.", "HOST:PORT", group="Process")
    drain_window: float | None = flag(
        None,
        "After SIGTERM, keep listening this long with failing readiness, so that clients move away.",
        "SECONDS",
        least=0,
        group="Process",
    )
    timeout_graceful_shutdown: float = flag(
        10.0, "Time for running calls to finish after SIGTERM.", "SECONDS", least=0, group="Process"
    )
    workers: int = flag(
        1,
        "Serve from this many processes; each has its own limits and memory.",
        "N",
        least=1,
        group="Process",
    )
    loop: LoopKind = flag(LoopKind.AUTO, "Event loop; auto: uvloop if installed.", group="Process")
    log_level: LogLevel = flag(
        LogLevel.WARNING, "Log level on stderr.", group="Process", common=True, live=True
    )
    log_format: LogFormat = flag(
        LogFormat.TEXT, "Log format on stderr; json: one object a line.", group="Process"
    )
    log_config: Path | None = flag(
        None,
        "Configure logging from this file instead: dictConfig (.json, .toml) or fileConfig (.ini, .conf).",
        "FILE",
        group="Process",
    )
    admin: str = flag(
        "",
        "Serve metrics and probes for operators here; port 0 takes a free port.",
        "HOST:PORT",
        group="Process",
        common=True,
    )
    ui: bool = flag(
        False,
        "Serve a page to call and inspect the agent.",
        group="Process",
        common=True,
    )
    ui_listen: str = flag(
        "127.0.0.1:0",
        "Address of --ui; everyone who has its token can call the agent.",
        "HOST:PORT",
        group="Process",
    )
    tracing: TracingMode = flag(
        TracingMode.AUTO,
        "Trace calls with OpenTelemetry; auto: if the agent configures it; on: as OTEL_… variables say.",
        group="Process",
    )

    rules: tuple[RuleSettings, ...] = table(tuple, "Which callers may use which operations.", live=True)
