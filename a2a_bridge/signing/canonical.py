"""The canonical texts of a card, over which signatures are made (spec 8.4). Pure.

Rules:
1. `signatures` is left out, the rest is written by RFC 8785.
2. Presence (spec 8.4.1): REQUIRED members stay, also when empty; `optional` ones and messages stay when they
   are there; other members with their default value are left out, and null counts as absent. Members that
   1.0 does not know stay as they are.
3. Signers differ, so there are several texts of one card: the whole card; its members of 1.0 alone, which is
   what a reader of the protobuf message sees; and of these the ones with content, as the SDKs for Python and
   JavaScript write them, without empty strings, lists and objects at any depth.
4. Only members of 0.x may be outside of a text: those that a card for readers of several versions has beside
   those of 1.0. Whoever accepts a signature must not read what it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.core.extras import load
from a2a_bridge.pb import lf_a2a_v1 as hub

#: whether a member that 1.0 does not know stays: by the message that it stands in, its name and its path
_Keeps = Callable[[MessagePlan, str, str], bool]

SIGNATURES = "signatures"
#: the member without which there are no members of 1.0 to speak of
INTERFACES = "supportedInterfaces"

#: members of 0.x beside those of 1.0, by the message that they stand in
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
        if shaped or field.required or field.presence:
            made[name] = shaped
    return made


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


def _fill(value: Json) -> Json:
    """A value without what is empty in it; None if nothing is left."""
    if type(value) is dict:
        members = {name: left for name, item in value.items() if (left := _fill(item)) is not None}
        return members or None
    if type(value) is list:
        items = [left for item in value if (left := _fill(item)) is not None]
        return items or None
    return None if value == "" else value
