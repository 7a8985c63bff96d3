"""The commands by name. `--help` and `--version` import no command; each is imported when it is used.

Rules:
1. The commands that run a server are modules of this package. All others are entry points of the group
   `a2a_bridge.commands`: `NAME`, or `GROUP.NAME` for a command of a group. The names of the commands of the
   tools and of the adapters are known here: where these are not installed, an error says what to install.
2. An entry point never takes the place of a command that runs a server; a command of a group may.
3. If several distributions have the same command, the one of the tools or the adapters counts. If neither has
   it, its use is an error.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from a2a_bridge.cli.help import (
    INSTEAD,
    Helpful,
    instead_of_command,
    instead_of_option,
    instead_of_words,
    is_client,
)
from a2a_bridge.cli.specification import COMMANDS
from a2a_bridge.cli.values import Exit
from a2a_bridge.core import extras
from a2a_bridge.core.extras import OtherVersionError, check_version, missing_fronts, missing_tools
from a2a_bridge.extensions import BrokenExtensionError, load, owner

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: name of a command, and of its function or group → its help in the list
SUMMARIES = {
    "send": "Send a message to an agent, and show what becomes of it.",
    "task": "Look at tasks, cancel, list and follow them, save their artifacts.",
    "card": "Show the card of an agent.",
    "auth": "Get a token for an agent from its identity provider.",
    "chat": "Talk with an agent, message by message.",
    "conformance": "Check a live agent with A2A's conformance documents.",
    "server": "Serve a demo agent over every binding, to practise on.",
    "init": "Write a starter project: an agent, a test, a configuration and a Dockerfile.",
    "serve": "Serve an agent over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.",
    "gateway": "Serve the agent at UPSTREAM over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.",
    "front": "Serve an agent to clients of other protocols: MCP, and OpenAI's API.",
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
#: the modules of commands that are not in a module of their name
_MODULES = {
    "completion": "help",
    "db": "store_commands",
    "peers": "profiles",
    "push": "store_commands",
}

#: the group of entry points for commands of other distributions
GROUP = "a2a_bridge.commands"
#: the commands of the tools
TOOLS = frozenset(
    {"auth", "card", "chat", "check", "compare", "conformance", "send", "server", "skill", "task", "ui"}
)

#: the commands of the adapters
FRONTS = frozenset({"front"})
#: each command of another distribution → its absence
_ABSENT = dict.fromkeys(TOOLS, missing_tools) | dict.fromkeys(FRONTS, missing_fronts)

#: the class of all errors of a command line. Typer has it in a private module, older versions from click
_UsageError: Any = typer.BadParameter.__base__


class _TakesAsIs:
    """A command or a group that takes defaults as they are, and converts texts and members of enums itself.
    Typer converts every value with pydantic, defaults too, which costs each server 80 ms and 11 MB.
    """

    callback: Any

    def get_params(self, context: Any) -> list[Any]:
        """The parameters, `--help` included."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        declared = {} if self.callback is None else inspect.signature(self.callback).parameters
        for one in parameters:
            # Older versions of Typer have the types of click, which are light.
            if getattr(one, "type", None) is None and not isinstance(one.process_value, partial):
                kind = _kind(declared[one.name].annotation) if one.name in declared else None
                one.process_value = partial(_value, one, one.process_value, kind)
        for one in parameters:
            if one.name in _options_with_words(self):
                one.value_from_envvar = partial(_words_of_variable, one)
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


def _options_with_words(command: Any) -> set[str]:
    """The names of the options that take several words."""
    declared = getattr(command.callback, "options", {})
    return {name for name, one in declared.items() if one.described.words}


def _words_of_variable(parameter: Any, context: Any) -> list[str] | None:
    """The words in a variable, as a shell would read them."""
    text = parameter.resolve_envvar_value(context)
    if text is None:
        return None
    try:
        return shlex.split(text)
    except ValueError as error:
        raise typer.BadParameter(f"{str(error).lower()} in {parameter.envvar}", param=parameter) from None


