"""Environment variables of the command: which there are, and those that name a file with the value.

Rules:
1. A variable `A2A_BRIDGE_…` that no command has is an error. It is known if any command has it: one
   environment serves several.
2. A variable of a secret, and of a header, can end with `_FILE` and name a file with the value.
3. Variables that Kubernetes and Docker make of the name of a service are not ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import typer

from a2a_bridge.cli.options import HEADER, PREFIX, file_text

_FILE = "_FILE"
#: A Service of the name `a2a-bridge`, or `a2a-bridge-NAME`, has such variables in each pod of its namespace.
_OF_SERVICES = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def read_variables(commands: Mapping[str, Any], first: str) -> None:
    """Checks the variables, and sets those whose values are in files: A2A_BRIDGE_STORE_KEY from
    A2A_BRIDGE_STORE_KEY_FILE.

    commands: all commands by name, which are loaded as far as they are needed. first: the one that runs.
    Raises typer.BadParameter for an unknown variable, for one that is set as well, and for a file that cannot
    be read.
    """
    pending = {name for name in os.environ if name.startswith(PREFIX) and not _OF_SERVICES.fullmatch(name)}
    files = {name for name in pending if name.startswith(HEADER) and name.endswith(_FILE)}
    pending = {name for name in pending if not name.startswith(HEADER)}
    known: set[str] = set()
    # All commands are listed last: that looks for those of other distributions.
    for command in chain((first, "serve", "gateway"), commands):
        if not pending:
            break
        for variable, is_secret in _variables(commands[command]) if command in commands else ():
            pending.discard(variable)
            known.add(variable)
            if is_secret and variable + _FILE in pending:
                files.add(variable + _FILE)
                pending.discard(variable + _FILE)
    for unknown in sorted(pending):
        from a2a_bridge.cli.config_file import suggestion  # loads the parser of TOML

        similar = suggestion(unknown, known)
        raise typer.BadParameter(f"no command has this variable{similar}", param_hint=unknown)
    for name in sorted(files):
        secret = name.removesuffix(_FILE)
        if secret in os.environ:
            raise typer.BadParameter(f"{secret} is set as well", param_hint=name)
        os.environ[secret] = file_text(os.environ[name], name)
        del os.environ[name]  # workers, and Envoy, read the variables again


def _variables(command: Any) -> Iterator[tuple[str, bool]]:
    """The variables of a command and its own commands; True with those of secrets."""
    for inner in getattr(command, "commands", {}).values():
        yield from _variables(inner)
    declared = getattr(command.callback, "options", {})
    for one in command.params:
        if one.envvar:
            yield one.envvar, one.name in declared and declared[one.name].described.secret
