"""The command `a2a-bridge`. Each of its commands is in the module of its name."""

import os
from typing import Annotated

import typer

from a2a_bridge.cli.commands import Commands
from a2a_bridge.cli.environment import read_variables
from a2a_bridge.cli.values import EXIT_CODES

DISTRIBUTION = "a2a-transport-bridge"

app = typer.Typer(
    name="a2a-bridge",
    cls=Commands,
    help="Serve, bridge and call A2A agents over JSON-RPC, gRPC and HTTP+JSON, in every protocol version.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Without rich, whose import takes as long as everything else of `--help`.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # loads the parser of email

        typer.echo(f"a2a-bridge {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("-v", "--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """The flags before a command."""
    read_variables(context.command.commands, context.invoked_subcommand or "")  # type: ignore[attr-defined]


def main() -> None:
    """The entry point of the command `a2a-bridge`."""
    # The C core of gRPC reports every closed connection on stderr, which is for messages to the user here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    app()
