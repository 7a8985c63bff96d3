"""Agents in configuration files: `[agents.NAME]` of `gateway` and `serve`.

Rules:
1. An option in the table of an agent is for that agent only, and outweighs the same option of the command,
   wherever that comes from. All other options are those of the command.
2. A file with one agent does the same as the argument of the command, and serves it below /agents/NAME, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import typer

from a2a_bridge.cli.declared import Table, flag, required
from a2a_bridge.cli.flags import ServerFlags, UpstreamFlags

_Flags = TypeVar("_Flags", bound=ServerFlags)


@dataclass(frozen=True, kw_only=True)
class AgentSettings(UpstreamFlags, Table):
    """One `[agents.NAME]` of `gateway`. An option that is not in `given` is that of the command."""

    upstream: str = required("The agent: URL, :PORT, host:port (gRPC) or card file.", "UPSTREAM")
    host: str = flag(
        "", "Host name of calls that are for this agent; over gRPC with Envoy only.", "HOST", unique=True
    )
    grpc: str = flag("", "Listen here for gRPC to this agent, for callers of 0.x.", "HOST:PORT")
    public_url: str = flag("", "The public URL of this agent, for its card.", "URL")
    versions: str = flag("", "Protocol versions to serve.", "VERSION,…")
    store: str = flag("", "Store of this agent; see --store.", "URL", secret=True)
    max_calls: int | None = flag(None, "Concurrent unary calls of one principal; 0: no limit.", "N", least=0)
    max_streams: int | None = flag(None, "Open streams of one principal; 0: no limit.", "N", least=0)


@dataclass(frozen=True, kw_only=True)
class ServedAgent(Table):
    """One `[agents.NAME]` of `serve`."""

    agent: str = required("file.py, file.py:agent or package.module:agent.", "AGENT")
    host: str = flag(
        "", "Host name of calls that are for this agent; over gRPC with Envoy only.", "HOST", unique=True
    )
    grpc: str = flag("", "Listen here for gRPC to this agent, for callers of 0.x.", "HOST:PORT")
    public_url: str = flag("", "The public URL of this agent, for its card.", "URL")
    versions: str = flag("", "Protocol versions to serve.", "VERSION,…")
    store: str = flag("", "Task store of this agent; see --store.", "URL", secret=True)
    max_tasks: int = flag(0, "Running tasks of one principal; 0: no limit.", "N", least=0)
    max_calls: int = flag(0, "Concurrent unary calls of one principal; 0: no limit.", "N", least=0)
    max_streams: int = flag(0, "Open streams of one principal; 0: no limit.", "N", least=0)


def check_target(target: str | None, agents: Mapping[str, Any], argument: str) -> None:
    """Raises typer.BadParameter unless either the argument of a command or its file names what is served."""
    if target is not None and agents:
        text = f"the file of --config has agents already; leave {argument} or --config out"
        raise typer.BadParameter(text, param_hint=argument)
    if target is None and not agents:
        text = f"missing; give {argument}, or a file with agents: --config FILE"
        raise typer.BadParameter(text, param_hint=argument)


def flags_of(flags: _Flags, settings: Table) -> _Flags:
    """The flags of one agent: its own options in place of those of the command."""
    known = {one.name for one in fields(flags)}
    return replace(flags, **{name: getattr(settings, name) for name in settings.given & known})
