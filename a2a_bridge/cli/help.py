"""`--help` and `--help-all` of a command, `help` and `completion`, and advice for what other programs have.

Rules:
1. A command with a configuration file shows the options that people need first; `--help-all` shows all, and
   environment variables. The headings are the groups that the options are declared with.
2. A command or an option that other programs have, and this one has not, is an error that says what to type.
3. `--help` loads this module, so it imports little.
"""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from enum import Enum
from shlex import quote
from types import MappingProxyType
from typing import Annotated, Any

import typer

#: the headings that come first, in this order; other headings follow as they are declared
_GROUPS = (
    *("Agent", "Message", "Task", "Result", "Upstream"),
    *("Listen", "Card", "Store", "Security", "Limits", "Process"),
)
_LAST = ("Configuration", "")
_ALL = "a2a_bridge.help_all"


def is_client(options: Mapping[str, Any]) -> bool:
    """True for the options of a client command, whose class is derived from `ClientFlags`."""
    return "agent_card" in options


def takes_file(options: Mapping[str, Any]) -> bool:
    """True for the options of a command that reads a configuration file (`ConfigFlags`)."""
    return "print_config" in options


class Helpful:
    """A command that has `--help-all`, and headings in its help."""

    callback: Any
    _all: Any = None

    def get_params(self, context: Any) -> list[Any]:
        """The parameters, `--help` and `--help-all` included."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        plain = self.get_help_option(context)  # type: ignore[attr-defined]
        if plain is None:
            return parameters
        if self._all is None:  # one object: Click compares
            self._all = copy(plain)
            self._all.name, self._all.opts = "help_all", ["--help-all"]
            self._all.help = "Show every option, with its variable, and exit."
            self._all.callback = _show_all
        return [*parameters, self._all]

    def shell_complete(self, context: Any, incomplete: str) -> list[Any]:
        """The completions, without the older variants of options."""
        declared = getattr(self.callback, "options", {})
        hidden = {name for one in declared.values() for name in one.described.aliases}
        found: list[Any] = super().shell_complete(context, incomplete)  # type: ignore[misc]
        return [one for one in found if one.value not in hidden]

    def format_options(self, context: Any, formatter: Any) -> None:
        """Writes the arguments and the options."""
        everything = context.meta.get(_ALL, False)
        declared = getattr(self.callback, "options", {})
        has_file = takes_file(declared) or is_client(declared)
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(context):
            described = declared[one.name].described if one.name in declared else None
            if described and has_file and not everything and not described.common:
                continue
            one.show_envvar = everything
            record = newest(one, described).get_help_record(context)
            if record is None:
                continue
            group = (described.group or "Other") if described else ""
            heading = "Arguments" if one.param_type_name == "argument" else group if has_file else "Options"
            sections.setdefault(heading, []).append(record)
        for heading in sorted(sections, key=place_of):
            with formatter.section(heading or "Help"):
                formatter.write_dl(sections[heading])


def place_of(heading: str) -> tuple[bool, int, int]:
    """Sorts the headings of a help."""
    return (
        heading != "Arguments",
        _LAST.index(heading) + 1 if heading in _LAST else 0,
        _GROUPS.index(heading) if heading in _GROUPS else len(_GROUPS),
    )


def newest(parameter: Any, described: Any) -> Any:
    """A parameter without the variants that help and completion do not show."""
    if described is None or not described.aliases:
        return parameter
    shown = copy(parameter)
    shown.opts = [one for one in parameter.opts if one not in described.aliases]
    return shown


def _show_all(context: Any, _parameter: Any, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        import typer

        typer.echo(context.get_help())
        context.exit()


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


_SERVE = "a2a-bridge serve FILE.py"
_GATEWAY = "a2a-bridge gateway URL"
_SEND = "a2a-bridge send -a TARGET TEXT"

#: names of commands that do not exist, or no longer -> the command to use
INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "call": f"{_SEND}, or a2a-bridge compare -a TARGET TEXT for --binding all",
        **dict.fromkeys(
            ("start", "run", "up", "expose", "host"),
            f"{_SERVE} for an agent in Python, {_GATEWAY} for one elsewhere",
        ),
        **dict.fromkeys(("proxy", "bridge", "forward"), _GATEWAY),
        **dict.fromkeys(("ask", "message", "client", "stream"), _SEND),
        **dict.fromkeys(("test", "doctor", "validate", "verify"), "a2a-bridge check TARGET"),
        **dict.fromkeys(("discover", "info", "describe"), "a2a-bridge card -a TARGET"),
        **dict.fromkeys(("list", "tasks"), "a2a-bridge task list -a TARGET"),
        **dict.fromkeys(("get", "status"), "a2a-bridge task get -a TARGET ID"),
        "cancel": "a2a-bridge task cancel -a TARGET ID",
        **dict.fromkeys(("playground", "inspect", "inspector"), "a2a-bridge ui TARGET"),
        "version": "a2a-bridge --version",
    }
)

_ADDRESS = "--http HOST:PORT and --grpc HOST:PORT"
#: options that servers of other programs have -> what to use
_LISTENING = MappingProxyType(
    {
        **dict.fromkeys(("--port", "-p", "--host", "--bind", "-b", "--address", "--addr"), _ADDRESS),
        "--http-port": "--http HOST:PORT",
        "--grpc-port": "--grpc HOST:PORT",
        **dict.fromkeys(("--url", "--base-url"), "--public-url URL, the address that the card shows"),
        **dict.fromkeys(("--cert", "--certfile", "--tls-cert"), "--ssl-certfile FILE"),
        **dict.fromkeys(("--key", "--keyfile", "--tls-key"), "--ssl-keyfile FILE"),
    }
)
#: options that clients of other programs have
_CALLING = MappingProxyType(
    {
        **dict.fromkeys(("--url", "--agent-url", "--server", "--host", "--port", "-p"), "-a TARGET"),
        **dict.fromkeys(("--token", "--auth"), "--bearer TOKEN"),
        **dict.fromkeys(("--json", "--format"), "-o json"),
        **dict.fromkeys(("--message", "-m", "--text"), "the text without an option"),
    }
)
_SERVERS = frozenset({"serve", "gateway", "server", "ui"})
#: commands that take one text, which has to be quoted if it has several words
_ONE_TEXT = frozenset({"send", "compare"})
_CODE = re.compile(r"\S+\.py(?::\w+)?")
_TARGET = re.compile(r"\w+://\S+|[\w.\[\]-]*:\d+(?:/\S*)?|\S+\.(?:py|json)(?::\w+)?")


#: groups whose first word may be taken for the agent -> the command of the group for an agent
_COMMAND_OF_GROUP = MappingProxyType({"card": "get", "task": "list"})


def instead_of_command(group: str, word: str) -> str:
    """The command line for a word that is no command of a group; empty if that is not known. group: empty for
    all commands.
    """
    if not _TARGET.fullmatch(word) or (group and group not in _COMMAND_OF_GROUP):
        return ""
    if not group:
        is_code = _CODE.fullmatch(word) is not None
        return f"a2a-bridge serve {quote(word)}" if is_code else f"a2a-bridge send -a {quote(word)} TEXT"
    return f"a2a-bridge {group} {_COMMAND_OF_GROUP[group]} -a {quote(word)}"


def instead_of_option(command: str, option: str) -> str:
    """What to use instead of an option that a command lacks; empty if that is not known."""
    known = _LISTENING if command in _SERVERS else _CALLING
    return known.get(option.partition("=")[0], "")


def instead_of_words(command: str, words: Sequence[str]) -> str:
    """The command line for words of which a command takes fewer; empty if that is not known."""
    target = next((word for word in words if _TARGET.fullmatch(word)), "")
    if command == "server":
        return f"a2a-bridge serve {target}; `server` serves a demo agent" if target else ""
    if command in _SERVERS or not (target or command in _ONE_TEXT):
        return ""
    target = target or "TARGET"
    rest = [word for word in words if word is not target]
    if command in _ONE_TEXT:
        rest = [" ".join(rest)] if rest else []
    return " ".join(["a2a-bridge", command, "-a", target, *(quote(word) for word in rest)])
