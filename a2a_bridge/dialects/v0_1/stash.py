"""The stash: content of an object of 0.1 that its 0.3 form cannot express, kept as one member of that form.
It knows no type of A2A.

A unit is a JSON object without the units inside it: a part, a message without its parts, and so on. Each has
two pure functions, `decode` (0.1 → 0.3) and `encode` (0.3 → 0.1), which may both lose content. Rules:

1. On conversion to 0.3, content that encode(decode(x)) loses is recorded as entries: a path, and the value at
   that path, or no value for a member to be removed. Regular input has no entries, and no stash.
2. On conversion to 0.1, an entry is used only if the object with it still decodes to the same 0.3 object. So
   a stash decides the spelling and never the meaning, whatever its origin and whatever the changes to the
   object since.
3. The stash is an unknown member in 0.3, which allows unknown members; it is carried as these are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

from a2a_bridge.codec import DecodeError
from a2a_bridge.dialects.unmapped import same

#: the member of 0.3 objects that holds the entries, and the metadata key for content without another place on
#: 0.1 wires
STASH = "urn:a2a-bridge:v0.1"

#: maximum number of entries that are read; a stash written here is far shorter
MOST_ENTRIES = 1000

Unit = dict[str, Any]
Path = list[str]
Coding = Callable[[Unit], Unit]


def coders(decode: Coding, encode: Coding) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """`decode_unit` and `encode_unit` of one kind of unit. Other JSON than an object is unchanged."""
    return (
        lambda wire: decode_unit(wire, decode, encode) if type(wire) is dict else wire,
        lambda tree: encode_unit(tree, decode, encode) if type(tree) is dict else tree,
    )


def without_nulls(unit: Unit, names: Container[str]) -> Unit:
    """A copy without those of the members that are null."""
    return {name: value for name, value in unit.items() if value is not None or name not in names}


def decode_unit(wire: Unit, decode: Coding, encode: Coding) -> Unit:
    """A unit of 0.1 as one of 0.3, with a stash if needed."""
    made = decode({name: value for name, value in wire.items() if name != STASH})
    entries = list(_differences(encode(made), wire))
    if entries:
        made[STASH] = entries
    return made


def encode_unit(tree: Unit, decode: Coding, encode: Coding) -> Unit:
    """A unit of 0.3 as one of 0.1, in the spelling of its stash as far as the stash still applies."""
    if STASH not in tree:
        return encode(tree)
    tree = dict(tree)
    stash = tree.pop(STASH)
    wire = encode(tree)
    entries = stash if type(stash) is list and len(stash) <= MOST_ENTRIES else []
    patched = _patched(wire, entries)
    if patched is not None and _says(patched, tree, decode):
        return patched
    for entry in entries:
        patched = _patched(wire, [entry])
        if patched is not None and _says(patched, tree, decode):
            wire = patched
    return wire


def _says(wire: Unit, tree: Unit, decode: Coding) -> bool:
    try:
        said = decode({name: value for name, value in wire.items() if name != STASH})
    except DecodeError:
        return False
    return same(said, tree)


def _differences(canonical: Unit, given: Unit) -> Iterator[list[Any]]:
    """Entries that turn `canonical` into `given`: [path, value], or [path] for a member to be removed."""
    for name in canonical.keys() - given.keys():
        yield [[name]]
    for name, value in given.items():
        if name not in canonical:
            yield [[name], value]
        elif canonical[name] is not value and not same(canonical[name], value):
            inner = canonical[name]
            if type(inner) is dict and type(value) is dict:
                for path, *new in _differences(inner, value):
                    yield [[name, *path], *new]
            else:
                yield [[name], value]


def _patched(wire: Unit, entries: list[Any]) -> Unit | None:
    """A copy with the entries applied; None if they do not fit."""
    made = dict(wire)
    copied: set[tuple[str, ...]] = {()}
    for entry in entries:
        if type(entry) is not list or len(entry) not in (1, 2):
            return None
        path = entry[0]
        if type(path) is not list or not path or any(type(name) is not str for name in path):
            return None
        place = made
        for depth, name in enumerate(path[:-1], 1):
            inner = place.get(name)
            if type(inner) is not dict:
                return None
            steps = tuple(path[:depth])
            if steps not in copied:
                copied.add(steps)
                inner = place[name] = dict(inner)
            place = inner
        if len(entry) == 2:
            place[path[-1]] = entry[1]
        else:
            place.pop(path[-1], None)
    return made
