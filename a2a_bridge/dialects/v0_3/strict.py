"""ProtoJSON of a2a.v1 for readers that reject members added after v0.3.0: metadata of parts, names of files.
Pure.

These members move into the metadata of the message or artifact that holds the part, by the index of the part.
"""

from __future__ import annotations

from typing import Any

#: in metadata of a message or artifact: index of a part -> its `metadata`, and the `name` of its file
PARTS = "urn:a2a-bridge:parts:1"

#: members with user content
_FREE = frozenset({"metadata", "data"})


def without_younger_members(tree: Any) -> Any:
    """The tree without these members. Changes it in place: the caller must own it."""
    rest = [tree]
    while rest:
        place = rest.pop()
        if type(place) is list:
            rest.extend(place)
        elif type(place) is dict:
            parts = place.get("content", place.get("parts"))
            if type(parts) is list:
                moved = {str(index): found for index, part in enumerate(parts) if (found := _take(part))}
                if moved:
                    place["metadata"] = {**(place.get("metadata") or {}), PARTS: moved}
            rest.extend(value for name, value in place.items() if name not in _FREE)
    return tree


def _take(part: Any) -> dict[str, Any]:
    """The members removed from a part."""
    found = {}
    if type(part) is dict:
        if metadata := part.pop("metadata", None):
            found["metadata"] = metadata
        file = part.get("file")
        if type(file) is dict and (name := file.pop("name", "")):
            found["name"] = name
    return found
