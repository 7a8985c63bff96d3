"""`a2a-bridge skill`: the Agent Skill, with which coding agents use this command."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.flags import Output, OutputFlags
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.values import Exit

app = command_group("skill", "Install the Agent Skill, with which coding agents use this command.")

#: where agents look for skills, below a project or a home
PLACE = Path(".agents") / "skills" / "a2a-bridge"


@app.command(cls=Command)
@with_flags
def install(
    folder: Annotated[
        Path, typer.Argument(help="The project, or a home; default: here.", metavar="DIR")
    ] = Path(),
    *,
    flags: OutputFlags,
) -> None:
    """Install the skill into DIR/.agents/skills/a2a-bridge, in place of an older one.

    Links that lead out of DIR are rejected; a link in the place of a file is replaced.

    For example:

      a2a-bridge skill install ~
    """
    from a2a_bridge.cli.output import data, document, fail

    target = folder / PLACE
    written = []
    try:
        with as_file(files("a2a_bridge_tools") / "skill_files") as source:
            for file in sorted(source.rglob("*.md")):
                path = target / file.relative_to(source)
                # A project that somebody else made can have links there.
                if not path.parent.resolve().is_relative_to(folder.resolve()):
                    raise fail(Exit.USAGE, f"{path.parent} leads out of {folder}", "another DIR")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_bytes(file.read_bytes())
                written.append(str(path))
    except OSError as error:
        raise fail(Exit.USAGE, f"{target} cannot be written: {error.strerror}", "another DIR") from None
    if flags.output is Output.JSON:
        document({"files": written})
    else:
        data("\n".join(f"Saved: {one}" for one in written))
