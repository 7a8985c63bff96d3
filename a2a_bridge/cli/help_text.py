"""`--help` and `--help-all` of a command.

Rules:
1. The options have headings: the groups of their declarations.
2. A command with a configuration file shows the options that people need first; `--help-all` shows all, and
   environment variables.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from a2a_bridge.cli.declared import is_client, takes_file

#: the headings that come first, in this order; the other ones follow as they are declared
_GROUPS = (
    *("Agent", "Message", "Task", "Result", "Upstream"),
    *("Listen", "Card", "Store", "Security", "Limits", "Process"),
)
_LAST = ("Configuration", "")
_ALL = "a2a_bridge.help_all"


class Helpful:
    """A command that has `--help-all`, and headings in its help."""

    callback: Any
    _all: Any = None

    def get_params(self, context: Any) -> list[Any]:
        """The parameters, those of help included."""
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
        """The completions, without older variants."""
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
        first, last = [*_GROUPS], [*_LAST]
        for heading in sorted(
            sections,
            key=lambda name: (
                name != "Arguments",
                last.index(name) + 1 if name in last else 0,
                first.index(name) if name in first else len(first),
            ),
        ):
            with formatter.section(heading or "Help"):
                formatter.write_dl(sections[heading])


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
