"""Agents in configuration files: `[agents.NAME]` of `gateway` and `serve`.

Rules:
1. An option in the table of an agent is for that agent only, and outweighs the same option of the command,
   wherever that comes from. All other options are those of the command.
2. A file with one agent does the same as the argument of the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import typer

from a2a_bridge.cli.declared import Table, flag, required
from a2a_bridge.cli.flags import UpstreamFlags

_Flags = TypeVar("_Flags", bound=UpstreamFlags)
_Agent = TypeVar("_Agent", "AgentSettings", "ServedAgent")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(UpstreamFlags, Table):
    """One `[agents.NAME]` of `gateway`. An option that is not in `given` is that of the command."""

    upstream: str = required("The agent: URL, :PORT, host:port (gRPC) or card file.", "UPSTREAM")
    host: str = flag("", "Host name of HTTP and gRPC calls that are for this agent.", "HOST")
    max_calls: int | None = flag(None, "Concurrent unary calls of one principal; 0: no limit.", "N", least=0)
    max_streams: int | None = flag(None, "Open streams of one principal; 0: no limit.", "N", least=0)


@dataclass(frozen=True, kw_only=True)
class ServedAgent(Table):
    """One `[agents.NAME]` of `serve`."""

    agent: str = required("file.py, file.py:agent or package.module:agent.", "AGENT")
    host: str = flag("", "Host name of HTTP and gRPC calls that are for this agent.", "HOST")


def target_of(target: str | None, flags: _Flags, agents: Mapping[str, AgentSettings]) -> tuple[str, _Flags]:
    """The upstream of a gateway and its options: those of the argument, or of the only agent in the file.

    Raises typer.BadParameter.
    """
    only = _only(target, agents, "UPSTREAM")
    if isinstance(only, str):
        return only, flags
    return only.upstream, options_for(only, flags)


def options_for(agent: AgentSettings, flags: _Flags) -> _Flags:
    """The options of the command with those of one agent in place of its own."""
    known = {one.name for one in fields(flags)}
    return replace(flags, **{name: getattr(agent, name) for name in agent.given & known})


def code_of(target: str | None, agents: Mapping[str, ServedAgent]) -> str:
    """The agent to serve: the argument, or the only one in the file. Raises typer.BadParameter."""
    only = _only(target, agents, "AGENT")
    return only if isinstance(only, str) else only.agent


def _only(target: str | None, agents: Mapping[str, _Agent], argument: str) -> str | _Agent:
    """The argument of a command, or the only agent of its file."""
    if target is not None:
        if agents:
            raise typer.BadParameter("the configuration file has agents already", param_hint=argument)
        return target
    if not agents:
        raise typer.BadParameter("missing, and no configuration file names an agent", param_hint=argument)
    if len(agents) > 1:
        raise typer.BadParameter(
            f"{len(agents)} agents in one process are not supported yet", param_hint="--config"
        )
    ((name, only),) = agents.items()
    if only.host:
        raise typer.BadParameter(f"host of [agents.{name}] needs a second agent", param_hint="--config")
    return only
