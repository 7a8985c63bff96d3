"""The commands by name. `--help` and `--version` import no command; each is imported when it is used."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from a2a_bridge.cli import habits
from a2a_bridge.cli.declared import is_client
from a2a_bridge.cli.help_text import Helpful
from a2a_bridge.cli.specification import COMMANDS

#: name of a command, which is that of its module and its function (or of `app`) → its help in the list
SUMMARIES = {
    "send": "Send a message to an agent, and show what becomes of it.",
    "task": "Look at tasks, cancel, list and follow them, save their artifacts.",
    "card": "Show the card of an agent.",
    "auth": "Get a token for an agent from its identity provider.",
    "chat": "Talk with an agent, message by message.",
    "conformance": "Check a live agent with A2A's conformance documents.",
    "server": "Serve a demo agent over every binding, to practise on.",
    "serve": "Serve an agent over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.",
    "gateway": "Serve the agent at UPSTREAM over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.",
    "compare": "Send a message over every interface and version of a card, and compare the answers.",
    "check": "Look at everything between a client and the agent at TARGET, and name what to change.",
    "ui": "Serve the playground for the agent at TARGET: a page to call it over several bindings at once.",
    "usage": "Show the callers of a gateway or an agent, with the time of their last call.",
    "config": "Check configuration files, and show the effective options.",
    "completion": "Print the completion script of a shell: bash, zsh, fish, powershell or pwsh.",
    "help": "Show the help of a command.",
    "skill": "Install the Agent Skill, with which coding agents use this command.",
    "export": "Print configurations of other programs for a bridge.",
    "peers": "List the peer profiles: the recognised implementations of A2A, and their quirks.",
    "keys": "Create, list and revoke the API keys of callers.",
    "db": "Upgrade or check the tables of a store.",
    "push": "List push notifications and dead letters, and send dead letters again.",
}


#: commands whose module is in `client`
_CLIENT = frozenset({"auth", "card", "chat", "compare", "conformance", "send", "task"})

#: the class of all errors of a command line. Typer has it in a private module, older versions from click
_UsageError: Any = typer.BadParameter.__base__


class _TakesAsIs:
    """A command or a group that takes defaults as they are, and converts texts and members of enums itself.

    Typer converts every value with pydantic, defaults too. In each server that takes 80 ms and 11 MB.
    """

    callback: Any

    def get_params(self, context: Any) -> list[Any]:
        """The parameters, that of `--help` included."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        declared = {} if self.callback is None else inspect.signature(self.callback).parameters
        for one in parameters:
            # Older versions of Typer have the types of click, which are light.
            if getattr(one, "type", None) is None and not isinstance(one.process_value, partial):
                kind = _kind(declared[one.name].annotation) if one.name in declared else None
                one.process_value = partial(_value, one, one.process_value, kind)
        return parameters


def _kind(annotation: Any) -> Any:
    """The type in `Annotated[type, …]` and `Annotated[type | None, …]`."""
    kind = next(iter(get_args(annotation)), None)
    kinds = [one for one in get_args(kind) if one is not type(None)]
    return kinds[0] if len(kinds) == 1 and get_origin(kind) in (Union, UnionType) else kind


def _value(parameter: Any, process: Callable[[Any, Any], Any], kind: Any, context: Any, value: Any) -> Any:
    """Takes the place of `process`, which is Typer's, where a value needs no check."""
    if parameter.required or value is not parameter.default:
        if not (isinstance(value, str) and isinstance(kind, type) and issubclass(kind, str)):
            return process(context, value)
        try:
            value = kind(value)
        except ValueError:
            known = ", ".join(repr(one.value) for one in kind)  # type: ignore[attr-defined]
            text = f"{value!r} is not one of {known}"
            raise typer.BadParameter(text, ctx=context, param=parameter) from None
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _arguments(command: Any, words: list[str]) -> list[str]:
    """The words that are neither options nor their values, and the target of -a."""
    valued = {name for one in command.params if not getattr(one, "is_flag", False) for name in one.opts}
    before = ["", *words]
    return [
        word
        for word, last in zip(words, before, strict=False)
        if not word.startswith("-") and (last not in valued or last == "-a")
    ]


