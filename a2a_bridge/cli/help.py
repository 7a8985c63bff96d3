"""`a2a-bridge help`: the help of a command."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def help(  # noqa: A001  the name of the command
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(help="A command.", metavar="COMMAND")] = None,
) -> None:
    """Show the help of a command.

    For example:

      a2a-bridge help task get
    """
    shown: Any = context.find_root()
    for word in words or ():
        find = getattr(shown.command, "get_command", None)
        command = find(shown, word) if find is not None else None
        if command is None:
            raise typer.BadParameter(f"there is no command {' '.join(words or ())}", param_hint="COMMAND")
        shown = command.make_context(word, [], parent=shown, resilient_parsing=True)
    typer.echo(shown.get_help())
