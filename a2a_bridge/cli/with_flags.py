"""From a class of options to the flags of a command, and from a command line to an object of the class.

A command with `ConfigFlags` takes the rest from that file: see `reading.py`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

import typer

from a2a_bridge.cli.declared import Option, options_of, takes_file
from a2a_bridge.cli.reading import Reading


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
            from a2a_bridge.cli.config_text import config_text

            typer.echo(config_text(read), nl=False)
            return
        command(**values, **{name: read.flags})

    run.__signature__ = signature.replace(parameters=[*others, *flags])  # type: ignore[attr-defined]
    # For help, names of variables, and the configuration file.
    run.options, run.group = options, group  # type: ignore[attr-defined]
    return run


_TIME = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def seconds(text: str | float, *, least: float | None = None, most: float | None = None) -> float:
    """The seconds of `2`, `0.5`, `500ms`, `5s`, `2m` or `1h`. Raises typer.BadParameter."""
    found = _TIME.fullmatch(str(text).strip().lower())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time such as 5s, 500ms or 2m")
    value = float(found[1]) * _UNITS[found[2]]
    if not (least or 0) <= value <= (most or math.inf):
        raise typer.BadParameter(f"{text} is not in the range {least or 0:g} to {most or math.inf:g} seconds")
    return value


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