def _advise(error: Any, context: Any, words: list[str]) -> None:
    """Adds what to type instead to an error about an unknown option, or about too many words."""
    names: list[str] = []
    asked = context.command
    while context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    command = " ".join(names)
    option = getattr(error, "option_name", "")
    if option and hasattr(error, "possibilities"):
        advice = habits.instead_of_option(command, option)
        if advice:
            error.possibilities = None  # names that look alike, but mean something else
    else:
        given = _arguments(asked, words) if "extra argument" in error.message else []
        advice = habits.instead_of_words(command, given) if given else ""
    if advice:
        error.message = f"{error.message}; use {advice}"


class Command(_TakesAsIs, Helpful, TyperCommand):
    """A command. A client command also reads .env files."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        words = list(args)
        try:
            if is_client(getattr(self.callback, "options", {})) and not context.resilient_parsing:
                from a2a_bridge.cli.environment import take_environment

                take_environment(context, self.params, args)
            left: list[str] = super().parse_args(context, args)
        except _UsageError as error:
            _advise(error, context, words)
            raise
        if "output" in context.params:
            from a2a_bridge.cli.output import decide_json

            decide_json(getattr(context.params["output"], "value", None) == "json")
        return left


class Group(_TakesAsIs, TyperGroup):
    """A group of commands."""


def command_group(name: str, explanation: str) -> typer.Typer:
    """A group of commands below a name. explanation: for `--help`."""
    return typer.Typer(
        cls=Group,
        add_completion=False,
        rich_markup_mode=None,
        name=name,
        help=explanation,
        no_args_is_help=True,
    )


class Commands(Group):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Loaded()

    def invoke(self, context: Any) -> Any:
        """Runs a command. An error of its command line is also a JSON document, if that asks for JSON."""
        from a2a_bridge.cli.output import clean, decide_json

        decide_json(None)
        try:
            return super().invoke(context)
        except BrokenPipeError:
            # The reader of our output has closed it; without this, Python reports it again when it flushes at
            # exit. Typer would end with 1.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(141) from None
        except _UsageError as error:
            error.message = clean(error.message)
            from a2a_bridge.cli.error_codes import local
            from a2a_bridge.cli.options import Exit
            from a2a_bridge.cli.output import document, wants_json

            if wants_json():
                path = getattr(getattr(error, "ctx", None), "command_path", "a2a-bridge")
                document(local(Exit.USAGE, error.format_message(), f"{path} --help").document)
            raise

    def get_command(self, context: Any, name: str) -> Any:
        """A command, by its newest name or an older one."""
        if name in habits.COMMANDS:
            from a2a_bridge.cli.options import Exit
            from a2a_bridge.cli.output import fail

            raise fail(Exit.USAGE, f"there is no command {name}", habits.COMMANDS[name])
        return super().get_command(context, COMMANDS.get(name, name))

    def list_commands(self, _context: Any) -> list[str]:
        return list(SUMMARIES)

    def format_commands(self, _context: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


class _Loaded(dict[str, Any]):
    """The commands; each is imported when it is read."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(SUMMARIES))

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            command = self[name] = _load(name)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  dict.get does not load

    def values(self) -> Any:
        return self._complete().values()

    def items(self) -> Any:
        return self._complete().items()

    def _complete(self) -> dict[str, Any]:
        return {name: self[name] for name in self}


def _load(name: str) -> Any:
    folder = "client." if name in _CLIENT else ""
    module = importlib.import_module(f"a2a_bridge.cli.{folder}{name.replace('-', '_')}")
    group: typer.Typer | None = getattr(module, "app", None)
    if group is not None:
        command: Any = get_group(group)
    else:
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        group.command(name, cls=Command)(getattr(module, name))
        command = get_command(group)
    command.name = name
    return command
