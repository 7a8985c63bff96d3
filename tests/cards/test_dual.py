"""One document for all: each reader gets the content of its own card. For any card."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import Advertisement, Mounted, interface
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.cards.select import expressible
from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.dialects import V0_3, V1_0
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.dialects.v0_3.card import decode_card, without_carrier
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.old_cards import card_trees
from tests.strategies import messages

HTTP = ListenAddress("127.0.0.1", 8080)
HERE = "http://a.example"
MOUNTED = [
    Mounted(interface("JSONRPC"), "http", HTTP),
    Mounted(interface("JSONRPC", version="0.3"), "http", HTTP, "/old"),
    Mounted(interface("GRPC", version="0.3"), "grpc", ListenAddress("127.0.0.1", 50051)),
]


def document(card: hub.AgentCard) -> tuple[Advertisement, Any]:
    made = Advertisement(card, MOUNTED, card_address=HTTP)
    return made, loads_exact(made.document(HERE))


def without_interfaces(card: hub.AgentCard) -> hub.AgentCard:
    copy = hub.AgentCard()
    copy.CopyFrom(without_carrier(card))
    del copy.supported_interfaces[:]
    copy.capabilities.SetInParent()  # 0.x always has them
    return copy


def older(tree: Any) -> hub.AgentCard:
    """The content for a reader of 0.3, which knows no member of 1.0."""
    return V0_3.card.decode({name: value for name, value in tree.items() if name != "supportedInterfaces"})


@given(card=messages(hub.AgentCard, complete=True))
def test_any_card_has_the_same_content_for_both_readers(card: hub.AgentCard) -> None:
    made, tree = document(card)
    assert V1_0.card.decode(tree) == expressible(made.card(HERE))
    assert [one.url for one in older(tree).supported_interfaces] == [
        "http://a.example/old",
        "http://a.example/old",
        "127.0.0.1:50051",
        "http://127.0.0.1:50051",
        "127.0.0.1:50051",
    ]
    assert without_interfaces(older(tree)) == expressible(without_interfaces(card))


@given(tree=card_trees())
def test_any_card_of_0_3_elsewhere_is_shown_in_both_ways(tree: Any) -> None:
    card = decode_card(loads_exact(dumps(tree)))  # type: ignore[arg-type]
    made, shown = document(card)
    assert KEY not in dumps(shown).decode()
    assert V1_0.card.decode(shown) == expressible(made.card(HERE))
    assert without_interfaces(older(shown)) == expressible(without_interfaces(card))


def test_odd_addresses_remove_no_other_content() -> None:
    tree = {"protocolVersion": "0.3.0", "url": "", "preferredTransport": "GRPC", "name": "a", "x-mine": 1}
    _, shown = document(decode_card(loads_exact(dumps(tree))))  # type: ignore[arg-type]
    assert (shown["url"], shown["preferredTransport"]) == ("http://a.example/old", "JSONRPC")
    assert shown["x-mine"] == 1


@given(tree=card_trees())
def test_published_cards_are_read_by_our_clients(tree: Any) -> None:
    made, shown = document(decode_card(loads_exact(dumps(tree))))  # type: ignore[arg-type]
    assert parse_bytes(dumps(shown), HERE).supported_interfaces == made.card(HERE).supported_interfaces


@pytest.mark.parametrize("version", ["0.3", "1.0"])
def test_members_of_one_name_have_both_variants(version: str) -> None:
    card = hub.AgentCard(name="a")
    card.security_schemes["k"].api_key_security_scheme.name = "X"
    _, tree = document(card)
    scheme = tree["securitySchemes"]["k"]
    assert scheme == {
        "apiKeySecurityScheme": {"location": "", "name": "X"},
        "type": "apiKey",
        "in": "",
        "name": "X",
    }
    read = {"1.0": V1_0.card.decode, "0.3": older}[version](tree)
    assert read.security_schemes == card.security_schemes
