"""The flags that several commands share, and how commands declare flags.

Rules:
1. A class of flags is a frozen dataclass, and each of its fields is made by `flag`. The name of the field is
   the name of the flag and of its environment variable.
2. A command takes one object of such a class, and `with_flags` gives the command an option for each field. So
   a new flag is one new field.
3. `--help` lists the flags of the most derived class first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from a2a_bridge.cli.options import PREFIX

_KEY = "option"

#: the largest numbers of times, by unit: about 30 years, and 100 years. Infinity, and times that the system
#: cannot wait for, would fail much later.
_MOST = {"SECONDS": 1e9, "DAYS": 36500.0}

_T = TypeVar("_T")


def flag(
    default: _T,
    explanation: str,
    metavar: str | None = None,
    *names: str,
    variable: str | None = None,
    least: float | None = None,
) -> _T:
    """A field of a class of flags.

    explanation: for `--help`. metavar: None for a switch, and for an enum, whose members are shown. names: of
    the flag, by default `--` and the name of the field. variable: the environment variable without its
    prefix, by default the name of the field; "" for none. least: the smallest number. A time also has a
    largest one.
    """
    most = _MOST.get(metavar or "")
    option = {"metavar": metavar, "help": explanation, "min": least, "max": most}
    made: _T = field(default=default, metadata={_KEY: (names, variable, option)})
    return made


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, which has the flags of its parameter whose type is a class of flags."""
    signature = inspect.signature(command)
    types: dict[str, Any] = get_type_hints(command, include_extras=True)
    (name,) = (name for name, kind in types.items() if is_dataclass(kind))
    group = types[name]
    flags = _parameters(group)

    @wraps(command)
    def run(**values: Any) -> None:
        chosen = group(**{one.name: values.pop(one.name) for one in flags})
        command(**values, **{name: chosen})

    others = [one.replace(annotation=types[key]) for key, one in signature.parameters.items() if key != name]
    run.__signature__ = signature.replace(parameters=[*others, *flags])  # type: ignore[attr-defined]
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    """The flags of a class as the parameters of a function, annotated for Typer."""
    types = get_type_hints(group)
    by_name = {one.name: one for one in fields(group)}
    parameters = []
    for name in dict.fromkeys(name for base in group.__mro__ for name in inspect.get_annotations(base)):
        names, variable, option = by_name[name].metadata[_KEY]
        option = typer.Option(
            *(names or (f"--{name.replace('_', '-')}",)),
            envvar=PREFIX + (variable or name.upper()) if variable != "" else None,
            **option,
        )
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=by_name[name].default,
                annotation=Annotated[types[name], option],
            )
        )
    return parameters


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

    store_key: str = flag("", "Keys that encrypt credentials in the store, newest first.", "KEY,…|@FILE")


@dataclass(frozen=True, kw_only=True)
class BridgeKeyFlags:
    """The key of bridges in a chain."""

    bridge_key: str = flag(
        "",
        "Shared key of chained bridges; protects content that a version between them cannot express.",
        "KEY|@FILE",
        variable="KEY",
    )


@dataclass(frozen=True, kw_only=True)
class HttpFlags:
    """How a URL is fetched."""

    connect_timeout: float = flag(10.0, "Time limit for connecting.", "SECONDS", least=0.001)
    header: list[str] | None = flag(
        None,
        "Send this header (gRPC: metadata); may be repeated.",
        "'NAME: VALUE'|'NAME: @FILE'",
        "-H",
        "--header",
        variable="",
    )


@dataclass(frozen=True, kw_only=True)
class DialFlags(HttpFlags):
    """How a remote agent is found and connected to."""

    exact: bool = flag(False, "Use the card at this path only, not the one at the root of the host.")
    credentials_for: list[str] | None = flag(
        None,
        "Send -H to this origin of the card too, and allow it to be a private address; may be repeated.",
        "ORIGIN",
    )
    trust_card_urls: bool = flag(False, "Use the URLs of the card as they are, private addresses included.")
    cacert: Path | None = flag(
        None, "PEM file of trusted certificate authorities; default: those of the system.", "FILE"
    )
    insecure: bool = flag(False, "Do not verify certificates (HTTP only).")
    cert: Path | None = flag(None, "Client certificate (PEM, with its chain).", "FILE")
    cert_key: Path | None = flag(
        None, "Private key of --cert, if it is not in the same file.", "FILE", "--key", "--cert-key"
    )
    grpc_tls: bool | None = flag(
        None,
        "Use TLS for gRPC to the agent, or not; default: by the scheme, and TLS for port 443.",
        None,
        "--grpc-tls/--grpc-plaintext",
    )


@dataclass(frozen=True, kw_only=True)
class AgentFlags(DialFlags, BridgeKeyFlags):
    """How messages are sent to a remote agent."""

    a2a_version: str = flag(
        "", "Protocol version to use with the agent; default: the first of the card.", "VERSION"
    )
    peer: str = flag("", "The SDK of the agent, if it is not recognised; see `peers`.", "NAME")
    base64_files: FileSpelling = flag(
        FileSpelling.AUTO,
        "Send files as base64 text to agents of 0.x over gRPC and HTTP+JSON; auto: as --peer says.",
    )


