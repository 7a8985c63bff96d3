"""`a2a-bridge config`: checks configuration files, shows effective options, prints the JSON Schema.
It serves nothing and opens no store.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.config_file import ConfigError, ConfigFile
from a2a_bridge.cli.flags import Output, OutputFlags
from a2a_bridge.cli.output import data, document, fail
from a2a_bridge.cli.reading import Reading, with_flags
from a2a_bridge.cli.values import Exit, as_usage_error, usage_error
from a2a_bridge.core.extras import missing_tools
from a2a_bridge.core.options import flag

app = command_group("config", "Check configuration files, and show the effective options.")


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
    no_files: bool = flag(
        False, "Do not look for the files and programs that it names: they are elsewhere.", variable=""
    )


@app.command(cls=Command)
@with_flags
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The configuration file.", metavar="FILE")],
    *,
    flags: CheckFlags,
) -> None:
    """Check a configuration file: its keys, its values, the files that it names, and that it has no secret.

    For example:

      a2a-bridge config check bridge.toml
    """
    from a2a_bridge.cli.settings import check as check_file

    try:
        read = ConfigFile.read(file)
        command = flags.command or meant_by(read.tree)
        check_file(_command(context, command).callback.group, read, files=not flags.no_files)
    except ConfigError as error:
        problems = [{"line": one.line, "text": one.text} for one in error.problems]
        raise fail(Exit.USAGE, str(error), data=problems) from None
    if flags.output is Output.JSON:
        document({"file": str(file), "command": command.value, "valid": True})
    else:
        data(f"{file}: valid for {command.value}")


@dataclass(frozen=True, kw_only=True)
class ShowFlags(OutputFlags):
    """The flags of `config show`."""

    config: Path | None = flag(None, "The configuration file.", "FILE", variable="")
    origin: bool = flag(False, "Show where each value comes from.", variable="")


@app.command(cls=Command)
@with_flags
def show(
    context: typer.Context,
    command: Annotated[
        Served | None,
        typer.Argument(help="serve or gateway; default: the one that the file is for.", metavar="COMMAND"),
    ] = None,
    *,
    flags: ShowFlags,
) -> None:
    """Show the effective options of `serve` and `gateway`. Nothing is changed. Secrets are not shown.

    The tools have a command of this name that shows the options of client commands, too.

    For example:

      a2a-bridge config show gateway --origin --config bridge.toml
    """
    if command is None and flags.config is None:
        missing = missing_tools()
        text = "name serve or gateway; to show the options of client commands, install the tools"
        raise usage_error("COMMAND", f"{text}: {missing.remedy}")
    show_options(context, command, flags.config, flags.output, origin=flags.origin)


def show_options(
    context: typer.Context, command: Served | None, file: Path | None, output: Output, *, origin: bool
) -> None:
    """Prints the effective options of a command; origin: and their sources. Raises typer.BadParameter."""
    from a2a_bridge.cli.reading import literal, rows

    listed = list(rows(reading_of(context, command, file)))
    if output is Output.JSON:
        document(
            {
                row[0]: dict(zip(("value", "origin"), row[1:], strict=True)) if origin else row[1]
                for row in listed
            }
        )
        return
    for name, value, source in listed:
        data(f"{name} = {literal(value)}" + (f"  # {source}" if origin else ""))


@app.command(cls=Command)
def schema(
    context: typer.Context,
    command: Annotated[Served, typer.Argument(help="The command.", metavar="COMMAND")] = Served.GATEWAY,
) -> None:
    """Print the JSON Schema of configuration files, for editors and checks.

    For example:

      a2a-bridge config schema gateway > gateway.schema.json
    """
    from a2a_bridge.cli.settings import schema as schema_of

    data(json.dumps(schema_of(_command(context, command).callback.group), indent=2, ensure_ascii=False))


def _command(context: typer.Context, command: Served) -> Any:
    """The command of that name."""
    return context.find_root().command.commands[command.value]  # type: ignore[attr-defined]


def reading_of(context: typer.Context, command: Served | None, file: Path | None) -> Reading:
    """The options of a command, from its file, its variables and its defaults. command: None for the command
    that the agents in the file are for. Raises typer.BadParameter.
    """
    arguments = [] if file is None else ["--config", str(file)]
    if command is None:
        with as_usage_error("--config", ConfigError):
            command = Served.GATEWAY if file is None else meant_by(ConfigFile.read(file).tree)
    shown = _command(context, command)
    inner = shown.make_context(command.value, arguments, parent=context.parent)
    values = {name: value for name, value in inner.params.items() if name in shown.callback.options}
    return Reading.of(inner, shown.callback.group, values)


def meant_by(tree: Mapping[str, Any]) -> Served:
    """The command that a file is for: its agents are in Python code or programs, or are called."""
    agents = tree.get("agents")
    tables = [one for one in agents.values() if isinstance(one, dict)] if isinstance(agents, dict) else []
    if "exec" in tree or any("agent" in one or "exec" in one for one in tables):
        return Served.SERVE
    return Served.GATEWAY
