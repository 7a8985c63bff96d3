"""Effective options as text: a configuration file (`--print-config`), and lists with origins (`config show`).

Rules:
1. No secret is printed; see `secret_values.py`. The name of a file with a secret is no secret.
2. A configuration file that was printed gives the same options when it is read: defaults are comments,
   because some options may only be given together with others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from a2a_bridge.cli.declared import Option, Table, options_of
from a2a_bridge.cli.reading import Origin, Reading
from a2a_bridge.cli.secret_values import show_value


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
    return (
        value
        if value is None or isinstance(value, bool | int | float | str | Table | Mapping)
        else str(value)
    )


def literal(value: object) -> str:
    """A value in TOML, which is that of JSON for all types of options but tables."""
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
        return f"flag {max(one.flags, key=len).partition('/')[0]}"
    if origin is Origin.ENVIRONMENT:
        return f"environment {one.variable}"
    if origin is Origin.FILE:
        return f"{read.path}:{read.lines[one.name]}"
    return "default"