def _each_by_itself(command: Any, context: Any, words: list[str]) -> list[str]:
    """The words of a command line in which each word of an option that takes several words has its flag:
    `--exec=PROG --exec=ARG --http :0` for `--exec PROG ARG --http :0`. The words of such an option end before
    the next flag of the command with two dashes; after `--`, which is left out, all words belong to the
    option. Raises typer.BadParameter for such an option without words.
    """
    names = _options_with_words(command)
    if not names:
        return words
    parameters = command.get_params(context)
    flags = {flag for one in parameters for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--")}
    takers = {flag for one in parameters if one.name in names for flag in one.opts}
    result: list[str] = []
    taker, rest = "", iter(words)
    for place, word in enumerate(rest):
        flag, equals, value = word.partition("=")
        if flag in takers:
            after = words[place + 1 :]
            if not (value if equals else after[1:] if after[:1] == ["--"] else _word(after, flags)):
                raise typer.BadParameter("needs at least one word", ctx=context, param_hint=flag)
            taker, first = flag, [value] if equals else []
            result += [f"{taker}={one}" for one in first]
        elif taker and word == "--":
            result += [f"{taker}={one}" for one in rest]
        elif word == "--":
            result += [word, *rest]
        elif taker and flag not in flags:
            result.append(f"{taker}={word}")
        else:
            taker = ""
            result.append(word)
    return result


def _word(words: list[str], flags: set[str]) -> bool:
    """Whether words begin with one that is no flag."""
    return bool(words) and words[0].partition("=")[0] not in flags


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
        advice = instead_of_option(command, option)
        if advice:
            error.possibilities = None  # names that look alike, but mean something else
    else:
        given = _arguments(asked, words) if "extra argument" in error.message else []
        advice = instead_of_words(command, given) if given else ""
    if advice:
        error.message = f"{error.message}; use {advice}"


class _WholeSummary:
    """A command or a group whose first sentence is shown whole in the help of its group."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence. limit: Click would cut it there."""
        del limit
        text: str = super().get_short_help_str(1000)  # type: ignore[misc]
        return text


class Command(_WholeSummary, _TakesAsIs, Helpful, TyperCommand):
    """A command. A client command also reads .env files."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        words = list(args)
        try:
            if is_client(getattr(self.callback, "options", {})) and not context.resilient_parsing:
                from a2a_bridge.cli.environment import take_environment

                take_environment(context, self.params, args)
            args = _each_by_itself(self, context, args)
            left: list[str] = super().parse_args(context, args)
        except _UsageError as error:
            _advise(error, context, words)
            raise
        if "output" in context.params:
            from a2a_bridge.cli.output import decide_json

            decide_json(getattr(context.params["output"], "value", None) == "json")
        return left


class Group(_WholeSummary, _TakesAsIs, TyperGroup):
    """A group of commands."""

    def resolve_command(self, context: Any, args: list[str]) -> Any:
        """The command that the first word names. Raises UsageError."""
        try:
            return super().resolve_command(context, args)
        except _UsageError as error:
            group = context.info_name if context.parent is not None else ""
            if advice := instead_of_command(group, args[0]):
                error.message = f"{error.message.rstrip('.')}; use {advice}"
            elif group and "Did you mean" not in error.message:
                names = ", ".join(self.list_commands(context))
                error.message = f"{error.message.rstrip('.')}; {context.command_path} has {names}"
            raise


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
        self.commands = _Loaded()  # type: ignore[assignment]  # nothing writes to it

    def invoke(self, context: Any) -> Any:
        """Runs a command. An error of its command line is also a JSON document, if that asks for JSON."""
        from a2a_bridge.cli.output import decide_json
        from a2a_bridge.core.foreign_text import clean

        decide_json(None)
        try:
            return super().invoke(context)
        except BrokenExtensionError as error:  # a version, a transport or a profile, which the command needs
            from a2a_bridge.cli.output import not_loaded

            raise not_loaded("", error) from None
        except BrokenPipeError:
            # The reader of our output has closed it. Typer would end with 1, and Python report it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(141) from None
        except _UsageError as error:
            error.message = clean(error.message)
            from a2a_bridge.cli.output import document, local_failure, wants_json

            if wants_json():
                path = getattr(getattr(error, "ctx", None), "command_path", "a2a-bridge")
                document(local_failure(Exit.USAGE, error.format_message(), f"{path} --help").document)
            raise

    def get_command(self, context: Any, name: str) -> Any:
        """A command, by its newest name or an older one."""
        newest = COMMANDS.get(name, name)
        is_absent = newest in _ABSENT and newest not in self.commands
        if name in INSTEAD or is_absent:
            from a2a_bridge.cli.output import fail

            if name in INSTEAD:
                raise fail(Exit.USAGE, f"there is no command {name}", INSTEAD[name])
            missing = _ABSENT[newest]()
            raise fail(Exit.USAGE, f"{newest}: {missing.text}", missing.remedy)
        if newest in _ABSENT:
            _check(newest)
        return super().get_command(context, newest)

    def list_commands(self, _context: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, _context: Any, formatter: Any) -> None:
        here = {name: text for name, text in SUMMARIES.items() if name in self.commands}
        others = {
            name: f"From {' and '.join(filter(None, map(owner, points))) or 'a damaged installation'}."
            for name, points in _points().items()
            if name not in SUMMARIES and "." not in name
        }
        absent = {name: text for name, text in SUMMARIES.items() if name not in here}
        sections = {"Commands": here | others}
        for name, text in absent.items():
            title = f"Commands that are not installed ({_ABSENT[name]().remedy})"
            sections.setdefault(title, {})[name] = text
        for title, listed in sections.items():
            if listed:
                with formatter.section(title):
                    formatter.write_dl(list(listed.items()))


class _Loaded(Mapping[str, Any]):
    """The commands; each is imported when it is read, and entry points are looked for when one is needed."""

    def __init__(self) -> None:
        self._read: dict[str, Any] = {}

    def __contains__(self, name: object) -> bool:
        return name in _OWN or (name in _points() and "." not in str(name))

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in SUMMARIES if name in self)
        yield from sorted(name for name in _points() if name not in SUMMARIES and "." not in name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = _load(name)
        return self._read[name]


_OWN = SUMMARIES.keys() - _ABSENT.keys()


@cache
def _points() -> Mapping[str, Sequence[EntryPoint]]:
    """The commands of other distributions by name, with an entry point of each distribution that has the
    command. Beside the tools and the adapters, no other distribution counts.
    """
    from importlib.metadata import entry_points  # loads the parser of email

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return {
        name: [one for one in points if owner(one) in (extras.TOOLS, extras.ADAPTERS)] or points
        for name, points in found.items()
    }


def _load(name: str) -> Any:
    """The command of a name (rule 1)."""
    if name in _OWN:
        module = importlib.import_module(f"a2a_bridge.cli.{_MODULES.get(name, name)}")
        command = _made(name, getattr(module, name, None) or module.app)
    else:
        command = _of_others(name, _points()[name])
    if isinstance(command, TyperGroup):
        for added, points in _points().items():
            group, _, own = added.partition(".")
            if group == name and own:
                command.commands[own] = _of_others(own, points)
    return command


def _check(name: str) -> None:
    """Prints an error, and ends, if the distribution with a command is ours and of another version."""
    try:
        check_version(_points()[name][0].dist)
    except OtherVersionError as error:
        from a2a_bridge.cli.output import not_loaded

        raise not_loaded(name, error) from None


def _of_others(name: str, points: Sequence[EntryPoint]) -> Any:
    """The command of an entry point. A command that cannot be loaded says so when it is used, and not before:
    the other commands must work.
    """
    what = f"the command {points[0].name!r}"
    if len(points) > 1:
        return _broken(name, what, BrokenExtensionError(what, "it is there more than once", points))
    try:
        check_version(points[0].dist)
        found = load(points[0], what)
    except (OtherVersionError, BrokenExtensionError) as error:
        return _broken(name, what, error)
    reason = f"{points[0].value} is neither a function nor a Typer"
    if callable(found):
        try:
            return _made(name, found)
        except Exception as error:  # noqa: BLE001  Typer raises several for a function that is no command
            reason = f"{type(error).__name__}: {error}"
    return _broken(name, what, BrokenExtensionError(what, reason, points))


def _broken(name: str, what: str, cause: OtherVersionError | BrokenExtensionError) -> Any:
    """A command that takes any words, and says why it cannot be loaded."""

    def broken(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        del words
        from a2a_bridge.cli.output import not_loaded

        raise not_loaded(what, cause)

    command = _made(name, broken)
    command.help = f"{cause.text[0].upper()}{cause.text[1:]}."
    command.ignore_unknown_options = True
    return command


def _made(name: str, found: Any) -> Any:
    """The command of a function, or of a Typer with commands."""
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        group.command(name, cls=Command)(found)
        command = get_command(group)
    command.name = name
    return command
