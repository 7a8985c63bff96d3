"""The parameter that lists extensions, under its two names (spec 3.2.6; 0.3.0: X-A2A-Extensions). Pure.

Rules:
1. A caller may use either name, or both. The lists are merged, each URI once.
2. The response uses the caller's names, or those of its version if the caller used none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from a2a_bridge.core.call import EXTENSIONS_PARAMETER

#: the name before 1.0
OLDER_EXTENSIONS = "x-a2a-extensions"

_NAMES = (EXTENSIONS_PARAMETER, OLDER_EXTENSIONS)


def merge(values: Iterable[str]) -> str:
    """Several lists as one, in their order, without repetition."""
    uris = (uri for value in values for part in value.split(",") if (uri := part.strip()))
    return ",".join(dict.fromkeys(uris))


def extension_names(used: Container[object], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The names for a response. used: the parameters of the request. usual: the names of its version."""
    return tuple(name for name in _NAMES if name in used) or usual
