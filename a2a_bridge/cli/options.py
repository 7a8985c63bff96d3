"""The flags that several commands share, each with its environment variable. Not their meaning to a command.

Every flag `--some-name` can be given as `A2A_BRIDGE_SOME_NAME`. This module is read for `--version` too and
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
#: how variables begin that hold a header to send, and end that name a file with the value
_HEADER, _FILE = PREFIX + "HEADER_", "_FILE"
#: variables that may hold a secret, which a file can hold instead
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
    """How data is printed."""

    TEXT = "text"
    JSON = "json"


class LoopKind(str, Enum):  # noqa: UP042
    """Which event loop runs."""

    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class FileSpelling(str, Enum):  # noqa: UP042
    """Whether an agent of 0.x gets base64 text where a2a.v1 has the bytes of a file."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    @property
    def base64(self) -> bool | None:
        """The same as DialOptions takes it."""
        return None if self is FileSpelling.AUTO else self is FileSpelling.ALWAYS


class LogLevel(str, Enum):  # noqa: UP042
    """How much is said on stderr."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


Http = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=PREFIX + "HTTP",
        help="Where JSON-RPC and HTTP+JSON listen; port 0 picks one.",
    ),
]
Grpc = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar=PREFIX + "GRPC", help="Where gRPC listens; port 0 picks one."),
]
NoHttp = Annotated[bool, typer.Option("--no-http", envvar=PREFIX + "NO_HTTP", help="Do not listen for HTTP.")]
NoGrpc = Annotated[bool, typer.Option("--no-grpc", envvar=PREFIX + "NO_GRPC", help="Do not listen for gRPC.")]
PublicUrl = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar=PREFIX + "PUBLIC_URL", help="The URL the card shows, as seen from outside."
    ),
]
PublicGrpc = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=PREFIX + "PUBLIC_GRPC",
        help="The gRPC address the card shows, as seen from outside.",
    ),
]
Advertise = Annotated[
    str,
    typer.Option(
        metavar="BINDING,…",
        envvar=PREFIX + "ADVERTISE",
        help="The bindings that the card lists, of JSONRPC, HTTP+JSON and GRPC; all that are served else.",
    ),
]
CardVersions = Annotated[
    str,
    typer.Option(
        metavar="VERSION,…",
        envvar=PREFIX + "CARD_VERSIONS",
        help="The versions that the card is for; all that are served else, in one document.",
    ),
]
ForwardedAllowIps = Annotated[
    str,
    typer.Option(
        metavar="IP,…",
        envvar=PREFIX + "FORWARDED_ALLOW_IPS",
        help="Proxies whose forwarded headers are believed; * for any.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        "--timeout-graceful-shutdown",
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "TIMEOUT_GRACEFUL_SHUTDOWN",
        help="How long running calls may take to finish after SIGTERM.",
    ),
]
Level = Annotated[
    LogLevel, typer.Option("--log-level", envvar=PREFIX + "LOG_LEVEL", help="How much is said on stderr.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "-H",
        "--header",
        metavar="'NAME: VALUE'|'NAME: @FILE'",
        help="A header (gRPC: metadata) to send; may be repeated.",
    ),
]
OutputFormat = Annotated[
    Output, typer.Option("-o", "--output", envvar=PREFIX + "OUTPUT", help="How data is printed on stdout.")
]
ConnectTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.001, envvar=PREFIX + "CONNECT_TIMEOUT", help="How long connecting may take."
    ),
]

A2aVersion = Annotated[
    str,
    typer.Option(
        "--a2a-version",
        metavar="VERSION",
        envvar=PREFIX + "A2A_VERSION",
        help="The protocol version to speak to the agent; the card's first else.",
    ),
]
Versions = Annotated[
    str,
    typer.Option(
        metavar="VERSION,…",
        envvar=PREFIX + "VERSIONS",
        help="The protocol versions to serve: any of 1.0, 0.3, 0.2.5 and 0.1.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        envvar=PREFIX + "EXACT",
        help="Take the card of this very path, never that of its origin.",
    ),
]
#: 0.1 has to be asked for: it needs memory of its callers' ids
ALL_VERSIONS = "1.0,0.3,0.2.5"
LenientVersions = Annotated[
    bool,
    typer.Option(
        "--lenient-versions",
        envvar=PREFIX + "LENIENT_VERSIONS",
        help="Serve a caller whose method belongs to another version than it says.",
    ),
]
PeerName = Annotated[
    str,
    typer.Option(
        "--peer",
        metavar="NAME",
        envvar=PREFIX + "PEER",
        help="The agent's implementation, where its card does not show it; see `peers`.",
    ),
]
Base64Files = Annotated[
    FileSpelling,
    typer.Option(
        "--base64-files",
        envvar=PREFIX + "BASE64_FILES",
        help="Whether files go to agents of 0.x as base64 text over gRPC and HTTP+JSON; auto is as --peer says.",
    ),
]
BridgeKey = Annotated[
    str,
    typer.Option(
        "--bridge-key",
        metavar="KEY|@FILE",
        envvar=PREFIX + "KEY",
        help="The key that bridges share to carry what one version has no place for.",
    ),
]
CredentialsFor = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        envvar=PREFIX + "CREDENTIALS_FOR",
        help="Send -H to this origin of the card, too, and dial it although it may be inside; may be repeated.",
    ),
]
TrustCardUrls = Annotated[
    bool,
    typer.Option(
        "--trust-card-urls",
        envvar=PREFIX + "TRUST_CARD_URLS",
        help="Dial the card's URLs as they are, also inner ones and those that do not answer.",
    ),
]
Cacert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "CACERT",
        help="Trust the authorities in this PEM file instead of the system's.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", envvar=PREFIX + "INSECURE", help="Do not check certificates (HTTP only)."),
]
Cert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar=PREFIX + "CERT", help="Show this client certificate (PEM, with its chain)."
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        "--cert-key",
        metavar="FILE",
        envvar=PREFIX + "CERT_KEY",
        help="The key of --cert, if it does not stand in the same file.",
    ),
]
GrpcTls = Annotated[
    bool | None,
    typer.Option(
        "--grpc-tls/--grpc-plaintext",
        envvar=PREFIX + "GRPC_TLS",
        help="Speak gRPC to the agent over TLS, or not; by the scheme else, and port 443 means TLS.",
    ),
]
UsageFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "USAGE_FILE",
        help="Keep counts of callers in this file, across restarts; see `usage`.",
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar=PREFIX + "STORE",
        help="Where tasks are kept: sqlite:///PATH, postgresql://…, or memory:// for nowhere.",
    ),
]
GatewayStore = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=PREFIX + "STORE",
        help="Where notifications are kept that --push-relay passes on: sqlite:///PATH or postgresql://…; else nowhere.",
    ),
]
StoreKey = Annotated[
    str,
    typer.Option(
        metavar="KEY,…|@FILE",
        envvar=PREFIX + "STORE_KEY",
        help="Keys that credentials in the store are sealed with, the newest first.",
    ),
]
KeepTasks = Annotated[
    float,
    typer.Option(
        metavar="DAYS",
        min=0,
        envvar=PREFIX + "KEEP_TASKS",
        help="How long tasks are kept after they ended; 0 for ever.",
    ),
]
KeepEvents = Annotated[
    float,
    typer.Option(
        metavar="DAYS",
        min=0,
        envvar=PREFIX + "KEEP_EVENTS",
        help="How long the events of a task that has ended can be asked for.",
    ),
]
Lease = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=1,
        envvar=PREFIX + "LEASE",
        help="With PostgreSQL: after this long without a sign of life, others take a server's tasks over.",
    ),
]
Push = Annotated[
    bool,
    typer.Option(
        "--push/--no-push",
        envvar=PREFIX + "PUSH",
        help="Post push notifications of an agent that declares them.",
    ),
]
PushAllow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST|NETWORK",
        envvar=PREFIX + "PUSH_ALLOW",
        help="Post to this host or network, too, although it may be inside yours; may be repeated.",
    ),
]
PushSigningKey = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        envvar=PREFIX + "PUSH_SIGNING_KEY",
        help="Sign push notifications with this private key (PEM or JWK); may be repeated, the first one signs.",
    ),
]
UsageListen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar=PREFIX + "USAGE_LISTEN", help="Show counts of callers here; see `usage`."
    ),
]
RunTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, envvar=PREFIX + "RUN_TIMEOUT", help="How long one run may work; 0 for ever."
    ),
]
SilenceTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "SILENCE_TIMEOUT",
        help="How long a run may work without yielding anything; 0 for ever.",
    ),
]
AgentSilence = Annotated[
    float,
    typer.Option(
        "--silence-timeout",
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "SILENCE_TIMEOUT",
        help="How long the agent may give no answer and no event to a call; 0 for ever.",
    ),
]
IdempotentSends = Annotated[
    bool,
    typer.Option(
        "--idempotent-sends",
        envvar=PREFIX + "IDEMPOTENT_SENDS",
        help="Answer a message that is sent again as the first time, and work on it once.",
    ),
]
DrainWindow = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "DRAIN_WINDOW",
        help="How long listeners stay open after SIGTERM, while readiness fails and answers end their connections.",
    ),
]
Loop = Annotated[
    LoopKind,
    typer.Option(
        "--loop", envvar=PREFIX + "LOOP", help="The event loop; auto is uvloop where that is installed."
    ),
]
Linger = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "LINGER",
        help="How long the stream of an agent that cannot resume goes on when nobody reads it.",
    ),
]
Revalidate = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        envvar=PREFIX + "REVALIDATE",
        help="How long it counts that the agent accepted a caller, before that caller joins a stream; 0 asks each time.",
    ),
]
ReplayMemory = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=0,
        envvar=PREFIX + "REPLAY_MEMORY",
        help="What streams of the agent are kept in, to be resumed and shared; 0 keeps none.",
    ),
]
#: those of ReplayOptions
LINGER, REPLAY_MEMORY, REVALIDATE = 30.0, 67108864, 60.0


def known_dialect(text: str, flag: str) -> Dialect:
    """The dialect of a version that a flag names. Raises typer.BadParameter."""
    from a2a_bridge.dialects import KNOWN, by_version  # what loads protobuf is not loaded for --version

    dialect = by_version(text)
    if dialect is None:
        known = ", ".join(one.version for one in KNOWN)
        raise typer.BadParameter(f"{text!r} is none of {known}", param_hint=flag)
    return dialect


def known_peer(name: str, flag: str = "--peer") -> str:
    """The name of a peer profile that exists, or "". Raises typer.BadParameter."""
    from a2a_bridge.peers import named

    try:
        named(name)
    except LookupError as error:
        raise typer.BadParameter(error.args[0], param_hint=flag) from None
    return name


def tls_files(cacert: Path | None, cert: Path | None, key: Path | None, *, insecure: bool) -> TlsFiles | None:
    """What `--cacert`, `--cert`, `--cert-key` and `--insecure` say; None for nothing. Raises typer.BadParameter."""
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
    """Sets the key of `--bridge-key`, if it was given. Raises typer.BadParameter."""
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
    """Service parameters from `-H` flags and A2A_BRIDGE_HEADER_* variables; several flags of one name are joined, and
    outweigh the variable. A value `@FILE` is what the file holds. Raises typer.BadParameter.
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
                raise typer.BadParameter("its name is no header's", param_hint=variable)
            if name not in found:
                found[name] = _header_value(value, variable)
    return found


def read_secrets() -> None:
    """Sets each variable whose value is in a file: A2A_BRIDGE_STORE_KEY from A2A_BRIDGE_STORE_KEY_FILE, say. Raises
    typer.BadParameter for one that is given twice, or whose file cannot be read.
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
    """What a file with a secret holds, without the white space around it. Raises typer.BadParameter."""
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{path} cannot be read: {why}", param_hint=source) from None
