"""Content that has no place in one version: preserved as text beside a message, and restored at its original
place.

Rules:
1. Entries are the differences between a JSON tree and the canonical tree of its message. `[pointer, value]`
   adds a missing member, `[pointer, value, old]` replaces an old value, `[pointer]` removes a member (of a
   card: signatures cover the document as it is). Pointers as in RFC 6901.
2. Not recorded, because the meaning is the same: members that only the canonical tree has, the variant of
   numbers, null in place of a value. docs/explanation/versions.md has the table.
3. A *unit* is a message with metadata of its own. Entries are stored in that metadata, as one ASCII string
   under KEY, and not as members, because a Struct would lose numbers and depth. Child units have their own.
4. Nothing is verified here: on every wire these texts are authenticated (see `signed_extras`). An entry whose
   place has changed since is left out, so that an agent may edit the message.
5. `strip` removes the texts for readers that cannot use them: hosted agents.
"""

import re
from collections.abc import Iterator, Sequence
from operator import ne
from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec import Json, JsonObject, JsonSyntaxError, dumps_ascii, loads
from a2a_bridge.codec.budget import spend
from a2a_bridge.codec.plan import is_repeated

M = TypeVar("M", bound=Message)
Entry = list[Any]
"""[pointer, value], [pointer, value, old value] or [pointer]."""

KEY = "urn:a2a-bridge:unmapped:1"
#: sources: the JSON `kind` shape of 0.x, the shape of a2a.v1, and the hub (content that 0.x cannot express)
KIND, PROTO, HUB = "kind", "proto", "hub"
#: beside the sources: the metadata that holds the text was empty before
EMPTY = "empty"

KEY_BYTES = KEY.encode()
#: bytes of preserved text that count as one value while a message is encoded, so that megabytes of text are
#: encoded in a thread
BYTES_PER_VALUE = 256
_NUMERIC = {int, float}
#: an index in a pointer (RFC 6901, 4). Not every text of digits: `int` rejects very long ones
_INDEX = re.compile("0|[1-9][0-9]{0,17}")


# --- entries ---


def difference(canonical: Json, target: Json, pointer: str = "", *, whole: bool = False) -> list[Entry]:
    """The entries with which `restore` turns the canonical tree, at a pointer, into the target. whole: also
    record members that only the canonical tree has, and null in place of a value.
    """
    entries: list[Entry] = []
    # Iterative: trees may be as deep as the parser allows.
    waiting: list[tuple[Any, Any, str]] = [(canonical, target, pointer)]
    while waiting:
        old, new, pointer = waiting.pop()
        if old is new:
            continue
        if type(old) is dict and type(new) is dict:
            for name, value in new.items():
                if name in old:
                    waiting.append((old[name], value, below(pointer, name)))
                else:
                    entries.append([below(pointer, name), value])
            if whole:
                entries += [[below(pointer, name)] for name in old if name not in new]
        elif type(old) is list and type(new) is list and len(old) == len(new):
            if {*map(type, old), *map(type, new)} <= _NUMERIC and sum(map(ne, old, new)) > len(new) // 2:
                entries.append([pointer, new, old])  # one entry instead of one for each number
            else:
                waiting += [
                    (old[at], value, f"{pointer}/{at}")
                    for at, value in enumerate(new)
                    if value is not old[at]
                ]
        elif (new is not None or whole) and not same(old, new):
            entries.append([pointer, new, old])
    return entries


def restore(tree: Any, entries: Sequence[Entry]) -> Any:
    """The tree with the values of the entries. Changes it in place: the caller must own it."""
    root = {"": tree}
    places: dict[str, Any] = {}
    for pointer, *values in entries:
        if not pointer:
            if len(values) == 2 and same(root[""], values[1]):
                root[""], places = values[0], {}
            continue
        parent, _, last = pointer.rpartition("/")
        if parent not in places:
            places[parent] = _place(root, parent)
        place, at = places[parent], _key(places[parent], last)
        if type(place) is dict and at not in place:
            if len(values) == 1:
                place[at] = values[0]
        elif at is None:
            continue
        elif type(place) is dict and not values:
            del place[at]
        elif len(values) == 2 and same(place[at], values[1]):
            place[at] = values[0]
    return root[""]


def restore_copy(tree: Any, entries: Sequence[Entry]) -> Any:
    """As `restore`, but the tree remains unchanged: the containers on the way to each value are copied."""
    root = {"": tree}
    copies: dict[str, Any] = {}
    for pointer, *_ in entries:
        _place(root, pointer.rpartition("/")[0], copies)
    return restore(root[""], entries)


def below(pointer: str, name: str) -> str:
    """The pointer to a member."""
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1') if '~' in name or '/' in name else name}"


def same(one: Json, other: Json) -> bool:
    """Whether two trees are equal: numbers by value, members in any order."""
    waiting: list[tuple[Any, Any]] = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        if one is other:
            continue
        if isinstance(one, float) or isinstance(other, float):
            if type(one) is bool or type(other) is bool or not isinstance(one, int | float):
                return False
            if not isinstance(other, int | float) or one != other:
                return False
        elif type(one) is not type(other):
            return False
        elif type(one) is dict:
            if one.keys() != other.keys():  # type: ignore[union-attr]
                return False
            waiting += [
                (value, other[name])  # type: ignore[index,call-overload]
                for name, value in one.items()
                if value is not other[name]  # type: ignore[index,call-overload]
            ]
        elif type(one) is list:
            if len(one) != len(other):  # type: ignore[arg-type]
                return False
            if {*map(type, one), *map(type, other)} <= _NUMERIC:  # type: ignore[arg-type]
                if one != other:
                    return False
                continue
            waiting += [(a, b) for a, b in zip(one, other, strict=True) if a is not b]  # type: ignore[arg-type]
        elif one != other:
            return False
    return True


