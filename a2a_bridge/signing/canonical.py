"""The canonical texts of a card, over which signatures are made (spec 8.4), and strict JSON, which all
readers read as the same content. Pure.

Rules:
1. `signatures` is left out, the rest is written by RFC 8785.
2. Presence (spec 8.4.1): REQUIRED members stay, also when empty; `optional` ones and messages stay when they
   are there; other members with their default value are left out. null counts as absent. Members
   that 1.0 does not know stay as they are.
3. Signers differ, so there are several texts of one card: the whole card; its members of 1.0 alone, which is
   what a reader of the protobuf message sees; and of these the ones with content, without empty strings,
   lists and objects at any depth. The last text is not in the specification. The SDKs for Python and
   JavaScript accept no other one, and could not verify a card with any empty member, such as the scopes
   of an API key.
4. Some empty members have a meaning, and the last text does not cover it: without the requirement
   `{"schemes": {"key": {"list": []}}}` a client sends no key. `lost` finds them. If a card has any, the
   signature over this text is marked (`SPARSE`), and counts for no verifier that knows the other texts.
5. Only members of 0.x, beside those of 1.0, may be outside of a text: a reader that accepts a signature must
   not read content outside of the signed text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.core.extras import load
from a2a_bridge.pb import lf_a2a_v1 as hub

#: whether a member that 1.0 does not know stays: by the message that it stands in, its name and its path
_Keeps = Callable[[MessagePlan, str, str], bool]

SIGNATURES = "signatures"
#: the member of a protected header that marks a signature over less than the card says (rule 4)
SPARSE = "urn:a2a-bridge:sparse-card:v1"
#: the member without which there are no members of 1.0 to speak of
INTERFACES = "supportedInterfaces"

#: members of 0.x beside members of 1.0, by their message
_OLDER = {
    "AgentCard": {
        "additionalInterfaces",
        "preferredTransport",
        "protocolVersion",
        "security",
        "supportsAuthenticatedExtendedCard",
        "url",
    },
    "AgentCapabilities": {"stateTransitionHistory"},
    "AgentSkill": {"security"},
    "SecurityScheme": {
        "bearerFormat",
        "description",
        "flows",
        "in",
        "name",
        "oauth2MetadataUrl",
        "openIdConnectUrl",
        "scheme",
        "type",
    },
}

#: a card has no members of other kinds with a default
_DEFAULTS: dict[FieldKind, Json] = {FieldKind.STRING: "", FieldKind.BOOL: False}


def canonical(tree: Json) -> bytes:
    """A tree by RFC 8785. Raises ValueError for one that it cannot write: integers beyond 2^53, half a
    surrogate pair, hundreds of levels. Raises MissingExtraError without rfc8785.
    """
    write: Any = load("rfc8785", "signing").dumps
    try:
        written: bytes = write(tree)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return written


def remove_signatures(card: JsonObject) -> JsonObject:
    """A card without its signatures."""
    return {name: value for name, value in card.items() if name != SIGNATURES}


def whole(card: JsonObject) -> JsonObject:
    """All of a card, with the members of 1.0 by the rules of presence."""
    return _shape(remove_signatures(card), plan_of(hub.AgentCard), lambda *_: True)


def keep_known(card: JsonObject) -> JsonObject:
    """The members of 1.0, by the rules of presence."""
    return _shape(remove_signatures(card), plan_of(hub.AgentCard), lambda *_: False)


def keep_filled(card: JsonObject) -> JsonObject:
    """The members of 1.0 with content."""
    made = _fill(keep_known(card))
    return made if type(made) is dict else {}


def lost(card: JsonObject) -> list[str]:
    """The paths of empty members of 1.0 that `keep_filled` leaves out although they have a meaning."""
    found: list[str] = []
    _note_lost(keep_known(card), plan_of(hub.AgentCard), "", found)
    return found


def foreign(card: JsonObject) -> list[str]:
    """The paths of members that are neither of 1.0 nor of 0.x."""
    found: list[str] = []

    def note(plan: MessagePlan, name: str, path: str) -> bool:
        if name not in _OLDER.get(plan.descriptor.name, ()):
            found.append(path)
        return False

    _shape(card, plan_of(hub.AgentCard), note)
    return found


def _shape(tree: JsonObject, plan: MessagePlan, keeps: _Keeps, path: str = "") -> JsonObject:
    fields = {one.json_name: one for one in plan.fields}
    made: JsonObject = {}
    for name, value in tree.items():
        here = f"{path}.{name}" if path else name
        field = fields.get(name)
        if field is None:
            if keeps(plan, name, here):
                made[name] = value
            continue
        if value is None and not field.takes_null:
            continue
        shaped = _value(value, field, keeps, here)
        if field.required or field.presence or not _is_default(shaped, field):
            made[name] = shaped
    return made


def _is_default(value: Json, field: FieldPlan) -> bool:
    """Whether a member says the same as its absence. An empty value of another type does not: a reader may
    leave out the object around it.
    """
    default: Json = {} if field.map_value is not None else [] if field.repeated else _DEFAULTS.get(field.kind)
    return type(value) is type(default) and value == default


def _value(value: Json, field: FieldPlan, keeps: _Keeps, path: str) -> Json:
    inner = field.map_value or field
    if field.map_value is not None and type(value) is dict:
        return {name: _one(item, inner, keeps, f"{path}.{name}") for name, item in value.items()}
    if type(value) is list:
        items = [_one(item, inner, keeps, f"{path}[{index}]") for index, item in enumerate(value)]
        # In the place of one value a list has no form of its own, but members that `keeps` has to see.
        return items if field.repeated else value
    return _one(value, inner, keeps, path)


def _one(value: Json, field: FieldPlan, keeps: _Keeps, path: str) -> Json:
    if field.kind is FieldKind.MESSAGE and field.message is not None and type(value) is dict:
        return _shape(value, field.message, keeps, path)
    return value


def _note_lost(tree: JsonObject, plan: MessagePlan, path: str, found: list[str]) -> None:
    """Notes empty members whose absence means something else: members of a oneof, items of a list, entries of
    a map, and free JSON. Any other singular member that is empty means the same without it.
    """
    fields = {one.json_name: one for one in plan.fields}
    for name, value in tree.items():
        field, here = fields[name], f"{path}.{name}" if path else name
        inner = field.map_value or field
        items: dict[str, Json] = {here: value}
        counts = bool(field.oneof)
        if field.map_value is not None and type(value) is dict:
            items, counts = {f"{here}.{key}": item for key, item in value.items()}, True
        elif field.repeated and type(value) is list:
            items, counts = {f"{here}[{index}]": item for index, item in enumerate(value)}, True
        for at, item in items.items():
            left = _fill(item)
            if inner.kind is FieldKind.MESSAGE and inner.message is not None and type(item) is dict:
                if left is None and counts:
                    found.append(at)
                else:
                    _note_lost(item, inner.message, at, found)
            elif left != item and (counts or item):
                found.append(at)


def _fill(value: Json) -> Json:
    """A value without what is empty in it; None if nothing is left."""
    if type(value) is dict:
        members = {name: left for name, item in value.items() if (left := _fill(item)) is not None}
        return members or None
    if type(value) is list:
        items = [left for item in value if (left := _fill(item)) is not None]
        return items or None
    return None if value == "" else value


def parse_object(document: bytes) -> JsonObject:
    """An object in UTF-8 without a member twice, because readers differ on which one counts. Raises
    ValueError with the reason, which begins with a verb.
    """
    try:
        found = json.loads(document.decode(), object_pairs_hook=_members, parse_constant=_reject_constant)
    except KeyError as twice:
        raise ValueError(f"has the member {twice.args[0][:64]!r} twice") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    if type(found) is not dict:
        raise ValueError("is no object")
    return found


def _members(pairs: list[tuple[str, Any]]) -> JsonObject:
    made: JsonObject = {}
    for name, value in pairs:
        if name in made:
            raise KeyError(name)
        made[name] = value
    return made


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
