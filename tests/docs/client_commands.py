"""The client commands in docs/reference/commands.md, generated from their declarations.

`python -m tests.docs.client_commands` writes them; `make generate` runs that, and a test compares.
"""

from __future__ import annotations

import inspect
from typing import Any

import typer.main

from a2a_bridge.cli import app
from a2a_bridge.cli.help import is_client
from tests.docs.pages import DOCS

PAGE = DOCS / "reference/commands.md"
BEGIN = "<!-- generated from the client commands by `make generate` -->\n"
END = "<!-- end of the client commands -->\n"
ROOT: Any = typer.main.get_command(app)


def flat(commands: dict[str, Any]) -> dict[str, Any]:
    """Verbs -> commands; those of a group as `group verb`."""
    found: dict[str, Any] = {}
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        found |= (
            {name: command} if inner is None else {f"{name} {key}": one for key, one in flat(inner).items()}
        )
    return found


CLIENT = {
    verb: one for verb, one in flat(ROOT.commands).items() if is_client(getattr(one.callback, "options", {}))
}


def row(option: Any, declared: Any) -> str:
    """A line of a table."""
    names = ", ".join(f"`{one}`" for one in sorted(option.opts, key=len, reverse=True))
    value = option.default
    plain = "" if value in (None, False, "") or callable(value) else f"`{getattr(value, 'value', value)}`"
    variable = f"`{option.envvar}`" if option.envvar else ""
    help_ = declared.described.help.replace("|", "\\|")
    # An acronym such as URL keeps its first letter.
    first = help_[0] if help_[1].isupper() else help_[0].lower()
    return f"| {names} | {variable} | {plain} | {first}{help_[1:].removesuffix('.')} |"


HEAD = ["| flag | variable | default | meaning |", "|---|---|---|---|"]


def sections() -> str:
    """The sections of all client commands, and the table of the options that all of them have."""
    shared = set.intersection(*(set(one.callback.options) for one in CLIENT.values()))
    first = next(iter(CLIENT.values()))
    lines = [
        "## Options of client commands",
        "",
        "Every client command has these, besides its own.",
        "",
        *HEAD,
    ]
    lines += [row(one, first.callback.options[one.name]) for one in first.params if one.name in shared]
    lines += ["| `--help`, `-h` | | | |"]
    for verb, command in CLIENT.items():
        text, _, example = inspect.cleandoc(command.help).partition("For example:")
        lines += ["", f"## {verb}", "", text.strip(), "", "```text"]
        lines += [f"$ {line.strip()}" for line in example.splitlines() if line.strip()]
        own = [
            one for one in command.params if one.name in command.callback.options and one.name not in shared
        ]
        lines += ["```", *(["", *HEAD] if own else [])]
        lines += [row(one, command.callback.options[one.name]) for one in own]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the current sections."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{sections()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
