"""Which interfaces of a card can be used, and in which order."""

from __future__ import annotations

import pytest

from a2a_bridge.cards import interface, select
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub

KNOWN = ["JSONRPC", "HTTP+JSON", "GRPC"]


def card(*interfaces: hub.AgentInterface) -> hub.AgentCard:
    return hub.AgentCard(name="a", supported_interfaces=interfaces)


CARD = card(
    interface("QUEUE", "q"),
    interface("GRPC", "g3", version="0.3"),
    interface("GRPC", "g"),
    interface("JSONRPC", "j", version="1.0.1"),
    interface("JSONRPC", "odd", version=""),
    interface("HTTP+JSON", "h"),
    interface("JSONRPC", "j2"),
)


def chosen(**options: str) -> list[str]:
    return [one.interface.url for one in select(CARD, known=KNOWN, **options)]


def test_the_agents_order_is_kept_and_what_is_unknown_skipped() -> None:
    found = select(CARD, known=KNOWN)
    assert [one.interface.url for one in found] == ["g", "j", "h", "j2"]
    assert {one.dialect for one in found} == {V1_0}


def test_what_is_asked_for() -> None:
    assert chosen(binding="JSONRPC") == ["j", "j2"]
    assert chosen(version="1.0") == ["g", "j", "h", "j2"]
    assert chosen(version="1.0.7", binding="GRPC") == ["g"]
    assert [one.interface.url for one in select(CARD, known=["QUEUE"])] == ["q"]


@pytest.mark.parametrize(
    "options",
    [
        {"binding": "QUEUE"},
        {"binding": "jsonrpc"},
        {"version": "0.3"},
        {"version": "2.0"},
        {"version": "nonsense"},
        {"binding": "GRPC", "version": "0.3"},
    ],
)
def test_nothing_usable_says_what_is_offered(options: dict[str, str]) -> None:
    with pytest.raises(A2AError) as caught:
        chosen(**options)
    assert (caught.value.reason, caught.value.blame) == (Reason.UNSUPPORTED_OPERATION, Blame.PEER)
    for text in ("QUEUE 1.0", "GRPC 0.3", "HTTP+JSON 1.0", *options.values()):
        assert text in caught.value.message


def test_a_card_that_offers_nothing() -> None:
    with pytest.raises(A2AError) as caught:
        select(card(), known=KNOWN)
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
    assert "none" in caught.value.message