@dataclass(frozen=True, kw_only=True)
class ServerFlags(BridgeKeyFlags, StoreKeyFlags):
    """The flags that `serve` and `gateway` share: listeners, card, limits, stores, process."""

    http: str = flag(
        "127.0.0.1:8080", "Listen here for JSON-RPC and HTTP+JSON; port 0 takes a free port.", "HOST:PORT"
    )
    grpc: str = flag("127.0.0.1:50051", "Listen here for gRPC; port 0 takes a free port.", "HOST:PORT")
    server: ServerKind = flag(
        ServerKind.BUILTIN,
        "builtin: one port for HTTP, one for gRPC; envoy: one port for both, with TLS (extra `envoy`).",
    )
    listen: str = flag(
        "",
        "Envoy: listen here for every binding; port 0 takes a free port. Default: 127.0.0.1:8080.",
        "HOST:PORT",
    )
    ssl_certfile: Path | None = flag(
        None, "Envoy: serve with TLS, with this certificate and its chain (PEM).", "FILE"
    )
    ssl_keyfile: Path | None = flag(
        None, "Envoy: private key of --ssl-certfile, if it is not in the same file.", "FILE"
    )
    ssl_ca_certs: Path | None = flag(
        None, "Envoy: refuse callers without a client certificate of these authorities (PEM).", "FILE"
    )
    print_envoy_config: bool = flag(False, "Print the configuration of Envoy and exit.", variable="")
    no_http: bool = flag(False, "Do not listen for HTTP.")
    no_grpc: bool = flag(False, "Do not listen for gRPC.")
    #: without 0.1, which needs memory for the ids of its callers
    versions: str = flag(
        "1.0,0.3,0.2.5",
        "Protocol versions to serve: 1.0, 0.3, 0.2.5, 0.1, and those of installed extensions.",
        "VERSION,…",
    )
    lenient_versions: bool = flag(
        False, "Accept methods of another version than the one the caller declares."
    )
    public_url: str = flag("", "The public URL, for the card.", "URL")
    public_grpc: str = flag("", "The public gRPC address, for the card.", "HOST:PORT")
    grpc_urls: GrpcUrlForm = flag(
        GrpcUrlForm.BOTH,
        "Form of gRPC addresses in the card: host:port around a URL for readers of 0.x, or another.",
    )
    advertise: str = flag(
        "", "Bindings to list in the card (JSONRPC, HTTP+JSON, GRPC); default: all.", "BINDING,…"
    )
    card_versions: str = flag(
        "", "Protocol versions of the card; default: all served versions in one document.", "VERSION,…"
    )
    forwarded_allow_ips: str = flag("", "Trust forwarded headers from these proxies; * for any.", "IP,…")

    lease: float = flag(
        10.0,
        "PostgreSQL: other replicas take over the tasks of a server that is silent for this long.",
        "SECONDS",
        least=1,
    )
    push_allow: list[str] | None = flag(
        None, "Allow webhooks at this private host or network; may be repeated.", "HOST|NETWORK"
    )
    push_signing_key: list[Path] | None = flag(
        None,
        "Private key (PEM or JWK) that signs push notifications; may be repeated, the first one signs.",
        "FILE",
    )

    # The defaults are those of HostOptions, Limits and StoreOptions, which --version does not load; a test
    # compares them.
    max_body: int = flag(16777216, "Largest request.", "BYTES", least=1)
    max_connections: int = flag(10000, "Open connections of each listener; 0: no limit.", "N", least=0)
    max_connection_streams: int = flag(
        1000, "Open streams of one gRPC connection, unary calls included.", "N", least=1
    )
    max_values: int = flag(
        100000, "JSON values in a request, or their equivalent in protobuf; 0: no limit.", "N", least=0
    )
    max_parts: int = flag(1000, "Parts of a message; 0: no limit.", "N", least=0)
    max_calls: int = flag(10000, "Concurrent unary calls of one principal; 0: no limit.", "N", least=0)
    max_streams: int = flag(10000, "Open streams of one principal; 0: no limit.", "N", least=0)
    max_memory: int = flag(
        1073741824, "Memory for tasks, events, requests and answers; 0: no limit.", "BYTES", least=0
    )

    usage_file: Path | None = flag(
        None, "Keep call counts in this file across restarts; see `usage`.", "FILE"
    )
    usage_listen: str = flag("", "Serve call counts here; see `usage`.", "HOST:PORT")
    drain_window: float | None = flag(
        None,
        "After SIGTERM, keep listening this long with failing readiness, so that clients move away.",
        "SECONDS",
        least=0,
    )
    timeout_graceful_shutdown: float = flag(
        10.0, "Time for running calls to finish after SIGTERM.", "SECONDS", least=0
    )
    workers: int = flag(
        1, "Serve from this many processes; each has its own limits and memory.", "N", least=1
    )
    loop: LoopKind = flag(LoopKind.AUTO, "Event loop; auto: uvloop if installed.")
    log_level: LogLevel = flag(LogLevel.WARNING, "Log level on stderr.")
    log_format: LogFormat = flag(LogFormat.TEXT, "Log format on stderr; json: one object a line.")
    log_config: Path | None = flag(
        None,
        "Configure logging from this file instead: dictConfig (.json, .toml) or fileConfig (.ini, .conf).",
        "FILE",
    )
    admin: str = flag(
        "", "Serve metrics and probes for operators here; port 0 takes a free port.", "HOST:PORT"
    )
    tracing: TracingMode = flag(
        TracingMode.AUTO,
        "Trace calls with OpenTelemetry; auto: if the agent configures it; on: as OTEL_… variables say.",
    )
