"""The flags that client commands and servers share. `core/options.py` says how flags are declared.
A command takes one object of a class of flags, and `with_flags` gives the command an option for each field of
the class. `--help` lists the flags of the most derived class first.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from a2a_bridge.core.option_classes import CardTrustValues, DialValues, TlsFileValues
from a2a_bridge.core.options import flag, of


class Output(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The format of data on stdout."""

    TEXT = "text"
    JSON = "json"


class FileSpelling(str, Enum):  # noqa: UP042
    """Whether an agent of 0.x gets base64 text where a2a.v1 has bytes."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    @property
    def base64(self) -> bool | None:
        """The value for DialOptions."""
        return None if self is FileSpelling.AUTO else self is FileSpelling.ALWAYS


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

    connect_timeout: float = of(DialValues, "connect_timeout")
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

    exact: bool = of(DialValues, "exact")
    credentials_for: list[str] | None = of(DialValues, "credentials_for", default=None)
    trust_card_urls: bool = of(DialValues, "trust_card_urls")
    cacert: Path | None = of(TlsFileValues, "ca", default=None)
    insecure: bool = flag(False, "Do not verify certificates (HTTP only).", group="Upstream")
    cert: Path | None = of(TlsFileValues, "certificate", default=None)
    cert_key: Path | None = of(TlsFileValues, "key", default=None, names=("--key", "--cert-key"))
    grpc_tls: bool | None = of(DialValues, "grpc_tls")


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
class CardTrustFlags:
    """Which signatures of an agent's card are trusted."""

    card_keys: list[str] | None = of(CardTrustValues, "keys", default=None)
    card_jku_host: list[str] | None = of(CardTrustValues, "jku_hosts", default=None)
    require_signed_card: bool = of(CardTrustValues, "required")
