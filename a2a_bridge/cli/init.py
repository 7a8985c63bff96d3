"""`a2a-bridge init`: writes a starter project. It overwrites nothing: it writes all of its files, or none."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge.cli.output import data, fail, print_message
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.starter_files import files_of
from a2a_bridge.cli.values import Exit, usage_error
from a2a_bridge.core.options import flag


class ProjectKind(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """What the agent of a project is: the keys of `KINDS`."""

    FUNCTION = "function"
    EXECUTOR = "executor"
    LANGGRAPH = "langgraph"
    PROGRAM = "program"


_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class InitFlags:
    """The flags of `init`."""

    kind: ProjectKind = flag(ProjectKind.FUNCTION, "What the agent is.", variable="", common=True)
    name: str = flag("", "Name of the agent; default: that of the folder.", "NAME", variable="", common=True)


@with_flags
def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the project, which may exist.", metavar="DIR")
    ] = Path(),
    *,
    flags: InitFlags,
) -> None:
    """Write a starter project: an agent, a test, pyproject.toml, a configuration and a Dockerfile.

    No file is overwritten.

    For example:

      a2a-bridge init desk

      a2a-bridge init --kind langgraph .
    """
    name = flags.name or _name_of(folder.absolute())
    if not _NAME.fullmatch(name):
        text = f"{name!r} is no name of a project: a lower-case letter, then letters, digits and -"
        raise usage_error("--name", text)
    files = files_of(flags.kind.value, name, version("a2a-transport-bridge"))
    _write(folder, files)
    for file in files:
        data(str(folder / file))
    if flags.kind.value == "langgraph" and find_spec("langgraph") is None:
        print_message(
            "note: LangGraph is not installed here: pip install -e '.[test]' in the folder", "yellow"
        )
    there = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    print_message(f"next: {there}pytest && a2a-bridge serve agent.py")


def _name_of(folder: Path) -> str:
    """The name of a project in a folder."""
    return re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-0123456789")[:63].strip("-") or "agent"


def _write(folder: Path, files: dict[str, str]) -> None:
    """Writes all files, or none. Raises typer.Exit."""
    written: list[Path] = []
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if taken := [name for name in files if (folder / name).exists()]:
            text = f"{folder} has {', '.join(taken)} already, and nothing is overwritten"
            raise fail(Exit.USAGE, text, "a2a-bridge init DIR, with another folder")
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                written.append(folder / name)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink()
        if made and folder.is_dir():
            folder.rmdir()
        raise fail(Exit.USAGE, f"{error.filename or folder} cannot be written: {error.strerror}") from None
