"""Environment variables of the command, and the .env files of client commands.

Rules of variables:
1. A variable `A2A_BRIDGE_…` that no command has is an error. A variable of another command is none: one
   environment serves several commands.
2. A variable of a secret, and of a header, can end with `_FILE` and name a file with the value.
3. Variables that Kubernetes and Docker make of the name of a service are not ours.

Rules of .env files (SPEC.md 6.4):
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from a2a_bridge.cli.specification import OPTIONS
from a2a_bridge.cli.values import HEADER, file_text, usage_error
from a2a_bridge.core.options import CLIENT_PREFIX, PREFIX

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
    #: whether `--env-file` names the local file
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
        found: Environment = context.meta[_KEY]
        return found


def global_file() -> Path:
    """Where the file for all agents is."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "a2a-cli" / ".env"


def read_environment(named: str | None) -> list[EnvFile]:
    """The .env files that exist. named: the value of `--env-file`. Raises typer.BadParameter."""
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
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if not required:
            return None
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise usage_error("--env-file", f"{path} cannot be read: {reason}") from None
    values = {}
    for number, line in enumerate(lines, 1):
        if CLIENT_PREFIX not in line or line.lstrip().startswith("#"):
            continue
        entry = _LINE.fullmatch(line)
        if entry is None:
            raise usage_error("--env-file", f"{path}:{number}: not {CLIENT_PREFIX}OPTION=value")
        if entry["key"].startswith(CLIENT_PREFIX):
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
        older = (CLIENT_PREFIX + one.removeprefix("--").upper().replace("-", "_") for one in env_file.names)
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

    wanted = parsed.get("output") or os.environ.get(CLIENT_PREFIX + "OUTPUT") or found.get("output")
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
    """Warns of credentials for all agents if a local file, which others may have written, names the agent."""
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


_FILE = "_FILE"
#: A Service of the name `a2a-bridge`, or `a2a-bridge-NAME`, has such variables in each pod of its namespace.
_OF_SERVICES = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def read_variables(commands: Mapping[str, Any], first: str) -> None:
    """Checks the variables, and sets those whose values are in files: A2A_BRIDGE_STORE_KEY from
    A2A_BRIDGE_STORE_KEY_FILE. commands: all commands by name, which are loaded as far as they are needed.
    first: the command that runs. Raises typer.BadParameter for an unknown variable, for a variable that is
    set beside its `_FILE`, and for a file that cannot be read.
    """
    pending = {name for name in os.environ if name.startswith(PREFIX) and not _OF_SERVICES.fullmatch(name)}
    files = {name for name in pending if name.startswith(HEADER) and name.endswith(_FILE)}
    pending = {name for name in pending if not name.startswith(HEADER)}
    known: set[str] = set()
    # All commands are listed last, because the list looks for commands of other distributions.
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

        text = f"no command has this variable{suggestion(unknown, known)}"
        if "send" not in commands:
            text += "; those of the tools are not installed"
        raise usage_error(unknown, text)
    for name in sorted(files):
        secret = name.removesuffix(_FILE)
        if secret in os.environ:
            raise usage_error(name, f"{secret} is set as well")
        os.environ[secret] = file_text(os.environ[name], name)
        del os.environ[name]  # workers, and Envoy, read the variables again


def _variables(command: Any) -> Iterator[tuple[str, bool]]:
    """The variables of a command and of the commands in it, each with whether its value is a secret."""
    for inner in getattr(command, "commands", {}).values():
        yield from _variables(inner)
    declared = getattr(command.callback, "options", {})
    for one in command.params:
        if one.envvar:
            yield one.envvar, one.name in declared and declared[one.name].described.secret
