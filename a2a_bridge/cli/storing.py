"""Where `serve` keeps tasks when nobody says: a file named after the agent. It opens nothing."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail
from a2a_bridge.hosting import Agent

#: below the working directory; what is in it may be private
FOLDER = Path(".a2a-bridge")
_LONGEST = 48


def store_url(given: str, agent: Agent) -> str:
    """The store to open: the given one, else a file for this agent, whose folder is made. Raises typer.Exit."""
    if given:
        return given
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise fail(
            Exit.USAGE,
            f"the folder {FOLDER} for tasks cannot be made: {error.strerror}",
            "--store sqlite:///PATH for another place, or --store memory:// to keep nothing",
        ) from None
    return f"sqlite:///{FOLDER / file_name(agent.card.name)}"


def file_name(name: str) -> str:
    """A file name for an agent: its name where that can be one; else what is left of it and a digest, so that no two
    agents share a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:_LONGEST]
    if plain and plain == name:
        return f"{plain}.db"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain or 'agent'}-{digest}.db"
