"""`a2a-bridge config`: checks configuration files, shows effective options, prints the JSON Schema.

It serves nothing and opens no store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.config_file import ConfigError, ConfigFile
from a2a_bridge.cli.flags import Output, OutputFlags, flag, with_flags
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.reading import Reading

app = command_group("config", "Check configuration files, and show the effective options of a command.")


class Served(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The commands that have a configuration file."""

    SERVE = "serve"
    GATEWAY = "gateway"


@dataclass(frozen=True, kw_only=True)
class CheckFlags(OutputFlags):
    """The flags of `config check`."""

    command: Served | None = flag(
        None, "The command that the file is for; default: the one that its agents are for.", variable=""
    )


@dataclass(frozen=True, kw_only=True)
class ShowFlags(OutputFlags):
    """The flags of `config show`."""

    config: Path | None = flag(None, "The configuration file.", "FILE")
    origin: bool = flag(False, "Show where each value comes from.", variable="")


@app.command(cls=Command)
@with_flags
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The configuration file.", metavar="FILE")],
    *,
    flags: CheckFlags,
) -> None:
    """Check a configuration file: its keys, its values, and that no secret stands in it.

    For example:

      a2a-bridge config check bridge.toml
    """
    from a2a_bridge.cli.output import data, document, fail, usage_document
    from a2a_bridge.cli.settings import effective

    try:
        read = ConfigFile.read(file)
        command = flags.command or meant_by(read.tree)
        effective(_command(context, command).callback.group, read, {})
    except ConfigError as error:
        shown = None
        if flags.output is Output.JSON:
            shown = usage_document(str(error))
            shown["error"]["data"] = [{"line": one.line, "text": one.text} for one in error.problems]
        raise fail(Exit.USAGE, str(error), error=shown) from None
    if flags.output is Output.JSON:
        document({"file": str(file), "command": command.value, "valid": True})
    else:
        data(f"{file}: valid for {command.value}")


@app.command(cls=Command)
@with_flags
def show(
    context: typer.Context,
    command: Annotated[Served, typer.Argument(help="The command.", metavar="COMMAND")] = Served.GATEWAY,
    *,
    flags: ShowFlags,
) -> None:
    """Show the options that `gateway` or `serve` would have here, from the environment and the file.

    For example:

      a2a-bridge config show --origin --config bridge.toml
    """
    from a2a_bridge.cli.config_text import literal, rows
    from a2a_bridge.cli.output import data, document

    shown = _command(context, command)
    arguments = [] if flags.config is None else ["--config", str(flags.config)]
    inner = shown.make_context(command.value, arguments, parent=context.parent)
    values = {name: value for name, value in inner.params.items() if name in shown.callback.options}
    found = list(rows(Reading.of(inner, shown.callback.group, values)))
    if flags.output is Output.JSON:
        document(
            {
                row[0]: dict(zip(("value", "origin"), row[1:], strict=True)) if flags.origin else row[1]
                for row in found
            }
        )
        return
    for name, value, origin in found:
        data(f"{name} = {literal(value)}" + (f"  # {origin}" if flags.origin else ""))


@app.command(cls=Command)
def schema(
    context: typer.Context,
    command: Annotated[Served, typer.Argument(help="The command.", metavar="COMMAND")] = Served.GATEWAY,
) -> None:
    """Print the JSON Schema of configuration files, for editors and checks.

    For example:

      a2a-bridge config schema gateway > gateway.schema.json
    """
    from a2a_bridge.cli.output import data
    from a2a_bridge.cli.settings import schema as schema_of

    data(json.dumps(schema_of(_command(context, command).callback.group), indent=2, ensure_ascii=False))


def _command(context: typer.Context, command: Served) -> Any:
    """The command of that name."""
    return context.find_root().command.commands[command.value]  # type: ignore[attr-defined]


def meant_by(tree: Mapping[str, Any]) -> Served:
    """The command that a file is for: its agents are in Python code, or are called."""
    agents = tree.get("agents")
    if isinstance(agents, dict) and any(isinstance(one, dict) and "agent" in one for one in agents.values()):
        return Served.SERVE
    return Served.GATEWAY
