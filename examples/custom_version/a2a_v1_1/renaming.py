"""Members of JSON trees under other names, found by the descriptors of the hub. Free JSON of users is
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf.message import Message

#: JSON name of a member -> the descriptor of the message in it, None for a scalar
Members = Mapping[str, Any]


class Renaming:
    """Renames members in both directions. `names`: name in 1.0 -> the new name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self._old = {new: old for old, new in self.names.items()}

    def writer(self, cls: type[Message]) -> Callable[[Any], Any]:
        """Tree of 1.0 → tree with the new names."""
        return lambda tree: self._renamed(tree, cls.DESCRIPTOR, self.names, unknown=())

    def reader(self, cls: type[Message]) -> Callable[[Any], Any]:
        """Tree with the new names → tree of 1.0. A member with a name of 1.0 is unknown, and is left out."""
        return lambda tree: self._renamed(tree, cls.DESCRIPTOR, self._old, unknown=self.names)

    def _renamed(self, tree: Any, kind: Any, names: Mapping[str, str], unknown: Any) -> Any:
        if isinstance(tree, list):
            return [self._renamed(item, kind, names, unknown) for item in tree]
        if not isinstance(tree, dict):
            return tree
        members = _members(kind)
        made = {}
        for name, value in tree.items():
            known = names.get(name, name)
            if name in unknown and name in members:
                continue
            below = members.get(name) or members.get(known)
            made[known] = value if below is None else self._renamed(value, below, names, unknown)
        return made


@cache
def _members(kind: Any) -> Members:
    """The members of a message. Maps and the well-known types contain scalars or content of users."""
    found: dict[str, Any] = {}
    for field in kind.fields:
        below = field.message_type
        inner = (
            below is not None and not below.GetOptions().map_entry and below.file.package == kind.file.package
        )
        found[field.json_name] = below if inner else None
    return found
