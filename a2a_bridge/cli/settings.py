"""The pydantic-settings model of a class of options: it checks a configuration file, and merges it with what
the command line and the environment say: a flag outweighs a variable, which outweighs the file.

Rules:
1. Values of the file have the types of TOML: "8" is no number of calls. Lists are also taken for texts with
   commas, and times are also taken as a flag takes them: "1m".
2. A secret does not stand in the file, but `@FILE`.
3. Only commands that read a configuration file load this module: pydantic-settings takes 100 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin

import pydantic
import typer
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from a2a_bridge.cli.config_file import ConfigError, ConfigFile, Place, Problem, suggestion
from a2a_bridge.cli.target import BadTargetError, TargetKind, is_file, is_folder, parse
from a2a_bridge.cli.values import (
    listen_address,
    parse_binding,
    parse_dialect,
    parse_peer,
    plain_secret,
    seconds,
    text_or_file,
)
from a2a_bridge.core.options import Option, options_of
from a2a_bridge.hosting.programs import ProgramError, find_program

#: the tables of the file that is being read
_tree: ContextVar[dict[str, Any]] = ContextVar("_tree")
#: of tables with a name of their own
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
#: `@FILE`, and the same in a header
_IN_A_FILE = re.compile(r"(?:[^:@]+:\s*)?@(.+)")
#: files that the server makes
_WRITTEN = ("usage_file",)
#: options of one agent that only the files of one command have, with the command
_OF_COMMANDS = {"agent": "serve", "exec": "serve", "upstream": "gateway"}
#: options whose texts are read at the start of their command, with the functions that read them
_READ: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("http", "grpc", "admin"), partial(listen_address, flag="")),
    "a2a_version": partial(parse_dialect, flag=""),
    "binding": parse_binding,
    "peer": parse_peer,
    "upstream": parse,
}
#: types whose texts are not converted
_STRICT = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective values by option. in_file: those that the file decides, as they are written there."""

    values: Mapping[str, Any]
    in_file: Mapping[str, Any]


def effective(group: type, file: ConfigFile, given: Mapping[str, Any]) -> Settings:
    """Merges values from the command line and the environment with a file. Raises ConfigError."""
    return _merged(group, file, given, _resolve)


def check(group: type, file: ConfigFile, *, files: bool) -> None:
    """Checks a file alone. files: also that there are the files and programs that it names. Raises
    ConfigError, with all problems.
    """
    problems: list[Problem] = []
    try:
        _merged(group, file, {}, lambda _, value: value)
    except ConfigError as error:
        problems += error.problems
    tree, _ = _options_in(file.tree)
    for reason in (_unread, _absence) if files else (_unread,):
        found = _find_wrong(group, tree, (), reason)
        problems += [Problem(file.line_of(place), text) for place, text in found]
    if problems:
        raise ConfigError(file.path, sorted(problems, key=lambda one: one.line))


def _merged(
    group: type,
    file: ConfigFile,
    given: Mapping[str, Any],
    resolve: Callable[[Option | None, Any], Any],
) -> Settings:
    tree, problems = _options_in(file.tree)
    problems += _secrets(group, tree, ())
    problems += _find_repeated(group, tree)
    model: Any = None
    try:
        resolved = {name: resolve(options_of(group).get(name), value) for name, value in tree.items()}
        token = _tree.set(resolved)
        try:
            model = model_of(group)(**given)
        finally:
            _tree.reset(token)
    except typer.BadParameter as error:
        problems.append(((str(error.param_hint),), f"{error.param_hint}: {error.message}"))
    except pydantic.ValidationError as error:
        problems += [_problem(group, one) for one in error.errors()]
    else:
        problems += _unknown_in_rules(model)
        if tree.get("exec") and tree.get("agents"):
            problems.append(
                (("exec",), "exec and [agents.NAME] are both there; a program is exec in a table, too")
            )
    if problems:
        raise ConfigError(file.path, [Problem(file.line_of(place), text) for place, text in problems])
    in_file = {name: value for name, value in tree.items() if name not in given}
    return Settings({name: getattr(model, name) for name in type(model).model_fields}, in_file)


def schema(group: type) -> dict[str, Any]:
    """The JSON Schema of the files of a class of options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model_of(group).model_json_schema(),
    }


@cache
def model_of(group: type) -> type[BaseSettings]:
    """The model of a class of options."""
    return pydantic.create_model(group.__name__, __base__=_Settings, **_fields(group))


class _Settings(BaseSettings):
    """A configuration: given values, and the file."""

    # The check of secrets, and the origin of a value, would not find a key in capital letters.
    model_config = SettingsConfigDict(frozen=True, extra="forbid", case_sensitive=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources, the first one outweighs the others. The command has read the environment already."""
        return init_settings, InitSettingsSource(settings_cls, _tree.get({}))