# --- texts ---


def write(source: str, content: Json) -> str:
    """The text for the content of one source."""
    return dumps_ascii({source: content})


def sources(text: object) -> JsonObject:
    """The content of each source in a text; empty if the text is not ours."""
    if not isinstance(text, str) or not text.startswith("{"):
        return {}
    spend(len(text) // BYTES_PER_VALUE)
    try:
        tree = loads(text)
    except JsonSyntaxError:
        return {}
    return tree if isinstance(tree, dict) else {}


def read(text: object, source: str) -> list[Entry] | None:
    """The entries of a source in a text; None if it has none."""
    return entries_in(sources(text).get(source))


def entries_in(content: Json) -> list[Entry] | None:
    """The content of a source, if it is a list of entries."""
    if not isinstance(content, list):
        return None
    are_entries = (type(one) is list and len(one) in (1, 2, 3) and type(one[0]) is str for one in content)
    return content if all(are_entries) else None


# --- units ---


def carry(unit: Any, source: str, content: Json) -> None:
    """Stores the content of a source in the metadata of a unit, beside other sources. Empty content removes
    the source.
    """
    empty = unit.HasField("metadata") and not unit.metadata.fields
    fields = unit.metadata.fields
    by_source = sources(fields[KEY].string_value) if KEY in fields else {}
    by_source.pop(source, None)
    if content:
        by_source[source] = content
        if empty:
            by_source[EMPTY] = True
    if by_source.keys() - {EMPTY}:
        fields[KEY].string_value = dumps_ascii(by_source)
    else:
        _remove(unit)
        if empty or EMPTY in by_source:
            unit.metadata.SetInParent()


def find_content(unit: Any, source: str) -> Any:
    """The content of a source in the metadata of a unit; None if absent."""
    if not unit.HasField("metadata") or KEY not in unit.metadata.fields:
        return None
    return sources(unit.metadata.fields[KEY].string_value).get(source)


def present(message: Message) -> bool:
    """Whether a message of the hub contains a text at any level."""
    # `find` and not `in`, which first tries its left side as a number and costs several times the search.
    found = message.SerializeToString().find(KEY_BYTES) >= 0
    return found and any(_bears(unit) for unit in units(message))


def strip(message: Message) -> None:
    """Removes all texts from a message, in place, and metadata that becomes empty."""
    for unit in units(message):
        if _bears(unit):
            _remove(unit)


def strip_copy(message: M) -> M:
    """The message without texts: itself if it has none, else a copy."""
    if not present(message):
        return message
    copy = type(message)()
    copy.CopyFrom(message)
    strip(copy)
    return copy


def units(message: Any) -> Iterator[Any]:
    """All messages with metadata of their own in a message of any version, including itself."""
    return (one for one in messages_in(message) if "metadata" in one.DESCRIPTOR.fields_by_name)


def messages_in(message: Any) -> Iterator[Any]:
    """A message and all messages in it. Not the entries of maps, nor free JSON."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            inner = field.message_type
            if inner is None or inner.full_name.startswith("google.") or inner.GetOptions().map_entry:
                continue
            waiting += value if is_repeated(field) else (value,)


# --- cards ---


def carry_in_card(card: Any, key: str, text: str) -> None:
    """Adds a text to an agent card of any version, which has no metadata: in an extension, the last one."""
    card.capabilities.extensions.add(uri=key).params.fields[key].string_value = text


def text_in_card(card: Any, key: str) -> str | None:
    """The text in the last extension of a card; None if that is an ordinary extension."""
    extensions = card.capabilities.extensions
    if not extensions or extensions[-1].uri != key:
        return None
    fields = extensions[-1].params.fields
    return fields[key].string_value if key in fields else ""


def without_text(card: M, key: str) -> M:
    """A card without the text in its last extension: itself if it has none, else a copy."""
    if text_in_card(card, key) is None:
        return card
    bare: Any = type(card)()
    bare.CopyFrom(card)
    del bare.capabilities.extensions[-1]
    return bare  # type: ignore[no-any-return]


def _bears(unit: Any) -> bool:
    return unit.HasField("metadata") and KEY in unit.metadata.fields


def _remove(unit: Any) -> None:
    if KEY in unit.metadata.fields:
        del unit.metadata.fields[KEY]
    if not unit.metadata.fields:
        unit.ClearField("metadata")


def _place(root: Any, pointer: str, copies: dict[str, Any] | None = None) -> Any:
    """The container at a pointer; None if there is none. copies: collects, by their pointers, copies of the
    containers on the way, which replace the originals.
    """
    place, here = root, ""
    for step in pointer.split("/"):
        at = _key(place, step)
        if at is None or (type(place) is dict and at not in place):
            return None
        if copies is not None and type(place[at]) in (dict, list):
            here += f"/{step}"
            if here not in copies:
                copies[here] = place[at] = place[at].copy()
        place = place[at]
    return place


def _key(place: Any, step: str) -> Any:
    """The member's name, or an existing item's index, for a step of a pointer; None for any other step."""
    if type(place) is dict:
        return step.replace("~1", "/").replace("~0", "~")
    if type(place) is list and _INDEX.fullmatch(step) and int(step) < len(place):
        return int(step)
    return None
