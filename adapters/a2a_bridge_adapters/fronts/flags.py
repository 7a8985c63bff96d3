"""The flags of `front mcp` and `front openai`: those of `gateway` that make sense without a binding.

`--help` loads this module, so it imports nothing but declarations of flags.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from a2a_bridge.cli.flags import AgentFlags, BridgeKeyFlags, CardTrustFlags
from a2a_bridge.cli.server_flags import (
    ConfigFlags,
    EdgeFlags,
    GatewayFlags,
    LogFormat,
    LogLevel,
    LoopKind,
    ReachFlags,
    RuleSettings,
)
from a2a_bridge.core.options import flag, of, table


@dataclass(frozen=True, kw_only=True)
class FrontFlags(EdgeFlags, ConfigFlags, BridgeKeyFlags, AgentFlags, CardTrustFlags, ReachFlags):
    """The flags of both fronts."""

    http: str = of(GatewayFlags, "http", default="", help="Listen here for HTTP; port 0 takes a free port.")
    allow_host: list[str] | None = flag(
        None,
        "Accept this value of the header Host, such as mcp.example or 10.0.0.1:*; may be repeated. Default: "
        "localhost and its addresses if only this machine can reach --http, else all.",
        "HOST[:PORT]",
        group="Listen",
    )
    ssl_certfile: Path | None = of(
        GatewayFlags, "ssl_certfile", help="Serve with TLS, with this certificate."
    )
    ssl_keyfile: Path | None = of(GatewayFlags, "ssl_keyfile")
    forwarded_allow_ips: str = of(GatewayFlags, "forwarded_allow_ips")
    card: Path | None = of(GatewayFlags, "card")
    binding: str = of(GatewayFlags, "binding")
    silence_timeout: float = of(GatewayFlags, "silence_timeout")
    store: str = of(
        GatewayFlags,
        "store",
        help="Where the owners of tasks are kept: sqlite:///PATH, postgresql://…; default: memory.",
    )
    max_body: int = of(GatewayFlags, "max_body")
    max_values: int = of(GatewayFlags, "max_values")
    max_connections: int = of(GatewayFlags, "max_connections")
    max_parts: int = of(GatewayFlags, "max_parts")
    max_calls: int = of(GatewayFlags, "max_calls")
    max_streams: int = of(GatewayFlags, "max_streams")
    max_memory: int = of(GatewayFlags, "max_memory")
    timeout_graceful_shutdown: float = of(GatewayFlags, "timeout_graceful_shutdown")
    loop: LoopKind = of(GatewayFlags, "loop")
    log_level: LogLevel = of(GatewayFlags, "log_level")
    log_format: LogFormat = of(GatewayFlags, "log_format")
    log_config: Path | None = of(GatewayFlags, "log_config")
    rules: tuple[RuleSettings, ...] = table(tuple, "Which callers may use which operations.", live=True)

    def as_gateway(self) -> GatewayFlags:
        """The flags of a gateway to the same agent with the same limits."""
        known = {one.name for one in fields(GatewayFlags)}
        shared = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        return GatewayFlags(**{**shared, "http": self.http or "127.0.0.1:0", "no_grpc": True})


@dataclass(frozen=True, kw_only=True)
class McpFlags(FrontFlags):
    """The flags of `front mcp`."""

    stdio: bool = flag(False, "Speak MCP on stdin and stdout.", variable="", group="Listen", common=True)
    wait: float = flag(
        50.0,
        "Time after which a call ends with the id of its task, which goes on.",
        "SECONDS",
        least=0.1,
        group="Protocol",
    )


@dataclass(frozen=True, kw_only=True)
class OpenAiFlags(FrontFlags):
    """The flags of `front openai`."""
