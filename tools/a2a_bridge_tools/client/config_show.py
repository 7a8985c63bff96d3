"""`a2a-bridge config show`: the options of client commands, with the source of each value, and of servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.config import Served, show_options
from a2a_bridge.cli.environment import Environment
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.core.options import CLIENT_PREFIX, options_of
from a2a_bridge_tools.client.flags import ShowFlags


@with_flags
def show(
    context: typer.Context,
    command: Annotated[
        Served | None,
        typer.Argument(help="serve or gateway; without one: of client commands.", metavar="COMMAND"),
    ] = None,
    *,
    flags: ShowFlags,
) -> None:
    """Show the effective options: of client commands, with the source of each, or of `serve` and `gateway`.

    Nothing is changed. Secrets are not shown. With COMMAND, --config names its configuration file.

    For example:

      a2a-bridge config show

      a2a-bridge config show gateway --origin --config bridge.toml
    """
    from a2a_bridge.cli.output import data, document

    if command is not None or (flags.env_file is not None and flags.env_file.suffix == ".toml"):
        show_options(context, command, flags.env_file, flags.output, origin=flags.origin)
        return
    found = list(_client_rows(context, flags))
    if flags.output is Output.JSON:
        document({name: {"value": value, "source": source} for name, value, source in found})
    else:
        lines = (f"{name}: {'' if value is None else value} ({source})" for name, value, source in found)
        data("\n".join(lines))


def _client_rows(context: typer.Context, flags: ShowFlags) -> Iterator[tuple[str, Any, str]]:
    """Name, value and source of each option that a variable can set."""
    from a2a_bridge.cli.values import show_value
    from a2a_bridge.core.masking import HIDDEN

    environment = Environment.of(context)
    for name, one in options_of(ShowFlags).items():
        variable = one.variable
        if variable is None or not variable.startswith(CLIENT_PREFIX):
            continue
        value = getattr(flags, name)
        if value and one.described.secret:
            value = HIDDEN
        elif value is not None and not isinstance(value, bool):
            value = show_value(one, getattr(value, "value", value))
            value = str(value) if isinstance(value, Path) else value
        source = getattr(context.get_parameter_source(name), "name", "DEFAULT")
        file = environment.source(variable)
        words = {"COMMANDLINE": "flag", "ENVIRONMENT": f"variable {variable}"}.get(source, "default")
        if source == "DEFAULT_MAP" and file is not None:
            words = f"file {file.path}"
        yield max(one.described.names, key=len), value, words
