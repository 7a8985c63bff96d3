"""Cards come back unchanged: 0.x → hub → 0.x, and hub → 0.x → hub, with any content."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from a2a_bridge.codec import decode_bytes, dumps, encoder, loads_exact
from a2a_bridge.dialects.unmapped import KEY, same
from a2a_bridge.dialects.v0_3.card import decode_card, encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import samples
from tests.old_cards import card_trees
from tests.strategies import messages

Hop = Callable[[hub.AgentCard], hub.AgentCard]

HOPS: dict[str, Hop] = {
    "binary": lambda card: hub.AgentCard.FromString(card.SerializeToString()),
    "ProtoJSON": lambda card: decode_bytes(hub.AgentCard, dumps(encoder(hub.AgentCard)(card))),
}


def read(tree: Any) -> Any:
    """The tree as it arrives on a wire."""
    return loads_exact(dumps(tree))


@pytest.mark.parametrize("version", ["0.3.0", "0.2.5"])
@pytest.mark.parametrize("hop", HOPS)
def test_a_card_of_0_x_comes_back_as_it_left(hop: str, version: str) -> None:
    @given(tree=card_trees(version))
    def check(tree: Any) -> None:
        given = read(tree)
        back = read(encode_card(HOPS[hop](decode_card(given, version)), version))
        assert same(back, given)

    check()


@given(card=messages(hub.AgentCard))
def test_any_card_of_the_hub_comes_back_as_it_left(card: hub.AgentCard) -> None:
    assert decode_card(read(encode_card(card))) == card


@given(card=messages(hub.AgentCard, complete=True))
def test_any_complete_card_of_the_hub_comes_back_as_it_left_through_0_2_5(card: hub.AgentCard) -> None:
    assert decode_card(read(encode_card(card, "0.2.5")), "0.2.5") == card


@pytest.mark.parametrize("card", samples(hub.AgentCard))
def test_the_samples_need_nothing_but_members(card: hub.AgentCard) -> None:
    tree = read(encode_card(card))
    assert decode_card(tree) == card
    assert KEY not in dumps(tree).decode(), "everything that 1.0 says has a natural place"
