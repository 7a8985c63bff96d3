"""Credentials of the user: where the card of an agent wants them (SPEC.md 10.1, 10.4), and kept in a file.

Rules:
1. They go to the interfaces of an agent only, never with the request for its public card.
2. A card without security schemes gets a bearer token as `Authorization` and an API key as `X-API-Key`: many
   agents do not declare what they ask for. A card whose schemes take neither gets none, with a warning.
3. `auth login` keeps tokens by agent in ~/.config/a2a-cli/tokens.json (XDG_CONFIG_HOME is respected). The
   file has mode 0600 from the first byte, so that only its owner can read it.
4. A token is sent only to the origin of its agent, and only until it expires. Then its user logs in again.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli.environment import global_file
from a2a_bridge.core.masking import Secrets
from a2a_bridge.pb import lf_a2a_v1 as hub

_BEARER = ("oauth2_security_scheme", "open_id_connect_security_scheme")


@dataclass(slots=True)
class Placed:
    """Where credentials go."""

    #: service parameters
    parameters: dict[str, str] = field(default_factory=dict)
    #: members of the query of URLs
    query: dict[str, str] = field(default_factory=dict)
    #: the credentials that no scheme takes
    unused: list[str] = field(default_factory=list)


def takes_bearer(scheme: hub.SecurityScheme) -> bool:
    """Whether a scheme takes a bearer token."""
    which = scheme.WhichOneof("scheme")
    http = scheme.http_auth_security_scheme.scheme.lower()
    return which in _BEARER or (which == "http_auth_security_scheme" and http == "bearer")


def list_required(card: hub.AgentCard) -> list[str]:
    """The names of the schemes that the card asks for; empty if it also lets callers in without any."""
    found = [list(one.schemes) for one in card.security_requirements]
    return [] if not all(found) else list(dict.fromkeys(name for names in found for name in names))


def place(card: hub.AgentCard, bearer: str, api_key: str) -> Placed:
    """Puts credentials where the card wants them."""
    placed = Placed()
    schemes = list(_list_wanted(card))
    if bearer:
        if not schemes or any(map(takes_bearer, schemes)):
            placed.parameters["authorization"] = f"Bearer {bearer}"
        else:
            placed.unused.append("--bearer")
    if api_key:
        keys = [one.api_key_security_scheme for one in schemes if one.HasField("api_key_security_scheme")]
        if not schemes:
            placed.parameters["x-api-key"] = api_key
        for one in keys:
            if one.location == "query":
                placed.query[one.name] = api_key
            elif one.location == "cookie":
                placed.parameters["cookie"] = f"{one.name}={api_key}"
            else:
                placed.parameters[one.name.lower()] = api_key
        if schemes and not keys:
            placed.unused.append("--api-key")
    return placed


def secrets_of(card: hub.AgentCard, options: DialOptions) -> Secrets:
    """The credentials of a connection, and where the card says that some are."""
    schemes = (one.api_key_security_scheme for one in card.security_schemes.values())
    # Each member of the query that the user has named may be one.
    given = (name for name, _ in parse_qsl(options.named.partition("?")[2]))
    names = [name.lower() for name in (*(one.name for one in schemes if one.name), *given)]
    return Secrets.of(options.parameters, options.query, names)


def _list_wanted(card: hub.AgentCard) -> Iterator[hub.SecurityScheme]:
    """The schemes of the requirements; without requirements all that are declared."""
    names = {name for one in card.security_requirements for name in one.schemes}
    for name, scheme in card.security_schemes.items():
        if not names or name in names:
            yield scheme


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


def load_token(origin: str) -> StoredToken | None:
    """The token of an agent. Raises OSError, ValueError for a file that holds something else."""
    found = _read().get(origin)
    try:
        return None if found is None else StoredToken(**found)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{path()} holds something else for {origin}") from None


def save_token(origin: str, token: StoredToken) -> Path:
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
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if not isinstance(tree, dict) or not all(isinstance(one, dict) for one in tree.values()):
        raise ValueError(f"{path()} holds no tokens")
    return tree
