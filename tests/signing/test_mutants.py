"""Thousands of changes of signed cards: a card that is accepted says what the signer said."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.codec.plan import MessagePlan, plan_of
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.signing import CardSigner, ReceivedCard, UnverifiedCardError
from tests.signing.scene import CARD, NOW, OLDER, new_key, public, text_of

#: as it is served: the members of 1.0 name the interface of 0.3, too
DUAL: JsonObject = {
    **CARD,
    **OLDER,
    "supportedInterfaces": [
        *CARD["supportedInterfaces"],
        {"url": "https://agent.example/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"},
    ],
}
#: a key that every method of a client has to send, and a certificate beside another method
KEYED: JsonObject = {
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
        "mtls": {"mtlsSecurityScheme": {}},
        "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"scopes": {"read": ""}}}}},
    },
    "securityRequirements": [{"schemes": {"key": {"list": []}}}, {"schemes": {"mtls": {}, "key": {}}}, {}],
}
SKILL: JsonObject = {"id": "s", "name": "s", "description": "", "tags": [""]}
CARDS: dict[str, JsonObject] = {
    "plain": CARD,
    "of two versions": DUAL,
    "with empty members": {**DUAL, "description": "", "skills": [], "iconUrl": "", "provider": {}},
    "with a key": {**CARD, **KEYED},
    "with a key, of two versions": {**DUAL, **KEYED, "security": [{"key": []}]},
    "with a key for a skill": {
        **CARD,
        "skills": [{**SKILL, "securityRequirements": [{"schemes": {"key": {"list": []}}}]}],
    },
    "with parameters": {
        **CARD,
        "capabilities": {"extensions": [{"uri": "u", "params": {"": [], "x": [""]}}]},
    },
}
#: cards with several changes
MIXED = 2700
VALUES: tuple[Json, ...] = (
    None,
    "",
    [],
    {},
    False,
    0,
    True,
    1,
    "x",
    [""],
    [{}],
    {"x": {}},
    {"x": {"list": []}},
)


def _places(tree: Json, plan: MessagePlan | None) -> Iterator[tuple[Any, frozenset[str]]]:
    """Each object and list of a tree, with the members that an object may have."""
    fields = {one.json_name: one for one in plan.fields} if plan is not None else {}
    if type(tree) is dict:
        yield tree, frozenset(fields)
        for name, value in tree.items():
            field = fields.get(name)
            if field is not None and field.map_value is not None and type(value) is dict:
                yield value, frozenset({"more"})
                for item in value.values():
                    yield from _places(item, field.map_value.message)
            else:
                yield from _places(value, field.message if field is not None else None)
    elif type(tree) is list:
        yield tree, frozenset()
        for item in tree:
            yield from _places(item, plan)


def _each_change(card: JsonObject) -> Iterator[None]:
    """Each member and item removed, replaced, and added, in the card itself, and taken back."""
    for place, names in [*_places(card, plan_of(hub.AgentCard))]:
        before = copy.copy(place)
        keys = [*place, *(names - set(place))] if type(place) is dict else range(len(place))
        for key in keys:
            if type(place) is list or key in place:
                del place[key]
                yield
                _restore(place, before)
            for value in VALUES:
                place[key] = value
                yield
                _restore(place, before)
        if type(place) is list:
            for changed in (before[::-1], [*before, *before], *([*before, one] for one in VALUES)):
                place[:] = changed
                yield
                _restore(place, before)


def _restore(place: Any, before: Any) -> None:
    place.clear()
    place.update(before) if type(place) is dict else place.extend(before)


def _change(card: JsonObject, random: Random) -> None:
    """One change anywhere, mostly one that takes an empty member away or adds it."""
    place, names = random.choice([*_places(card, plan_of(hub.AgentCard))])
    if type(place) is list and random.random() < 0.3:
        place.append(copy.deepcopy(random.choice(VALUES)))
        return
    key = random.choice([*place, *sorted(names), "more"] if type(place) is dict else [*range(len(place)), 0])
    if random.random() < 0.5 and (key in place if type(place) is dict else place):
        del place[key]
    elif type(place) is dict:
        place[key] = copy.deepcopy(random.choice(VALUES))
    else:
        place[key : key + 1] = [copy.deepcopy(random.choice(VALUES))]


def _mutants(card: JsonObject, random: Random) -> Iterator[JsonObject]:
    """Each change alone, and several at once. The next mutant may be the same object."""
    for _ in _each_change(card):
        yield card
    for _ in range(MIXED):
        made = copy.deepcopy(card)
        for _ in range(random.randint(2, 4)):
            _change(made, random)
        yield made


def _read(document: bytes) -> Message:
    """What a client acts on: the card without signatures and without empty members that say nothing."""
    card = parse_bytes(document, "here")
    card.DiscardUnknownFields()
    card.ClearField("signatures")
    _drop_empty(card)
    return card


def _drop_empty(message: Message) -> None:
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is None or field.is_repeated:
            if value == "" and field.containing_oneof.name == f"_{field.name}":
                message.ClearField(field.name)
        elif field.containing_oneof is None:
            _drop_empty(value)
            if not value.ByteSize():
                message.ClearField(field.name)


@pytest.mark.parametrize("name", CARDS)
def test_an_accepted_card_says_what_the_signer_said(name: str) -> None:
    key = new_key("EdDSA")
    keys = [public(key)]
    made = json.loads(CardSigner([text_of(key)]).sign(json.dumps(CARDS[name]).encode()))
    truth, rows = _read(json.dumps(made).encode()), made.pop("signatures")
    count = accepted = 0
    seen: set[bytes] = set()
    for mutant in _mutants(made, Random(name)):
        count += 1
        document = json.dumps({**mutant, "signatures": rows}).encode()
        try:
            found = ReceivedCard(document).verify(lambda _: keys, NOW)
        except UnverifiedCardError:
            continue
        accepted += 1
        if found.document in seen:
            continue
        seen.add(found.document)
        try:
            read = _read(found.document)
        except A2AError:
            continue  # a member of the wrong type, which no reader takes
        assert read == truth, document
    assert count > 3700  # 26,000 of all cards
    assert accepted > 50  # without those the test could not fail
