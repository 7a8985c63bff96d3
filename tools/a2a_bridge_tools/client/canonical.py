"""Results in a form that can be compared: placeholders replace the ids and times of a run. No diff of bytes.

Rules:
1. An id becomes `<id 1>`, `<id 2>` … in order of appearance, wherever it appears, so that relations between
   ids are compared and the ids themselves are not.
2. A timestamp becomes `<time>`; only its presence is compared.
3. Texts that differ only in values that look generated (UUIDs, long runs of hexadecimal digits, random
   letters and digits) are reported separately from real differences.
4. Metadata that the bridge uses to carry content of other versions is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_bridge.dialects import annotation, unmapped

_CARRIED = frozenset({unmapped.KEY, annotation.FINAL, annotation.SYNTHESISED})

ID_MEMBERS = frozenset({"id", "taskId", "contextId", "messageId", "artifactId"})
TIME_MEMBERS = frozenset({"timestamp", "createdAt", "lastModified"})


def canonical(tree: Any) -> Any:
    """A JSON tree with ids and times replaced. Members called `id` count only where they hold text."""
    return _walk(tree, {}, "")


def _walk(tree: Any, names: dict[str, str], member: str) -> Any:
    if isinstance(tree, Mapping):
        return {
            key: _walk(value, names, key)
            for key, value in sorted(tree.items())
            if not (key == "metadata" and isinstance(value, Mapping) and value and value.keys() <= _CARRIED)
            and key not in _CARRIED
        }
    if isinstance(tree, Sequence) and not isinstance(tree, (str, bytes)):
        return [_walk(item, names, member) for item in tree]
    if isinstance(tree, str) and tree:
        if member in ID_MEMBERS:
            return names.setdefault(tree, f"<id {len(names) + 1}>")
        if member in TIME_MEMBERS:
            return "<time>"
        # An agent can mention an id elsewhere, for example in the text of an error.
        for known, name in names.items():
            if len(known) >= 8 and known in tree:
                tree = tree.replace(known, name)
    return tree


#: UUIDs; runs of hexadecimal digits; runs of letters and digits of which there are some of both
_GENERATED = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Za-z]*[0-9])(?:[0-9a-fA-F]{8,}|(?=[0-9A-Za-z]*[A-Za-z])[0-9A-Za-z]{12,})(?![0-9A-Za-z])"
)


def without_generated(tree: Any) -> Any:
    """The tree with `<generated>` in place of the parts of texts that look generated."""
    if isinstance(tree, Mapping):
        return {key: without_generated(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_generated(item) for item in tree]
    return _GENERATED.sub("<generated>", tree) if isinstance(tree, str) else tree


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two trees differ. path: such as `[0].task.status`; `whole` for the trees themselves."""

    path: str
    this: str
    that: str

    def __str__(self) -> str:
        return f"{self.path}: {self.this} ≠ {self.that}"


def differences(left: Any, right: Any, path: str = "") -> list[Difference]:
    """The differences of two canonical trees; empty if they are equal."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        keys = sorted(set(left) | set(right))
        return _join(
            differences(left.get(key, _ABSENT), right.get(key, _ABSENT), f"{path}.{key}") for key in keys
        )
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return _join(
            differences(one, other, f"{path}[{index}]")
            for index, (one, other) in enumerate(zip(left, right, strict=True))
        )
    if left == right and isinstance(left, bool) is isinstance(right, bool):
        return []
    return [Difference(path.removeprefix(".") or "whole", _format(left), _format(right))]


def compare(left: Any, right: Any) -> tuple[list[Difference], list[Difference]]:
    """The differences of two canonical trees: all of them, and those without generated values."""
    found = differences(left, right)
    return found, differences(without_generated(left), without_generated(right)) if found else []


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _join(parts: Iterable[list[Difference]]) -> list[Difference]:
    return [one for part in parts for one in part]


def _format(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
