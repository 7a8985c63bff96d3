"""What an object of an application lacks of a protocol, found when it is given and not at its first call."""

from __future__ import annotations

from typing import Any, get_type_hints


def lacks(given: object, protocol: type[Any], name: str) -> bool:
    """Whether an object has no such member, or only the method of the protocol, which does nothing."""
    if not hasattr(given, name):
        return True
    method = getattr(getattr(given, name), "__func__", None)
    return method is not None and method is vars(protocol).get(name)


def require(given: object, protocol: type[Any]) -> None:
    """Raises TypeError with all members of a protocol, and of the protocols within, that an object lacks."""
    missing = _find_missing(given, protocol)
    if missing:
        raise TypeError(f"{type(given).__name__} is no {protocol.__name__}: it lacks {', '.join(missing)}")


def _find_missing(given: object, protocol: type[Any], prefix: str = "") -> list[str]:
    types = get_type_hints(protocol)
    found = []
    for name in {**types, **vars(protocol)}:
        if name.startswith("_"):
            continue
        if lacks(given, protocol, name):
            found.append(prefix + name)
        elif getattr(types.get(name), "_is_protocol", False):
            found += _find_missing(getattr(given, name), types[name], f"{prefix}{name}.")
    return found
