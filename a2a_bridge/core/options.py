"""How options are declared: one field of a class is the only place where an option is described.

Rules:
1. The class of options of a command is a frozen dataclass, and each of its fields is made by `flag`, `of`,
   `table` or `required`. `of` names the field of a class of the library, which describes the option.
2. Everything else is made from the fields: flags and `--help` (`cli/reading.py`), environment variables
   (`cli/environment.py`), keys of the configuration file and its JSON Schema (`cli/settings.py`). `taken`
   gives the values back to the class of the library.
3. This module loads nothing but the standard library: `--help` reads every declaration.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

#: the prefix of the variable of each flag, and of client commands
PREFIX, CLIENT_PREFIX = "A2A_BRIDGE_", "A2ACLI_"
_KEY = "option"

#: the largest numbers of times, by unit: about 30 years, and 100 years. Infinity, and times that the system
#: cannot wait for, would fail much later.
_MOST = {"SECONDS": 1e9, "DAYS": 36500.0}
#: seconds of the unit in which a person gives a time that the library has in seconds
_UNITS = {"DAYS": 24 * 3600.0}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Description:
    """The description of a field by `flag` or `table`."""

    help: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    variable: str | None = None
    least: float | None = None
    group: str = ""
    common: bool = False
    secret: bool = False
    live: bool = False
    in_file: bool = True
    is_flag: bool = True
    unique: bool = False
    aliases: tuple[str, ...] = ()
    words: bool = False
    #: the class of the library with this option, and the name of its field
    source: tuple[type, str] | None = None
    #: the field of an option without which this option must not be given
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """A declared option."""

    #: the name of the field, and of the key in the configuration file
    name: str
    type: Any
    #: the value of an option that is not given
    default: Any
    #: True if it has to be given
    required: bool
    described: _Description

    @property
    def flags(self) -> tuple[str, ...]:
        """The names on the command line; empty for a table of the file."""
        if not self.described.is_flag:
            return ()
        return (self.described.names or (f"--{self.name.replace('_', '-')}",)) + self.described.aliases

    @property
    def variable(self) -> str | None:
        """The environment variable; None if there is none."""
        if self.described.variable == "" or not self.described.is_flag:
            return None
        if (self.described.variable or "").startswith(CLIENT_PREFIX):
            return self.described.variable
        return PREFIX + (self.described.variable or self.name.upper())

    @property
    def most(self) -> float | None:
        """The largest number."""
        return _MOST.get(self.described.metavar or "")


def flag(
    default: _T,
    explanation: str,
    metavar: str | None = None,
    *names: str,
    variable: str | None = None,
    least: float | None = None,
    group: str = "",
    common: bool = False,
    secret: bool = False,
    live: bool = False,
    in_file: bool = True,
    unique: bool = False,
    aliases: tuple[str, ...] = (),
    words: bool = False,
    shown: bool = True,
) -> _T:
    """An option of a command.

    explanation: for `--help`. metavar: None for a switch, and for an enum, whose members are shown. names: of
    the flag, by default `--` and the name of the field. variable: the environment variable without its
    prefix, by default the name of the field; "" for none. least: the smallest number. A time also has a
    largest one. group: the heading in `--help`. common: whether a command with a configuration file shows it
    without `--help-all`. secret: whether it may hold a secret (of a URL: the password), which is never
    printed; its variable can end with `_FILE`, and in a configuration file it is `@FILE`. live: whether a
    running server takes a new value. in_file: whether it is a key of the configuration file. unique: of an
    option in tables by name: no two tables may have the same value, in capital or small letters.
    words: whether it takes all words up to the next flag of the command; its variable has them as a shell
    would write them. shown: whether `repr` of the options shows the value.
    """
    described = _Description(
        explanation,
        metavar,
        names,
        variable,
        least,
        group,
        common,
        secret,
        live,
        in_file,
        unique=unique,
        aliases=aliases,
        words=words,
    )
    made: _T = field(default=default, repr=shown, metadata={_KEY: described})
    return made


def of(group: type, name: str, /, **changes: Any) -> Any:
    """An option that a class of the library has: with its default and its description. changes: of these; the
    default can have another type, and then stands for the default of the library.
    """
    (one,) = (one for one in fields(group) if one.name == name)
    described: _Description = one.metadata[_KEY]
    default: Any = one.default
    if described.metavar in _UNITS and "default" not in changes:
        default /= _UNITS[described.metavar]
    default = changes.pop("default", default)
    return field(default=default, metadata={_KEY: replace(described, source=(group, name), **changes)})


def taken(group: type, options: Any) -> dict[str, Any]:
    """The values that a command has of the options of a class of the library, with the names and the types of
    that class.
    """
    declared: type = type(options)
    defaults: dict[str, Any] = {one.name: one.default for one in fields(group)}
    found = {}
    for one in options_of(declared).values():
        if one.described.source is not None and issubclass(group, one.described.source[0]):
            name = one.described.source[1]
            found[name] = _as_in_library(one, getattr(options, one.name), defaults[name])
    return found


def _as_in_library(one: Option, value: Any, default: Any) -> Any:
    """The value of an option of a command with the type of the library. default: of the library."""
    if value == one.default and type(value) is not type(default):
        return default
    if isinstance(default, tuple | frozenset):
        return type(default)(texts(value) if isinstance(value, str) else value or ())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    unit = _UNITS.get(one.described.metavar or "")
    return value if unit is None else value * unit


def texts(joined: str) -> tuple[str, ...]:
    """The texts that an option with commas has."""
    return tuple(filter(None, map(str.strip, joined.split(","))))


def required(explanation: str, metavar: str | None = None) -> Any:
    """An option of a table that has to be given. explanation and metavar: as for `flag`."""
    return field(metadata={_KEY: _Description(explanation, metavar, is_flag=False)})


def table(default: Callable[[], _T], explanation: str, *, live: bool = False) -> _T:
    """An option of configuration files only: tables by name, or a list. default: makes the value of an option
    that is not given. explanation and live: as for `flag`.
    """
    described = _Description(explanation, live=live, is_flag=False)
    made: _T = field(default_factory=default, metadata={_KEY: described})
    return made


@dataclass(frozen=True, kw_only=True)
class Table:
    """The base of classes whose objects are tables of a configuration file."""

    #: the names of the options that the file has in this table
    given: frozenset[str] = frozenset()


@cache
def options_of(group: type) -> Mapping[str, Option]:
    """The options of a class by name, first the options that the most derived class declares."""
    types = get_type_hints(group)
    declared = {one.name: one for one in fields(group)}
    found = {}
    for name in dict.fromkeys(name for base in group.__mro__ for name in inspect.get_annotations(base)):
        one = declared[name]
        if _KEY not in one.metadata:  # the field of `Table`
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        required = default is MISSING
        found[name] = Option(name, types[name], None if required else default, required, one.metadata[_KEY])
    return MappingProxyType(found)
