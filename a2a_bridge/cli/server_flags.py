"""The flags of `serve` and `gateway`; access rules and agents in configuration files. `--help` loads this
module, so it imports nothing but declarations of flags.

Rules of `[agents.NAME]`:
1. An option in the table of an agent is for that agent only, and outweighs the same option of the command,
   wherever that comes from. The command decides all other options.
2. A file with one agent does the same as the argument of the command, and serves it below /agents/NAME, too.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from a2a_bridge.cli.flags import AgentFlags, BridgeKeyFlags, CardTrustFlags, StoreKeyFlags
from a2a_bridge.cli.values import usage_error
from a2a_bridge.core.option_classes import (
    DialValues,
    EngineOptions,
    GrantValues,
    HostValues,
    JwtValues,
    Limits,
    ProgramOptions,
    PushValues,
    ReplayOptions,
    ServerTlsValues,
    ServeValues,
    StoreOptions,
    TokenEndpointValues,
    UpstreamValues,
)
from a2a_bridge.core.options import Table, flag, of, required, table

#: the operations and groups that `auth.rules` knows. They are repeated here because a supervisor reads rules,
#: too, and `auth.rules` loads protobuf. A test compares both
OPERATIONS = frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
        "push",
        "read",
        "send",
    }
)

_Flags = TypeVar("_Flags", bound="ServerFlags")

#: where Envoy listens by default
_LISTEN = "127.0.0.1:8080"


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
class EdgeFlags:
    """Who may call: see `cli/security.py`."""

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
    jwt_issuer: str = of(JwtValues, "issuer")
    jwt_audience: list[str] | None = of(JwtValues, "audience", default=None, needs="jwt_issuer")
    jwt_jwks: str = of(JwtValues, "jwks", needs="jwt_issuer")
    jwt_algorithms: str = of(JwtValues, "algorithms", default="", needs="jwt_issuer")
    jwt_claim: str = of(JwtValues, "claim", needs="jwt_issuer")
    jwt_cacert: Path | None = of(JwtValues, "ca", default=None, needs="jwt_issuer")
    streams_outlive_tokens: bool = of(JwtValues, "streams_outlive", needs="jwt_issuer")
    proxy_user_header: str = flag(
        "",
        "Identify callers by this header of the proxies in --forwarded-allow-ips.",
        "NAME",
        group="Security",
    )
    allow_unauthenticated: bool = of(ServeValues, "allow_unauthenticated")
    middleware: list[str] | None = flag(
        None,
        "Factory of middleware (service → service), called without arguments; may be repeated.",
        "FILE:NAME|MODULE:NAME",
        group="Security",
    )


@dataclass(frozen=True, kw_only=True)
class ConfigFlags:
    """The configuration file of a command."""

    config: Path | None = flag(
        None,
        "Options of this TOML file; flags and variables outweigh it.",
        "FILE",
        group="Configuration",
        common=True,
        in_file=False,
    )
    reload: bool = flag(
        False,
        "Also reload --config when the file changes, not only on SIGHUP. `serve` without --config: reload the"
        " agent when its code changes.",
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
class RuleSettings(Table):
    """One `[[rules]]`: allows calls, as `auth.rules.Rule` does. An empty member allows everything. Raises
    ValueError for a rule without members: it is more often an unfinished rule than the wish of somebody.
    """

    operations: tuple[str, ...] = table(
        tuple, "Names such as SendMessage, or push, read and send for groups of them."
    )
    scopes: tuple[str, ...] = table(tuple, "The caller needs all of these.")
    principals: tuple[str, ...] = table(tuple, "Names or patterns (*, ?) of callers.")
    agents: tuple[str, ...] = table(tuple, "Names of the agents that the rule is for.")

    def __post_init__(self) -> None:
        if not (self.operations or self.scopes or self.principals or self.agents):
            raise ValueError('says nothing, and would allow everything; principals = ["*"] says that')

    def unknown(self, agents: Collection[str]) -> Iterator[tuple[str, str]]:
        """The members with names that do not exist, each with the problem. agents: the names of the file."""
        for name in self.operations:
            if name not in OPERATIONS:
                yield "operations", f"{name!r} is none of {', '.join(sorted(OPERATIONS))}"
        if self.agents and not any(fnmatchcase(name, one) for name in agents for one in self.agents):
            known = ", ".join(agents) or "none, because there are no tables [agents.NAME]"
            yield "agents", f"none of the agents here: {known}"


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
    ssl_certfile: Path | None = of(ServerTlsValues, "certificate", default=None)
    ssl_keyfile: Path | None = of(ServerTlsValues, "key", default=None, needs="ssl_certfile")
    ssl_ca_certs: Path | None = of(ServerTlsValues, "client_ca", default=None, needs="ssl_certfile")
    ssl_cert_reqs: ClientCertificate = of(
        ServerTlsValues, "cert_reqs", default=ClientCertificate.REQUIRED, needs="ssl_ca_certs"
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
    lenient_versions: bool = of(HostValues, "lenient_versions")
    mcp: bool = of(ServeValues, "mcp")
    openai: bool = of(ServeValues, "openai")
    public_url: str = of(ServeValues, "public_url")
    public_grpc: str = of(ServeValues, "public_grpc")
    grpc_urls: GrpcUrlForm = of(ServeValues, "grpc_urls", default=GrpcUrlForm.BOTH)
    advertise: str = of(ServeValues, "advertise", default="")
    card_versions: str = of(ServeValues, "card_versions", default="")
    forwarded_allow_ips: str = of(HostValues, "trust_forwarded", default="")
    card_signing_key: list[Path] | None = flag(
        None,
        "Private key (PEM or JWK) that signs the card; may be repeated, the first one signs.",
        "FILE",
        group="Card",
    )

    lease: float = of(StoreOptions, "lease")
    push_allow: list[str] | None = of(PushValues, "allow", default=None)
    push_signing_key: list[Path] | None = of(PushValues, "signing_keys", default=None)

    max_body: int = of(HostValues, "max_body")
    max_connections: int = of(HostValues, "max_connections")
    max_connection_streams: int = of(HostValues, "max_connection_streams")
    max_values: int = of(HostValues, "max_values")
    max_parts: int = of(Limits, "parts")
    max_calls: int = of(Limits, "calls")
    max_streams: int = of(Limits, "streams")
    max_memory: int = of(StoreOptions, "max_memory")

    usage_file: Path | None = flag(
        None, "Keep call counts in this file across restarts; see `usage`.", "FILE", group="Process"
    )
    usage_listen: str = flag("", "Serve call counts here; see `usage`.", "HOST:PORT", group="Process")
    drain_window: float | None = of(HostValues, "drain_window")
    timeout_graceful_shutdown: float = of(ServeValues, "grace")
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

    @property
    def envoy_address(self) -> str:
        """HOST:PORT that Envoy listens on; empty if another server listens."""
        return (self.listen or _LISTEN) if self.server is ServerKind.ENVOY else ""

    @property
    def checks_callers(self) -> bool:
        """Whether callers are identified here."""
        return bool(self.api_keys or self.jwt_issuer or self.ssl_ca_certs or self.proxy_user_header)

    @property
    def addresses(self) -> list[tuple[str, str]]:
        """The addresses that callers reach, each with its flag."""
        if self.envoy_address:
            return [(self.envoy_address, "--listen")]
        http = [] if self.no_http else [(self.http, "--http")]
        return http if self.no_grpc else [*http, (self.grpc, "--grpc")]


@dataclass(frozen=True, kw_only=True)
class ServedAgent(Table):
    """One `[agents.NAME]` of `serve`. Raises ValueError unless it has either code or a program."""

    agent: str = flag("", "file.py, file.py:agent or package.module:agent.", "AGENT")
    exec: list[str] | None = flag(
        None, "The program of the agent, and its arguments.", "PROG ARG…", words=True
    )
    name: str = flag("", "Name of the agent, see --name; default: of the table, if it has none.", "NAME")
    description: str = flag("", "Description of the agent; see --description.", "TEXT")
    version: str = flag("", "Version of the agent; see --version.", "VERSION")
    exec_env: list[str] | None = of(ProgramOptions, "env", default=None)
    exec_concurrency: int = of(ProgramOptions, "concurrency")
    exec_timeout: float = of(ProgramOptions, "timeout")
    exec_max_output: int = of(ProgramOptions, "max_output")
    host: str = flag(
        "", "Host name of calls that are for this agent; over gRPC with Envoy only.", "HOST", unique=True
    )
    grpc: str = flag("", "Listen here for gRPC to this agent, for callers of 0.x.", "HOST:PORT")
    public_url: str = flag("", "The public URL of this agent, for its card.", "URL")
    versions: str = flag("", "Protocol versions to serve.", "VERSION,…")
    card: Path | None = flag(None, "Card of an agent that is an object of another framework.", "FILE")
    resume: bool = flag(
        False, "The executor of the a2a-sdk continues from its current task after a restart; see --resume."
    )
    mask_errors: bool = flag(False, "Log the texts of failures of an executor; see --mask-errors.")
    store: str = flag("", "Task store of this agent; see --store.", "URL", secret=True)
    max_tasks: int = of(
        EngineOptions, "tasks", default=0, help="Running tasks of one principal; 0: no limit."
    )
    max_calls: int = of(Limits, "calls", default=0)
    max_streams: int = of(Limits, "streams", default=0)

    def __post_init__(self) -> None:
        if bool(self.agent) == bool(self.exec):
            raise ValueError(
                "needs agent, or exec" if not self.agent else "has agent and exec; each agent has one of them"
            )


@dataclass(frozen=True, kw_only=True)
class ServeFlags(ServerFlags):
    """The flags of `serve`."""

    exec: list[str] | None = flag(
        None,
        "Serve this program: all words up to the next flag of serve.",
        "PROG ARG…",
        group="Program",
        common=True,
        words=True,
    )
    exec_env: list[str] | None = of(ProgramOptions, "env", default=None)
    exec_concurrency: int = of(ProgramOptions, "concurrency")
    exec_timeout: float = of(ProgramOptions, "timeout")
    exec_max_output: int = of(ProgramOptions, "max_output")
    store: str = flag(
        "",
        "Task store: sqlite:///PATH, postgresql://…, or memory:// (lost at exit).",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    keep_tasks: float = of(StoreOptions, "tasks_kept", default=0.0)
    keep_events: float = of(StoreOptions, "events_kept")
    cluster: str = of(StoreOptions, "cluster")
    cluster_credentials: str = of(StoreOptions, "cluster_credentials")
    cluster_ca: str = of(StoreOptions, "cluster_ca")
    push: bool = of(ServeValues, "push")
    name: str = flag(
        "",
        "Name of the agent in its card; default: its own, or that of its file.",
        "NAME",
        group="Card",
        aliases=("--exec-name",),
    )
    description: str = flag(
        "",
        "Description of the agent in its card; default: its own, or the first line of its instructions.",
        "TEXT",
        group="Card",
        aliases=("--exec-description",),
    )
    version: str = flag(
        "",
        "Version of the agent in its card; default: its own, or 1.0.0.",
        "VERSION",
        group="Card",
    )
    card: Path | None = flag(
        None, "Card of an agent that is an executor of the a2a-sdk, or an object of a framework.", "FILE"
    )
    resume: bool = flag(
        False,
        "After a restart call an executor of the a2a-sdk again, which continues from its current task.",
    )
    mask_errors: bool = flag(
        False, "Log the texts of failures of an executor of the a2a-sdk, and show callers none of them."
    )
    run_timeout: float = of(EngineOptions, "run_timeout")
    silence_timeout: float = of(EngineOptions, "silence_timeout")
    idempotent_sends: bool = of(EngineOptions, "idempotent_sends")
    max_tasks: int = of(EngineOptions, "tasks")
    max_tenant_tasks: int = of(EngineOptions, "tenant_tasks")
    agents: Mapping[str, ServedAgent] = table(dict, "The agents, by name.", live=True)
    max_history: int = of(EngineOptions, "history")


def check_target(
    target: str | None, agents: Mapping[str, Any], argument: str, program: list[str] | None = None
) -> None:
    """Raises typer.BadParameter unless exactly one of argument, program and file names an agent."""
    if program and (target is not None or agents):
        other = argument if target is not None else "the tables [agents.NAME]"
        raise usage_error("--exec", f"{other} and --exec are both given; leave one out")
    if program:
        return
    if target is not None and agents:
        text = f"the file of --config has agents already; leave {argument} or --config out"
        raise usage_error(argument, text)
    if target is None and not agents:
        raise usage_error(argument, f"missing; give {argument}, or a file with agents: --config FILE")


def flags_of(flags: _Flags, settings: Table) -> _Flags:
    """The flags of one agent: its own options in place of the options of the command."""
    known = {one.name for one in fields(flags)}
    return replace(flags, **{name: getattr(settings, name) for name in settings.given & known})


class UpstreamAuth(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The credentials that are sent to the agent."""

    PASS_THROUGH = "pass-through"  # noqa: S105  no secret
    STATIC = "static"
    CLIENT_CREDENTIALS = "client-credentials"
    TOKEN_EXCHANGE = "token-exchange"  # noqa: S105  no secret
    NONE = "none"


