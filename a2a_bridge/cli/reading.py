"""The options of one command line: declared by a class, read from flags, variables and a file, shown as text.

Rules:
1. A flag outweighs an environment variable, which outweighs the file, which outweighs the default.
2. Without `--config` neither pydantic nor a TOML parser is loaded.
3. A file can be read again while the command runs; flags and the environment stay as they are.
4. No secret is printed (`show_value`). The name of a file with a secret is no secret.
5. A configuration file that was printed gives the same options when it is read: defaults are comments,
   because some options may only be given together with others.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from a2a_bridge.cli.help import takes_file
from a2a_bridge.cli.values import as_usage_error, seconds, show_value, usage_error
from a2a_bridge.core.options import Option, Table, options_of

_KEY = "a2a_bridge.reading"


class Origin(Enum):
    """Where a value comes from."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


#: Click's names
_GIVEN = {"COMMANDLINE": Origin.FLAG, "ENVIRONMENT": Origin.ENVIRONMENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Options and where they come from."""

    group: type
    #: an object of `group`
    flags: Any
    #: the values of flags and variables, and which of both they are
    given: Mapping[str, Any]
    origins: Mapping[str, Origin]
    #: None without a configuration file
    path: Path | None = None
    #: the values that the file decides, as they are written there, and their lines
    in_file: Mapping[str, Any]
    lines: Mapping[str, int]
    #: the content of the file
    text: str = ""

    @classmethod
    def of(cls, context: typer.Context, group: type, values: Mapping[str, Any]) -> Reading:
        """Reads the options of a command whose flags and variables have these values, and keeps the result
        for `of_context`. Raises typer.BadParameter.
        """
        origins = {}
        for name in values:
            source = context.get_parameter_source(name)
            if source is not None and source.name in _GIVEN:
                origins[name] = _GIVEN[source.name]
        given = {name: values[name] for name in origins}
        path = values.get("config")
        read = cls(
            group=group,
            flags=group(**values),
            given=given,
            origins=origins,
            path=path,
            in_file={},
            lines={},
        )
        if path is not None:
            from a2a_bridge.cli.config_file import ConfigError

            with as_usage_error("--config", ConfigError):
                read = read.again()
        context.meta[_KEY] = read
        return read

    @classmethod
    def of_context(cls, context: typer.Context) -> Reading:
        """The options of the running command."""
        read: Reading = context.meta[_KEY]
        return read

    def again(self) -> Reading:
        """The options with the file as it is now. Raises ConfigError."""
        from a2a_bridge.cli.config_file import ConfigFile
        from a2a_bridge.cli.settings import effective  # loads pydantic

        if self.path is None:
            return self
        file = ConfigFile.read(self.path)
        options = options_of(self.group)
        keys = {name: value for name, value in self.given.items() if options[name].described.in_file}
        settings = effective(self.group, file, keys)
        others = {name: value for name, value in self.given.items() if name not in keys}
        return replace(
            self,
            flags=self.group(**settings.values, **others),
            in_file=settings.in_file,
            lines={name: file.line_of((name,)) for name in settings.in_file},
            text=file.text,
        )

    def origin(self, name: str) -> Origin:
        """Where the value of an option comes from."""
        if name in self.origins:
            return self.origins[name]
        return Origin.FILE if name in self.in_file else Origin.DEFAULT

    def is_default(self, name: str) -> bool:
        """True for an option that nobody has set."""
        return self.origin(name) is Origin.DEFAULT


def config_text(read: Reading) -> str:
    """The options as a configuration file in TOML."""
    lines: list[str] = []
    tables: list[str] = []
    for one in options_of(read.group).values():
        if not one.described.in_file:
            continue
        value = _written(read, one)
        if not one.flags:
            tables += _tables(one, value)
            continue
        lines += ["", f"# {one.described.help}", _assignment(one, value, read.is_default(one.name))]
    return "\n".join([*lines[1:], *tables, ""])


def rows(read: Reading) -> Iterator[tuple[str, Any, str]]:
    """Name, value that can be printed, and origin of each option."""
    for one in options_of(read.group).values():
        if not one.described.in_file:
            continue
        value = show_value(one, plain(_written(read, one)))
        if not one.flags:
            value = _plain_tables(value)
        yield one.name, value, _origin(read, one)


def plain(value: Any) -> Any:
    """A value with the types of JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    is_plain = value is None or isinstance(value, bool | int | float | str | Table | Mapping)
    return value if is_plain else str(value)


def literal(value: object) -> str:
    """A value in TOML, which is written as in JSON for all types of options but tables."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _written(read: Reading, one: Option) -> Any:
    """The value of an option as it would stand in a file: the name of a file for a text that is in it."""
    value = getattr(read.flags, one.name)
    if one.flags and one.described.secret and read.origin(one.name) is Origin.FILE:
        return read.in_file[one.name]
    return value


def _assignment(one: Option, value: Any, is_default: bool) -> str:
    value = plain(value)
    if value is None or value == []:
        return f"# {one.name} ="
    printed = show_value(one, value)
    if printed != value and not one.described.secret:
        return f"# {one.name} = {literal(printed)}  # with a secret: {one.variable}"
    if printed != value:
        instead = f'{one.variable}, or "@FILE" here' if one.variable else "'NAME: @FILE'"
        return f"# {one.name} = {literal(printed)}  # a secret: {instead}"
    return f"{'# ' if is_default else ''}{one.name} = {literal(value)}"


def _tables(one: Option, value: Any) -> Iterator[str]:
    """The tables of an option, each with the keys that it has."""
    named = isinstance(value, Mapping)
    for name, table in value.items() if named else (("", table) for table in value):
        yield f"\n[{one.name}.{name}]" if named else f"\n[[{one.name}]]"
        for inner in _inner(table).values():
            if inner.name in table.given:
                yield _assignment(inner, getattr(table, inner.name), False)


def _plain_tables(value: Any) -> Any:
    """Tables as JSON."""
    if isinstance(value, Mapping):
        return {name: _plain_tables(table) for name, table in value.items()}
    if isinstance(value, list):
        return [_plain_tables(table) for table in value]
    return {
        inner.name: show_value(inner, plain(getattr(value, inner.name)))
        for inner in _inner(value).values()
        if inner.name in value.given
    }


def _inner(table: Table) -> Mapping[str, Option]:
    kind: type = type(table)
    return options_of(kind)


def _origin(read: Reading, one: Option) -> str:
    origin = read.origin(one.name)
    if origin is Origin.FLAG:
        return f"flag {_flag(one)}"
    if origin is Origin.ENVIRONMENT:
        return f"environment {one.variable}"
    if origin is Origin.FILE:
        return f"{read.path}:{read.lines[one.name]}"
    return "default"


def _flag(one: Option) -> str:
    return max(one.flags, key=len).partition("/")[0]


def _check_given(read: Reading) -> None:
    """Raises typer.BadParameter for an option without the option that it needs, and for an option of
    authentication that is given and empty, as by a variable of a shell that is not set: nobody would be
    checked.
    """
    from a2a_bridge.cli.server_flags import EdgeFlags  # only commands of servers have these options

    options, security = options_of(read.group), options_of(EdgeFlags)
    for name, one in options.items():
        value, needed = getattr(read.flags, name), one.described.needs
        if name in security and value == "" and read.origin(name) in (Origin.FLAG, Origin.FILE):
            raise usage_error(_flag(one), "is empty")
        if needed and value and not read.is_default(name) and not getattr(read.flags, needed):
            raise usage_error(_flag(one), f"needs {_flag(options[needed])}")


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, which has the flags of its parameter whose type is a class of options."""
    signature = inspect.signature(command)
    types: dict[str, Any] = get_type_hints(command, include_extras=True)
    (name,) = (name for name, kind in types.items() if is_dataclass(kind))
    group = types[name]
    options = options_of(group)
    flags = [_parameter(one) for one in options.values() if one.flags]
    others = [one.replace(annotation=types[key]) for key, one in signature.parameters.items() if key != name]
    context = next((one.name for one in others if one.annotation is typer.Context), None)

    @wraps(command)
    def run(**values: Any) -> None:
        chosen = {one.name: values.pop(one.name) for one in flags}
        if context is None or not takes_file(options):
            command(**values, **{name: group(**chosen)})
            return
        read = Reading.of(values[context], group, chosen)
        if chosen["print_config"]:
            typer.echo(config_text(read), nl=False)
            return
        _check_given(read)
        command(**values, **{name: read.flags})

    run.__signature__ = signature.replace(parameters=[*others, *flags])  # type: ignore[attr-defined]
    # For help, names of variables, and the configuration file.
    run.options, run.group = options, group  # type: ignore[attr-defined]
    return run


def _parameter(one: Option) -> inspect.Parameter:
    """An option as the parameter of a function, annotated for Typer."""
    described = one.described
    limits: dict[str, Any] = {"min": described.least, "max": one.most}
    if described.metavar == "SECONDS":
        limits = {"parser": partial(seconds, least=described.least, most=one.most)}
    option = typer.Option(
        *one.flags, envvar=one.variable, help=described.help, metavar=described.metavar, **limits
    )
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=one.default,
        annotation=Annotated[one.type, option],
    )
