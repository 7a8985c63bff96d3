"""The stash: content of an object of 0.1 that its 0.3 form cannot express, kept as one member of that form.
It knows no type of A2A.

A unit is a JSON object without the units inside it: a part, a message without its parts, and so on. Each has
two pure functions, `decode` (0.1 → 0.3) and `encode` (0.3 → 0.1), which may both lose content. Rules:

1. On conversion to 0.3, content that encode(decode(x)) loses is recorded as entries (see `unmapped`). Regular
   input has no entries, and no stash.
2. On conversion to 0.1, an entry is used only if the object with it still decodes to the same 0.3 object. So
   a stash decides the variant and never the meaning, independent of its origin and of changes to the object
   since.
3. The stash is an unknown member in 0.3, which allows unknown members; it is preserved as these are.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from a2a_bridge.codec import DecodeError
from a2a_bridge.dialects.unmapped import difference, entries_in, restore_copy, same

#: the member of 0.3 objects that holds the entries, and the metadata key for content without another place on
#: 0.1 wires
STASH = "urn:a2a-bridge:v0.1"

#: maximum number of entries that are read; a stash written here is far shorter
MOST_ENTRIES = 1000
#: maximum number of entries that are tried one by one, because each costs as much as the whole object
MOST_SINGLY = 20

Unit = dict[str, Any]
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
    entries = difference(encode(made), wire, whole=True)
    if entries:
        made[STASH] = entries
    return made


def encode_unit(tree: Unit, decode: Coding, encode: Coding) -> Unit:
    """A unit of 0.3 as one of 0.1, in the variant of its stash as far as the stash still applies."""
    if STASH not in tree:
        return encode(tree)
    tree = dict(tree)
    entries = entries_in(tree.pop(STASH)) or []
    wire = encode(tree)
    if len(entries) > MOST_ENTRIES:
        return wire
    made: Unit = restore_copy(wire, entries)
    if _decodes_to(made, tree, decode):
        return made
    for entry in entries[:MOST_SINGLY]:
        made = restore_copy(wire, [entry])
        if _decodes_to(made, tree, decode):
            wire = made
    return wire


def _decodes_to(wire: Any, tree: Unit, decode: Coding) -> bool:
    if type(wire) is not dict:  # an entry may replace the whole object
        return False
    try:
        decoded = decode({name: value for name, value in wire.items() if name != STASH})
    except DecodeError:
        return False
    return same(decoded, tree)