class TaskAccess(str, Enum):  # noqa: UP042
    """Which tasks a caller reaches, if the agent cannot tell callers apart."""

    OWN = "own"
    UNOWNED = "unowned"
    ALL = "all"


class ClientAuth(str, Enum):  # noqa: UP042
    """How the gateway proves its identity to the token endpoint."""

    AUTO = "auto"
    BASIC = "basic"
    POST = "post"


@dataclass(frozen=True, kw_only=True)
class ReachFlags:
    """How a gateway calls its agent."""

    upstream_auth: UpstreamAuth | None = flag(
        None,
        "Credentials for the agent; default: those of callers, unless this gateway authenticates callers.",
        group="Upstream",
    )
    upstream_token_url: str = of(TokenEndpointValues, "url")
    upstream_issuer: str = of(TokenEndpointValues, "issuer")
    upstream_client_id: str = of(TokenEndpointValues, "client_id")
    upstream_client_secret: str = flag(
        "",
        "Client secret of this gateway; from a file or the variable only.",
        "@FILE",
        group="Upstream",
        secret=True,
    )
    upstream_client_auth: ClientAuth = of(TokenEndpointValues, "method", default=ClientAuth.AUTO)
    upstream_scope: str = of(GrantValues, "scope")
    upstream_audience: str = of(GrantValues, "audience")
    upstream_resource: str = of(GrantValues, "resource")
    endpoint: list[str] | None = of(UpstreamValues, "endpoints", default=None)
    affinity: bool = of(UpstreamValues, "affinity")
    retries: int = of(UpstreamValues, "retries")
    card_refresh: float = of(UpstreamValues, "card_refresh")
    task_access: TaskAccess = of(ServeValues, "task_access", default=TaskAccess.OWN)


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
    silence_timeout: float = of(DialValues, "silence_timeout")
    max_upstream_connections: int = of(DialValues, "max_upstream_connections")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(UpstreamFlags, Table):
    """One `[agents.NAME]` of `gateway`. The command decides an option that is not in `given`."""

    upstream: str = required("The agent: URL, :PORT, host:port (gRPC) or card file.", "UPSTREAM")
    host: str = of(ServedAgent, "host")
    grpc: str = of(ServedAgent, "grpc")
    public_url: str = of(ServedAgent, "public_url")
    versions: str = of(ServedAgent, "versions")
    store: str = of(ServedAgent, "store", help="Store of this agent; see --store.")
    max_calls: int | None = of(Limits, "calls", default=None)
    max_streams: int | None = of(Limits, "streams", default=None)


@dataclass(frozen=True, kw_only=True)
class GatewayFlags(ServerFlags, UpstreamFlags):
    """The flags of `gateway`."""

    agents: Mapping[str, AgentSettings] = table(dict, "The agents, by name.", live=True)
    push_relay: str = of(ServeValues, "push_relay")
    store: str = flag(
        "",
        "Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    linger: float = of(ReplayOptions, "linger")
    replay_memory: int = of(ReplayOptions, "total")
    revalidate: float = of(ReplayOptions, "revalidate")
