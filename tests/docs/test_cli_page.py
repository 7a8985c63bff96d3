"""docs/reference/commands.md has the same flags and texts as the command, and every command line in the documentation is
valid.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer.main

from a2a_bridge.cli import app
from a2a_bridge.cli.values import Exit
from a2a_bridge.testing.each import each
from tests.docs.client_commands import CLIENT, flat, written
from tests.docs.pages import DOCS, PAGES, TEXTS, blocks, name, prose, section, table

PAGE = DOCS / "reference/commands.md"
ROOT_COMMAND: Any = typer.main.get_command(app)


VERBS = flat(ROOT_COMMAND.commands)


def options(verb: str) -> dict[str, Any]:
    """Flags of a verb -> option. `--help` is Click's own and has no parameter here."""
    return {
        ", ".join(sorted(option.opts, key=len, reverse=True)): option
        for option in VERBS[verb].params
        if option.param_type_name == "option"
    }


def default(option: Any) -> str:
    value = option.default
    if value is None or value is False or value == "" or callable(value):
        return ""
    return str(getattr(value, "value", value))


@each("verb", VERBS)
def test_the_flags_of_a_verb(verb: str) -> None:
    names = ("flag", "variable", "default")
    text = section(PAGE, verb)
    rows = table(text, *names) if verb not in CLIENT or "| flag |" in text else []
    if verb in CLIENT:
        rows = [*rows, *table(section(PAGE, "Options of client commands"), *names)]
    said = {flags: (variable, value) for flags, variable, value, _ in rows}
    assert said.pop("--help, -h") == ("", "")
    real = {flags: (str(option.envvar or ""), default(option)) for flags, option in options(verb).items()}
    assert said == real


def test_the_client_commands_are_as_they_are_generated() -> None:
    page = PAGE.read_text()
    assert written(page) == page


def test_acronyms_are_written_as_such() -> None:
    assert re.findall(r"\| [a-z][A-Z]{2}\w*", PAGE.read_text()) == ["| gRPC"]  # the only one that begins so


def test_flags_that_the_pages_name_exist() -> None:
    known = {name for one in VERBS.values() for option in one.params for name in option.opts}
    known |= {name for one in VERBS.values() for option in one.params for name in option.secondary_opts}
    # Those of Click, and of the programs that the Makefile runs.
    known |= {"--help", "--help-all", "--version", "--install-completion", "--show-completion"}
    known |= {"--seed", "--schedules", "--minutes", "--folder"}
    tools = {DOCS / "reference/benchmarks.md", DOCS / "reference/sdks.md"}
    unknown = [
        (name(page), flag)
        for page in PAGES
        if page not in tools
        for code in re.findall(r"`([^`\n]+)`", prose(page))
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)
        if flag not in known
    ]
    assert unknown == []


def test_the_verbs() -> None:
    said = [row[0] for row in table(PAGE.read_text(), "verb")]
    assert [re.findall(r"\[(?:([a-z -]+?))(?: [A-Z]|\])", cell)[0] for cell in said] == list(VERBS)


def test_the_flags_before_a_verb() -> None:
    said = set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text().partition("## Targets")[0]))
    real = {flag for option in ROOT_COMMAND.params for flag in option.opts if flag.startswith("--")}
    assert said == real | {"--help"}


def test_the_exit_codes() -> None:
    codes = {int(code) for code, *_ in table(section(PAGE, "Exit codes"), "code")}
    assert codes == {int(code) for code in Exit} | {130, 141}


LINES = [
    (name(page), line.removeprefix("$ ").strip())
    for page in TEXTS
    for block in blocks(page, "console")
    for line in block.body.splitlines()
    if line.startswith("$ a2a-bridge ")
]


@each(("page", "line"), LINES)
def test_a_command_line_can_be_read(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    length = next(number for number in (1, 2, 3) if " ".join(words[:number]) in VERBS)
    verb, arguments = " ".join(words[:length]), words[length:]
    # Reads flags and arguments as the command does, and raises its errors.
    VERBS[verb].make_context(verb, arguments)
    assert page


def test_there_are_command_lines() -> None:
    assert len(LINES) > 10
