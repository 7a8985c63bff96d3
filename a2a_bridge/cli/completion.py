"""`a2a-bridge completion`: prints the completion script of a shell."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Shell(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """The shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", metavar="SHELL")]) -> None:
    """Print the completion script of a shell: bash, zsh, fish, powershell or pwsh.

    For example:

      a2a-bridge completion bash > ~/.local/share/bash-completion/completions/a2a-bridge
    """
    # What --show-completion prints for the shell that it finds itself in.
    from typer._completion_shared import get_completion_script

    name = "a2a-bridge"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    typer.echo(get_completion_script(prog_name=name, complete_var=variable, shell=shell.value))
