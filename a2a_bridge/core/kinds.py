"""Whether what an application gives has the right types. Pure.

Rules:
1. It is found when it is given, and not as an AttributeError somewhere below.
2. A text names the field, what belongs there and how it is written, but never the value: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    """Raises TypeError for the first argument that is no sequence, or has an item of another type. A mapping
    is checked by its values.
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
