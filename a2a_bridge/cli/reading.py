"""The options of one command line: from flags, environment variables, a configuration file and defaults.

Rules:
1. A flag outweighs an environment variable, which outweighs the file, which outweighs the default.
2. Without `--config` neither pydantic nor a TOML parser is loaded.
3. A file can be read again while the command runs; flags and the environment stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from a2a_bridge.cli.declared import options_of

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

            try:
                read = read.again()
            except ConfigError as error:
                raise typer.BadParameter(str(error), param_hint="--config") from None
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
