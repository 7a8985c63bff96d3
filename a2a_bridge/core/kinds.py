"""Checks of objects that an application gives: the types of values, and the members of protocols. Pure.

Rules:
1. A wrong object is found when it is given, and not as an AttributeError at its first use.
2. The text of an error names the field, its type and an example, but never the value: it may be a secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

#: name of a field -> its types, and how a value is written
Kinds = Mapping[str, tuple[tuple[type[Any], ...], str]]

NUMBER: tuple[type[Any], ...] = (int, float)


def check_kinds(given: object, kinds: Kinds) -> None:
    """Raises TypeError for the first field that has none of its types."""
    for name, (types, example) in kinds.items():
        value = getattr(given, name)
        if not isinstance(value, types):
            raise TypeError(f"{type(given).__name__}.{name} is {example}, not {type(value).__name__}")


def check_values(owner: str, values: Mapping[str, Any], kinds: Kinds) -> None:
    """Raises TypeError for the first argument that has none of its types. owner: the function."""
    for name, (types, example) in kinds.items():
        value = values[name]
        if not isinstance(value, types):
            raise TypeError(f"{name} of {owner} is {example}, not {type(value).__name__}")


def check_items(owner: str, values: Mapping[str, Any], kinds: Kinds) -> None:
    """Raises TypeError for the first argument that is no sequence or mapping, or has an item of another type.
    The items of a mapping are its values.
    """
    for name, (types, example) in kinds.items():
        value = values[name]
        items = value.values() if isinstance(value, Mapping) else value
        if isinstance(value, str) or not isinstance(value, (Sequence, frozenset, set, Mapping)):
            raise TypeError(f"{name} of {owner} is {example}, not {type(value).__name__}")
        for item in items:
            if not isinstance(item, types):
                raise TypeError(f"{name} of {owner} has {type(item).__name__}: it is {example}")


def check_options(given: object, kind: type[Any], name: str = "options") -> None:
    """Raises TypeError for options that are neither None nor an object of their class."""
    if given is not None and not isinstance(given, kind):
        text = f"{name} is {kind.__name__}(…), not {type(given).__name__}"
        if isinstance(given, dict):
            text += f": write {kind.__name__}({', '.join(f'{one}=…' for one in list(given)[:3]) or ''})"
        raise TypeError(text)


def lacks(given: object, protocol: type[Any], name: str) -> bool:
    """True if an object lacks a member, or has only the method of the protocol, which does nothing."""
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
