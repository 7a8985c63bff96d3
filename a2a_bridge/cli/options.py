"""The flags that several commands share, each with its environment variable.

Every flag `--some-name` can also be set as `A2A_BRIDGE_SOME_NAME`. `--version` loads this module too, so it
imports nothing but Typer.
"""

from __future__ import annotations

import os
import re
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from a2a_bridge.bindings import TlsFiles
    from a2a_bridge.dialects import Dialect

PREFIX = "A2A_BRIDGE_"
#: prefix of variables that hold a header to send; suffix of variables that name a file with the value
_HEADER, _FILE = PREFIX + "HEADER_", "_FILE"
#: variables with a secret, which can be read from a file instead
_SECRETS = frozenset({PREFIX + "STORE", PREFIX + "STORE_KEY", PREFIX + "KEY"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")

EXIT_CODES = (
    "Exit codes: 0 done, 1 the task failed, 2 usage, 3 unreachable, 4 protocol error, 5 auth, 124 timeout."
)


class Exit(IntEnum):
    """Exit codes; part of the interface."""

    OK = 0
    TASK_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    PROTOCOL = 4
    AUTH = 5
    TIMEOUT = 124


class Output(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The format of data on stdout."""

    TEXT = "text"
    JSON = "json"


class LoopKind(str, Enum):  # noqa: UP042
    """The event loop."""

    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


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


Http = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=PREFIX + "HTTP",
        help="Listen here for JSON-RPC and HTTP+JSON; port 0 takes a free port.",
    ),
]
Grpc = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar=PREFIX + "GRPC", help="Listen here for gRPC; port 0 takes a free port."
    ),
]
NoHttp = Annotated[bool, typer.Option("--no-http", envvar=PREFIX + "NO_HTTP", help="Do not listen for HTTP.")]
NoGrpc = Annotated[bool, typer.Option("--no-grpc", envvar=PREFIX + "NO_GRPC", help="Do not listen for gRPC.")]
PublicUrl = Annotated[
    str,
    typer.Option(metavar="URL", envvar=PREFIX + "PUBLIC_URL", help="The public URL, for the card."),
]
PublicGrpc = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=PREFIX + "PUBLIC_GRPC",
        help="The public gRPC address, for the card.",
    ),
]
Advertise = Annotated[
    str,
    typer.Option(
        metavar="BINDING,…",
        envvar=PREFIX + "ADVERTISE",
        help="Bindings to list in the card (JSONRPC, HTTP+JSON, GRPC); default: all.",
    ),
]
CardVersions = Annotated[
    str,
    typer.Option(
        metavar="VERSION,…",
        envvar=PREFIX + "CARD_VERSIONS",
        help="Protocol versions of the card; default: all served versions in one document.",
    ),
]
ForwardedAllowIps = Annotated[
    str,
    typer.Option(
        metavar="IP,…",
        envvar=PREFIX + "FORWARDED_ALLOW_IPS",
        help="Trust forwarded headers from these proxies; * for any.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        "--timeout-graceful-shutdown",
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "TIMEOUT_GRACEFUL_SHUTDOWN",
        help="Time for running calls to finish after SIGTERM.",
    ),
]
Level = Annotated[
    LogLevel, typer.Option("--log-level", envvar=PREFIX + "LOG_LEVEL", help="Log level on stderr.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "-H",
        "--header",
        metavar="'NAME: VALUE'|'NAME: @FILE'",
        help="Send this header (gRPC: metadata); may be repeated.",
    ),
]
OutputFormat = Annotated[
    Output, typer.Option("-o", "--output", envvar=PREFIX + "OUTPUT", help="Output format on stdout.")
]
ConnectTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.001, envvar=PREFIX + "CONNECT_TIMEOUT", help="Time limit for connecting."
    ),
]

A2aVersion = Annotated[
    str,
    typer.Option(
        "--a2a-version",
        metavar="VERSION",
        envvar=PREFIX + "A2A_VERSION",
        help="Protocol version to use with the agent; default: the first of the card.",
    ),
]
Versions = Annotated[
    str,
    typer.Option(
        metavar="VERSION,…",
        envvar=PREFIX + "VERSIONS",
        help="Protocol versions to serve: 1.0, 0.3, 0.2.5, 0.1, and those of installed extensions.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        envvar=PREFIX + "EXACT",
        help="Use the card at this path only, not the one at the root of the host.",
    ),
]
#: without 0.1, which needs memory for the ids of its callers
ALL_VERSIONS = "1.0,0.3,0.2.5"
LenientVersions = Annotated[
    bool,
    typer.Option(
        "--lenient-versions",
        envvar=PREFIX + "LENIENT_VERSIONS",
        help="Accept methods of another version than the one the caller declares.",
    ),
]
PeerName = Annotated[
    str,
    typer.Option(
        "--peer",
        metavar="NAME",
        envvar=PREFIX + "PEER",
        help="The SDK of the agent, if it is not recognised; see `peers`.",
    ),
]
Base64Files = Annotated[
    FileSpelling,
    typer.Option(
        "--base64-files",
        envvar=PREFIX + "BASE64_FILES",
        help="Send files as base64 text to agents of 0.x over gRPC and HTTP+JSON; auto: as --peer says.",
    ),
]
BridgeKey = Annotated[
    str,
    typer.Option(
        "--bridge-key",
        metavar="KEY|@FILE",
        envvar=PREFIX + "KEY",
        help="Shared key of chained bridges; protects content that a version between them cannot express.",
    ),
]
CredentialsFor = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        envvar=PREFIX + "CREDENTIALS_FOR",
        help="Send -H to this origin of the card too, and allow it to be a private address; may be repeated.",
    ),
]
TrustCardUrls = Annotated[
    bool,
    typer.Option(
        "--trust-card-urls",
        envvar=PREFIX + "TRUST_CARD_URLS",
        help="Use the URLs of the card as they are, private addresses included.",
    ),
]
Cacert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "CACERT",
        help="PEM file of trusted certificate authorities; default: those of the system.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", envvar=PREFIX + "INSECURE", help="Do not verify certificates (HTTP only)."),
]
Cert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar=PREFIX + "CERT", help="Client certificate (PEM, with its chain)."),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        "--cert-key",
        metavar="FILE",
        envvar=PREFIX + "CERT_KEY",
        help="Private key of --cert, if it is not in the same file.",
    ),
]
GrpcTls = Annotated[
    bool | None,
    typer.Option(
        "--grpc-tls/--grpc-plaintext",
        envvar=PREFIX + "GRPC_TLS",
        help="Use TLS for gRPC to the agent, or not; default: by the scheme, and TLS for port 443.",
    ),
]
UsageFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "USAGE_FILE",
        help="Keep call counts in this file across restarts; see `usage`.",
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar=PREFIX + "STORE",
        help="Task store: sqlite:///PATH, postgresql://…, or memory:// (lost at exit).",
    ),
]
GatewayStore = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=PREFIX + "STORE",
        help="Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
    ),
]
StoreKey = Annotated[
    str,
    typer.Option(
        metavar="KEY,…|@FILE",
        envvar=PREFIX + "STORE_KEY",
        help="Keys that encrypt credentials in the store, newest first.",
    ),
]
KeepTasks = Annotated[
    float,
    typer.Option(
        metavar="DAYS",
        min=0,
        envvar=PREFIX + "KEEP_TASKS",
        help="Delete tasks this long after their end; 0: never.",
    ),
]
KeepEvents = Annotated[
    float,
    typer.Option(
        metavar="DAYS",
        min=0,
        envvar=PREFIX + "KEEP_EVENTS",
        help="Keep the events of a task this long after its end, for streams that resume.",
    ),
]
Lease = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=1,
        envvar=PREFIX + "LEASE",
        help="PostgreSQL: other replicas take over the tasks of a server that is silent for this long.",
    ),
]
Push = Annotated[
    bool,
    typer.Option(
        "--push/--no-push",
        envvar=PREFIX + "PUSH",
        help="Send push notifications, if the agent declares them.",
    ),
]
PushAllow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST|NETWORK",
        envvar=PREFIX + "PUSH_ALLOW",
        help="Allow webhooks at this private host or network; may be repeated.",
    ),
]
PushSigningKey = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "PUSH_SIGNING_KEY",
        help="Private key (PEM or JWK) that signs push notifications; may be repeated, the first one signs.",
    ),
]
UsageListen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar=PREFIX + "USAGE_LISTEN", help="Serve call counts here; see `usage`."
    ),
]
RunTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, envvar=PREFIX + "RUN_TIMEOUT", help="Time limit of one run; 0: none."
    ),
]
SilenceTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "SILENCE_TIMEOUT",
        help="Time limit for a run without output; 0: none.",
    ),
]
AgentSilence = Annotated[
    float,
    typer.Option(
        "--silence-timeout",
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "SILENCE_TIMEOUT",
        help="Time limit for a call without an answer or event of the agent; 0: none.",
    ),
]
IdempotentSends = Annotated[
    bool,
    typer.Option(
        "--idempotent-sends",
        envvar=PREFIX + "IDEMPOTENT_SENDS",
        help="Process a message that is sent twice only once, with the same answer.",
    ),
]
DrainWindow = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "DRAIN_WINDOW",
        help="After SIGTERM, keep listening this long with failing readiness, so that clients move away.",
    ),
]
Loop = Annotated[
    LoopKind,
    typer.Option("--loop", envvar=PREFIX + "LOOP", help="Event loop; auto: uvloop if installed."),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        envvar=PREFIX + "WORKERS",
        help="Serve from this many processes; each has its own limits and memory.",
    ),
]
Linger = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "LINGER",
        help="Keep the stream of an agent that cannot resume open this long without readers.",
    ),
]
Revalidate = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "REVALIDATE",
        help="Cache the agent's permission for a caller to join a stream this long; 0: ask each time.",
    ),
]
ReplayMemory = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=0,
        envvar=PREFIX + "REPLAY_MEMORY",
        help="Memory for events of streams, for readers that resume or join; 0: keep none.",
    ),
]
#: the defaults of ReplayOptions
LINGER, REPLAY_MEMORY, REVALIDATE = 30.0, 67108864, 60.0


def known_dialect(text: str, flag: str) -> Dialect:
    """The dialect of a version. Raises typer.BadParameter."""
    from a2a_bridge.dialects import KNOWN, by_version  # loads protobuf, which --version does not need

    dialect = by_version(text)
    if dialect is None:
        known = ", ".join(one.version for one in KNOWN)
        raise typer.BadParameter(f"{text!r} is not one of {known}", param_hint=flag)
    return dialect


def known_peer(name: str, flag: str = "--peer") -> str:
    """The name of an existing peer profile, or "". Raises typer.BadParameter."""
    from a2a_bridge.peers import named

    try:
        named(name)
    except LookupError as error:
        raise typer.BadParameter(error.args[0], param_hint=flag) from None
    return name


def tls_files(cacert: Path | None, cert: Path | None, key: Path | None, *, insecure: bool) -> TlsFiles | None:
    """The TLS files of `--cacert`, `--cert`, `--cert-key` and `--insecure`; None without them. Raises
    typer.BadParameter.
    """
    from a2a_bridge.bindings import TlsFiles

    if cacert is None and cert is None and key is None and not insecure:
        return None
    if key is not None and cert is None:
        raise typer.BadParameter("needs --cert", param_hint="--key")
    files = TlsFiles(str(cacert or ""), str(cert or ""), str(key or ""), verify=not insecure)
    try:
        files.context()
    except OSError as error:
        flag = "--cacert" if cert is None else "--cert"
        raise typer.BadParameter(f"cannot be used: {error}", param_hint=flag) from None
    return files


def use_bridge_key(text: str) -> None:
    """Sets the key of `--bridge-key`, if given. Raises typer.BadParameter."""
    from a2a_bridge.dialects.carrying import use_key

    try:
        secret = Path(text[1:]).read_bytes().strip() if text.startswith("@") else text.encode()
        if text:
            use_key(secret)
    except OSError as error:
        raise typer.BadParameter(f"cannot be read: {error.strerror}", param_hint="--bridge-key") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bridge-key") from None


def listen_address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `:PORT` (this machine only) or `[v6]:PORT`. Raises typer.BadParameter."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT", param_hint=flag)
    return host or "127.0.0.1", int(port)


def parameters(headers: list[str] | None) -> dict[str, str]:
    """Service parameters from `-H` flags and A2A_BRIDGE_HEADER_* variables. Flags of one name are joined and
    override the variable. `@FILE` stands for the content of a file. Raises typer.BadParameter.
    """
    found: dict[str, str] = {}
    for header in headers or ():
        name, colon, value = header.partition(":")
        name = name.strip().lower()
        if not colon or not _is_header_name(name):
            # Without the value, which may be a secret.
            raise typer.BadParameter("a header is 'NAME: VALUE' or 'NAME: @FILE'", param_hint="--header")
        value = _header_value(value.strip(), f"--header {name}")
        found[name] = f"{found[name]}, {value}" if name in found else value
    for variable, value in os.environ.items():
        if variable.startswith(_HEADER) and not variable.endswith(_FILE):
            name = variable.removeprefix(_HEADER).lower().replace("_", "-")
            if not _is_header_name(name):
                raise typer.BadParameter("its name is not that of a header", param_hint=variable)
            if name not in found:
                found[name] = _header_value(value, variable)
    return found


def read_secrets() -> None:
    """Sets variables from files, such as A2A_BRIDGE_STORE_KEY from A2A_BRIDGE_STORE_KEY_FILE. Raises
    typer.BadParameter for a variable that is set as well, and for a file that cannot be read.
    """
    for variable in list(os.environ):
        secret = variable.removesuffix(_FILE)
        if secret == variable or not (secret in _SECRETS or secret.startswith(_HEADER)):
            continue
        if secret in os.environ:
            raise typer.BadParameter(f"{secret} is set as well", param_hint=variable)
        os.environ[secret] = _file_text(os.environ[variable], variable)


def _is_header_name(name: str) -> bool:
    return bool(_HEADER_NAME.fullmatch(name))


def _header_value(value: str, source: str) -> str:
    if value.startswith("@"):
        value = _file_text(value[1:], source)
    if any(character in value for character in "\r\n\0"):
        raise typer.BadParameter("a header has one line", param_hint=source)
    return value


def _file_text(path: str, source: str) -> str:
    """The content of a file with a secret, without white space around it. Raises typer.BadParameter."""
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{path} cannot be read: {why}", param_hint=source) from None
