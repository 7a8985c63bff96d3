"""The commands `front mcp` and `front openai`.

`--help` loads this module, so it imports nothing but declarations of flags.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.reading import with_flags
from a2a_bridge_adapters.fronts.flags import McpFlags, OpenAiFlags

front = command_group("front", "Serve an agent to clients of other protocols: MCP, and OpenAI's API.")

_TARGET = typer.Argument(
    help="The agent: URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent."
)


@front.command(cls=Command)
@with_flags
def mcp(context: typer.Context, target: Annotated[str, _TARGET], *, flags: McpFlags) -> None:
    """Serve the agent at TARGET as tools of an MCP server, on stdin and stdout or over HTTP.

    Over HTTP, the command prints one line when it is ready: ready http=http://HOST:PORT, and serves /mcp.

    For example:

      a2a-bridge front mcp https://agent.example --stdio

      a2a-bridge front mcp weather.py --http :8000 --api-keys keys.json
    """
    if flags.stdio == bool(flags.http):
        raise typer.BadParameter("give one of --stdio and --http HOST:PORT", param_hint="--stdio")
    _check_installed("mcp", "mcp")
    from a2a_bridge_adapters.fronts.serving import run_mcp

    run_mcp(context, target, flags)


@front.command(cls=Command)
@with_flags
def openai(context: typer.Context, target: Annotated[str, _TARGET], *, flags: OpenAiFlags) -> None:
    """Serve the agent at TARGET as a model of OpenAI's API: chat completions and responses.

    The command prints one line when it is ready: ready http=http://HOST:PORT, and serves /v1.

    For example:

      a2a-bridge front openai https://agent.example --http :8000 --api-keys keys.json
    """
    if not flags.http:
        raise typer.BadParameter("is missing: HOST:PORT to listen on", param_hint="--http")
    _check_installed("jsonschema", "openai")
    from a2a_bridge_adapters.fronts.serving import run_openai

    run_openai(context, target, flags)


def _check_installed(package: str, extra: str) -> None:
    """Raises typer.Exit without a package that a front needs. extra: installs it."""
    from a2a_bridge.cli.output import fail
    from a2a_bridge.cli.values import Exit
    from a2a_bridge.core.extras import missing_fronts

    if find_spec(package) is None:
        missing = missing_fronts(package, extra)
        raise fail(Exit.USAGE, missing.text, missing.remedy)
