"""Which profile a peer has: callers by the headers of a request, agents by their card or by name. Not the
profiles.

Rules:
1. Nothing else in this project reads a user agent; bindings, dialects and gateways ask the profile for its
   quirks.
2. A caller is recognised by a few headers. The result is remembered for each combination of them, within a
   limit, because callers choose their headers.
3. Profiles of users come before those of the bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from a2a_bridge.peers.profile import UNKNOWN, Profile
from a2a_bridge.peers.profiles import PROFILES

GROUP = "a2a_bridge.peers"
USER_AGENT = "user-agent"

#: combinations of headers that are remembered
_REMEMBERED = 1024


class Profiles:
    """A table of profiles in the order in which they are tried."""

    def __init__(self, own: tuple[Profile, ...] = (), known: tuple[Profile, ...] = PROFILES) -> None:
        names = [one.name for one in (*own, *known, UNKNOWN)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two peer profiles are named {name!r}")
        self.all = (*own, *known)
        deciding = {name for one in self.all for signs in one.callers for name in signs.headers}
        self._headers = tuple(sorted(deciding))
        self._found: dict[tuple[str | None, ...], Profile] = {}

    def caller(self, parameters: Mapping[str, str]) -> Profile:
        """The profile of a caller, from the headers or metadata of its request by lower-case name."""
        get = parameters.get
        key = (get(USER_AGENT), *[get(name) for name in self._headers])
        found = self._found.get(key)
        return self._recognise(key) if found is None else found

    def _recognise(self, key: tuple[str | None, ...]) -> Profile:
        user_agent, *values = key
        headers = {
            name: value
            for name, value in zip(self._headers, values, strict=True)
            if value and not value.isspace()
        }
        found = next(
            (one for one in self.all if any(signs.match(user_agent or "", headers) for signs in one.callers)),
            UNKNOWN,
        )
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[key] = found
        return found

    def agent(self, headers: Mapping[str, str], members: frozenset[str]) -> Profile:
        """The profile of an agent. headers: of the response that holds its card; members: of that card."""
        return next(
            (one for one in self.all if any(signs.match(headers, members) for signs in one.agents)),
            UNKNOWN,
        )

    def find_profile(self, name: str) -> Profile:
        """The profile of a name. Raises LookupError that lists the names."""
        for one in self.all:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.all)
        raise LookupError(f"there is no peer profile {name!r}; known: {known}")


_added: tuple[Profile, ...] = ()
_table: Profiles | None = None


def add_profile(profile: Profile) -> None:
    """Adds a custom profile to this process; a further one of the same name replaces it.

    Raises ValueError for the name of a profile of the bridge.
    """
    global _added, _table
    added = (profile, *(one for one in _added if one.name != profile.name))
    Profiles(added)
    _added, _table = added, None


def profiles() -> Profiles:
    """The table: profiles that were added, profiles of entry points of group `a2a_bridge.peers`, profiles of
    the bridge.

    An entry point names a Profile, or a function without arguments that returns several.
    """
    global _table  # noqa: PLW0603  made once, because entry points are looked up in files
    if _table is None:
        found = [profile for point in entry_points(group=GROUP) for profile in _load(point.load())]
        names = {one.name for one in _added}
        _table = Profiles((*_added, *(one for one in found if one.name not in names)))
    return _table


def _load(what: Profile | Callable[[], tuple[Profile, ...]]) -> tuple[Profile, ...]:
    return (what,) if isinstance(what, Profile) else tuple(what())


def caller(parameters: Mapping[str, str]) -> Profile:
    """The profile of the caller of a request, from its headers or metadata; UNKNOWN for one that has none."""
    return (_table or profiles()).caller(parameters)


def find_profile(peer: Profile | str) -> Profile:
    """The profile that a user chose, by name or as it is; UNKNOWN for "". Raises LookupError."""
    if isinstance(peer, Profile):
        return peer
    return profiles().find_profile(peer) if peer else UNKNOWN