class _TableModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


@cache
def _table_of(group: type) -> Any:
    """The type of a table in a file, whose values are objects of `group`."""
    model = pydantic.create_model(group.__name__, __base__=_TableModel, **_fields(group))

    def made(table: pydantic.BaseModel) -> Any:
        return group(**dict(table), given=frozenset(table.model_fields_set))

    return Annotated[model, pydantic.BeforeValidator(_underscore), pydantic.AfterValidator(made)]


def _fields(group: type) -> dict[str, Any]:
    found = {}
    for one in options_of(group).values():
        if one.described.in_file:
            default = ... if one.required else one.default
            found[one.name] = (_annotation(one), pydantic.Field(default, description=one.described.help))
    return found


def _annotation(one: Option) -> Any:
    """The type of an option, with its limits."""
    if (group := _table_class(one)) is not None:
        table: Any = _table_of(group)
        if get_origin(one.type) is tuple:
            return tuple.__class_getitem__((table, ...))
        return dict.__class_getitem__((Annotated[str, pydantic.AfterValidator(_named)], table))
    limits: dict[str, Any] = {}
    bases = [base for base in get_args(one.type) or (one.type,) if base is not type(None)]
    if one.type in _STRICT or (len(bases) == 1 and bases[0] in _STRICT and get_origin(one.type) is not list):
        limits["strict"] = True
    if one.described.least is not None:
        limits["ge"] = one.described.least
    if one.most is not None:
        limits["le"] = one.most
    if ",…" in (one.described.metavar or ""):
        joined = pydantic.BeforeValidator(_join, json_schema_input_type=str | list[str])
        return Annotated[one.type, pydantic.Field(**limits), joined]
    limited: Any = Annotated[one.type, pydantic.Field(**limits)]
    if one.described.metavar == "SECONDS":
        return Annotated[limited, pydantic.BeforeValidator(_time, json_schema_input_type=limited | str)]
    return limited


def _join(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    return value


def _time(value: Any) -> Any:
    try:
        return seconds(value) if isinstance(value, str) else value
    except typer.BadParameter as error:
        raise ValueError(error.message) from None


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name has 1 to 63 of a-z, 0-9 and -, and does not begin with -")
    return name


def _underscore(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {key.replace("-", "_"): value for key, value in table.items()}


def _options_in(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[Place, str]]]:
    """The values of a file by option, and problems: keys may have - for _, but not both."""
    found: dict[str, Any] = {}
    problems: list[tuple[Place, str]] = []
    for key, value in tree.items():
        name = key.replace("-", "_")
        if name in found:
            problems.append(((name,), f"{name} stands there twice, with _ and with -"))
        found[name] = value
    return found, problems


def _secrets(group: type, tree: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, str]]:
    """The secrets that stand in a file as they are."""
    for key, value in tree.items():
        one = options_of(group).get(key.replace("-", "_"))
        if one is None:
            continue
        if one.described.secret and plain_secret(one, value):
            yield (*place, key), f"{key} is a secret: write {_instead(one)}"
        for at, inner in _inner(one, value):
            yield from _secrets(_table_class(one), inner, (*place, key, at))


def _find_wrong(
    group: type, tree: Mapping[str, Any], place: Place, reason: Callable[[Option, str], str]
) -> Iterator[tuple[Place, str]]:
    """The texts that are wrong. reason: why the text of an option is; empty if it is right."""
    within = f" of [{'.'.join(map(str, place))}]" if place else ""
    for key, value in tree.items():
        one = options_of(group).get(key.replace("-", "_"))
        if one is None:
            continue
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        for text in texts[:1] if one.name == "exec" else texts:
            if found := reason(one, text):
                yield (*place, key), f"{key}{within}: {found}"
        for at, inner in _inner(one, value):
            yield from _find_wrong(_table_class(one), inner, (*place, key, at), reason)


def _unread(one: Option, text: str) -> str:
    """Why a text is no value of an option that its command reads at the start; empty if it is one."""
    read = _READ.get(one.name)
    if read is None or not text:
        return ""
    try:
        read(text)
    except (typer.BadParameter, BadTargetError) as error:
        return str(error)
    return ""


