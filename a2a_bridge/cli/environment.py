"""The environment of the client commands: .env files, and where the value of an option comes from.

Rules (SPEC.md 6.4):
1. A flag outweighs a variable, which outweighs the local file, which outweighs the global file, which
   outweighs the default.
2. The global file is ~/.config/a2a-cli/.env (XDG_CONFIG_HOME is respected), the local one the nearest `.env`
   of the working directory or a folder above it. `--env-file` takes the place of the local one.
3. A file may hold other programs' settings: only keys that begin with A2ACLI_ are read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from a2a_bridge.cli.specification import OPTIONS, PREFIX

_LINE = re.compile(r"\s*(?:export\s+)?(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>.*?)\s*")
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<inner>.*)(?P=quote)(?:\s+#.*)?""")
_KEY = "a2a_bridge.environment"


@dataclass(frozen=True, slots=True)
class EnvFile:
    """The settings of one file, by key."""

    path: Path
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Environment:
    """The files of a command, the most important one first, and its flags as they were given."""

    files: Sequence[EnvFile]
    #: names of parameters, as often as they were given
    order: Sequence[str]
    #: whether the user has named the local file
    named: bool = False

    def chosen_by(self, *options: str) -> EnvFile | None:
        """The file that the value of one of these options comes from; None for flags, variables and defaults.

        options: by the names of the specification.
        """
        for name in options:
            one = OPTIONS[name]
            if name in self.order or os.environ.get(one.variable_name):
                return None
            if (file := self.source(one.variable_name)) is not None:
                return file
        return None

    def source(self, variable: str) -> EnvFile | None:
        """The file that has a value for a variable."""
        return next((one for one in self.files if variable in one.values), None)

    @classmethod
    def of(cls, context: typer.Context) -> Environment:
        """That of the running command."""
        found: Environment = context.meta[_KEY]
        return found


def global_file() -> Path:
    """Where the file for all agents is."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "a2a-cli" / ".env"


def read_environment(named: str | None) -> list[EnvFile]:
    """The files that exist. named: that of `--env-file`. Raises typer.BadParameter."""
    if named:
        local: Path | None = Path(named)
    else:
        here = Path.cwd()
        local = next((one / ".env" for one in (here, *here.parents) if (one / ".env").is_file()), None)
    found = [] if local is None else [_read(local, required=bool(named))]
    if global_file().is_file():
        found.append(_read(global_file()))
    return [one for one in found if one is not None]


def _read(path: Path, *, required: bool = False) -> EnvFile | None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if not required:
            return None
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{path} cannot be read: {reason}", param_hint="--env-file") from None
    values = {}
    for number, line in enumerate(lines, 1):
        if PREFIX not in line or line.lstrip().startswith("#"):
            continue
        entry = _LINE.fullmatch(line)
        if entry is None:
            raise typer.BadParameter(f"{path}:{number}: not {PREFIX}OPTION=value", param_hint="--env-file")
        if entry["key"].startswith(PREFIX):
            quoted = _QUOTED.fullmatch(entry["value"])
            plain = re.sub(r"(^|\s+)#.*", "", entry["value"])
            values[entry["key"]] = quoted["inner"] if quoted else plain
    return EnvFile(path, values)


def take_environment(context: Any, parameters: Sequence[Any], arguments: Sequence[str]) -> None:
    """Gives a command the values of files as defaults, and remembers the order of its flags."""
    parsed, _, order = context.command.make_parser(context).parse_args([*arguments])
    env_file = OPTIONS["env_file"]
    named = parsed.get("env_file")
    if not isinstance(named, str):
        older = (PREFIX + one.removeprefix("--").upper().replace("-", "_") for one in env_file.names)
        named = next((os.environ[one] for one in older if os.environ.get(one)), None)
    files = read_environment(named)
    found: dict[str, Any] = {}
    for one in parameters:
        for file in files:
            if isinstance(one.envvar, str) and file.values.get(one.envvar):
                text = file.values[one.envvar]
                found[one.name] = text.split() if getattr(one, "multiple", False) else text
                break
    context.default_map = {**(context.default_map or {}), **found}
    context.meta[_KEY] = Environment(files, [one.name for one in order], named=bool(named))
    from a2a_bridge.cli.output import decide_json

    wanted = parsed.get("output") or os.environ.get(PREFIX + "OUTPUT") or found.get("output")
    decide_json(wanted == "json")


def warn_of_readable_secrets(environment: Environment, secrets: Sequence[str]) -> None:
    """Warns of files with credentials that others may read."""
    from a2a_bridge.cli.output import print_message

    for file in environment.files:
        if sys.platform != "win32" and file.path.stat().st_mode & 0o077 and file.values.keys() & set(secrets):
            text = (
                f"warning: {file.path} holds credentials, and others may read it; try: chmod 600 {file.path}"
            )
            print_message(text, "yellow")


def warn_of_other_agent(environment: Environment) -> None:
    """Warns of credentials for all agents if a file of the working directory, or of a folder above it, names
    the agent: somebody else may have written that file.
    """
    from a2a_bridge.cli.output import print_message

    agent = None if environment.named else environment.chosen_by("endpoint", "agent_card")
    if agent is None or agent.path == global_file():
        return
    for name in ("bearer", "api_key"):
        secret = environment.chosen_by(name)
        if secret is not None and secret.path != agent.path:
            variable = OPTIONS[name].variable_name
            text = f"warning: {variable} of {secret.path} goes to the agent that {agent.path} names"
            print_message(f"{text}; name it with -a if that is meant", "yellow")
