"""Tokens of `auth login`, by agent: a file that only its owner can read.

Rules:
1. The file is ~/.config/a2a-cli/tokens.json (XDG_CONFIG_HOME is respected), and has mode 0600 from the
   first byte.
2. A token belongs to the origin of an agent, and is sent nowhere else.
3. A token that has expired is not sent; its user logs in again.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from a2a_bridge.cli.environment import global_file

#: seconds before its end in which a token is not used any more
_MARGIN = 30.0


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token. Times in seconds since the epoch."""

    access_token: str = field(repr=False)
    expires_at: float
    token_url: str
    client_id: str

    @property
    def is_fresh(self) -> bool:
        """Whether it can still be sent."""
        return time.time() < self.expires_at - _MARGIN


def path() -> Path:
    """Where the tokens are."""
    return global_file().with_name("tokens.json")


def origin_of(url: str) -> str:
    """The origin of an agent: `https://host:port`."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    return f"{parts.scheme or 'grpc'}://{parts.netloc.rpartition('@')[2]}".lower()


def load(origin: str) -> StoredToken | None:
    """The token of an agent. Raises OSError, ValueError for a file that holds something else."""
    found = _read().get(origin)
    try:
        return None if found is None else StoredToken(**found)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{path()} holds something else for {origin}") from None


def save(origin: str, token: StoredToken) -> Path:
    """Keeps a token. Returns the file. Raises OSError, ValueError."""
    tokens = _read()
    tokens[origin] = asdict(token)
    place = path()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files that nobody else can read.
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".tokens")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(tokens, file, indent=1)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return place


def _read() -> dict[str, dict[str, object]]:
    try:
        tree = json.loads(path().read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(one, dict) for one in tree.values()):
        raise ValueError(f"{path()} holds no tokens")
    return tree