def _absence(one: Option, text: str) -> str:
    """Why the file or program in the value of an option cannot be used; empty if it can, or names none."""
    if one.name == "exec":
        try:
            find_program(text)
        except ProgramError as error:
            return str(error)
    path = ""
    if one.described.metavar == "FILE" and one.name not in _WRITTEN:
        path = text
    elif one.name == "agent":
        try:
            target = parse(text)
        except BadTargetError as error:
            return str(error)
        path = target.place if target.sort is TargetKind.FILE else ""
    elif one.described.secret and (named := _IN_A_FILE.match(text)) is not None:
        path = named[1]
    return "" if not path or is_file(path) or is_folder(path) else f"there is no file {path}"


def _unknown_in_rules(model: Any) -> Iterator[tuple[Place, str]]:
    """The names in access rules that are neither an operation nor an agent of the file."""
    for index, rule in enumerate(getattr(model, "rules", ())):
        for member, text in rule.unknown(getattr(model, "agents", ())):
            yield ("rules", index, member), f"[[rules]] {index + 1}: {member}: {text}"


def _find_repeated(group: type, tree: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The values that only one of several tables may have."""
    for key, tables in tree.items():
        one = options_of(group).get(key)
        if one is None or _table_class(one) is None or not isinstance(tables, dict):
            continue
        unique = [name for name, inner in options_of(_table_class(one)).items() if inner.described.unique]
        first: dict[tuple[str, str], str] = {}
        for table, values in tables.items():
            for name in unique:
                value = values.get(name) if isinstance(values, dict) else None
                if isinstance(value, str) and value:
                    owner = first.setdefault((name, value.lower()), table)
                    if owner != table:
                        text = (
                            f"{name} of [{key}.{table}] is that of [{key}.{owner}], too; each needs its own"
                        )
                        yield (key, table, name), text


def _instead(one: Option) -> str:
    variable = "" if one.variable is None else f", or set {one.variable}"
    return '"NAME: @FILE"' if get_args(one.type) else f'"@FILE"{variable}'


def _table_class(one: Option) -> Any:
    """The class of the tables in an option; None if it has none."""
    arguments = get_args(one.type)
    if one.flags or not arguments:
        return None
    kind = arguments[0] if get_origin(one.type) is tuple else arguments[-1]
    return kind if is_dataclass(kind) else None


def _inner(one: Option, value: Any) -> Iterable[tuple[str | int, Any]]:
    """The tables in the value of an option."""
    if _table_class(one) is None:
        return ()
    pairs: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    return [(at, table) for at, table in pairs if isinstance(table, dict)]


def _resolve(one: Option | None, value: Any) -> Any:
    """The value of an option with its text in another file that the command does not read itself."""
    if one is None or one.described.metavar != "URL" or not one.described.secret:
        return value
    return text_or_file(value, one.name) if isinstance(value, str) else value


def _problem(group: type, error: ErrorDetails) -> tuple[Place, str]:
    """An error of pydantic in words. No value is quoted: it may be a secret."""
    place: list[str | int] = [part for part in error["loc"] if part != "[key]"]
    within = "" if len(place) < 2 else f" of [{'.'.join(map(str, place[:-1]))}]"
    name, known = place[-1], options_of(_class_at(group, place))
    if error["type"] == "extra_forbidden":
        names = [key for key, one in known.items() if one.described.in_file]
        if not within and name in ("serve", "gateway"):
            return tuple(place), f"there is no table [{name}]: write its keys at the top of the file"
        if (other := _OF_COMMANDS.get(str(name))) is not None:
            use = f"; it belongs to a file of a2a-bridge {other}"
            return tuple(place), f"unknown key {name}{within}{use}"
        return tuple(place), f"unknown key {name}{within}{suggestion(str(name).lower(), names)}"
    if error["type"] == "missing":
        return tuple(place), f"{name}{within} is missing"
    reason = error["msg"].removeprefix("Value error, ").replace("Input should be", "has to be", 1)
    reason = reason.replace("a valid string", 'a text: "…"')
    if isinstance(name, int):  # one of a list
        return tuple(place), f"{place[-2]}: entry {name + 1} {reason}"
    return tuple(place), f"{name}{within}: {reason}" if "[key]" in error[
        "loc"
    ] else f"{name}{within} {reason}"


def _class_at(group: type, place: Sequence[str | int]) -> type:
    """The class of options that the last part of a place belongs to."""
    if len(place) > 2:
        one = options_of(group).get(str(place[0]))
        if one is not None and _table_class(one) is not None:
            return _class_at(_table_class(one), place[2:])
    return group
