"""Which interfaces of a card can be used, and in which order."""

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import interface, select
from a2a_bridge.cards.select import unusable
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

KNOWN = ["JSONRPC", "HTTP+JSON", "GRPC"]


def card_with(*interfaces: hub.AgentInterface) -> hub.AgentCard:
    return hub.AgentCard(name="a", supported_interfaces=interfaces)


CARD = card_with(
    interface("QUEUE", "q"),
    interface("GRPC", "g3", version="0.3"),
    interface("GRPC", "g"),
    interface("JSONRPC", "j", version="1.0.1"),
    interface("JSONRPC", "bare", version=""),
    interface("GRPC", "old", version="0.1"),
    interface("JSONRPC", "odd", version="7.0"),
    interface("HTTP+JSON", "h"),
    interface("JSONRPC", "j2"),
)


def versions(*interfaces: hub.AgentInterface, **options: str) -> list[str]:
    return [one.dialect.version for one in select(card_with(*interfaces), known=KNOWN, **options)]


def chosen(**options: str) -> list[str]:
    return [one.interface.url for one in select(CARD, known=KNOWN, **options)]


def test_the_agents_order_is_kept_and_unknown_interfaces_are_skipped() -> None:
    found = select(CARD, known=KNOWN)
    assert [one.interface.url for one in found] == ["g3", "g", "j", "bare", "h", "j2"]
    assert {one.dialect for one in found[1:]} == {V1_0}
    assert found[0].dialect is by_version("0.3")


def test_a_repeated_interface_keeps_its_first_place() -> None:
    main, other = interface("JSONRPC", "http://a.example/a2a"), interface("HTTP+JSON", "http://a.example")
    found = select(card_with(main, other, main), known=KNOWN)
    assert [one.interface for one in found] == [main, other]


@each(
    ("grpc", "https", "secure"),
    [
        ("agent.example:8443", "https://agent.example:8443/a2a", True),
        ("Agent.Example:443", "https://agent.example", True),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443", True),
        ("agent.example:50051", "https://agent.example:8443", None),
        ("agent.example:8443", "http://agent.example:8443", None),
        ("other.example:8443", "https://agent.example:8443", None),
        ("grpc://agent.example:8443", "https://agent.example:8443", None),
        ("nonsense", "https://agent.example:nonsense", None),
    ],
)
def test_grpc_on_a_port_that_speaks_tls(grpc: str, https: str, secure: bool | None) -> None:
    listed = [interface("GRPC", grpc), interface("HTTP+JSON", https)]
    first, second = select(hub.AgentCard(supported_interfaces=listed), known=("GRPC", "HTTP+JSON"))
    assert (first.grpc_tls, second.grpc_tls) == (secure, None)
    assert first.dial_options(DialOptions()).grpc_tls is secure
    assert first.dial_options(DialOptions(grpc_tls=False)).grpc_tls is False


def test_requested_bindings_and_versions() -> None:
    assert chosen(binding="JSONRPC") == ["j", "bare", "j2"]
    assert chosen(version="1.0") == ["g", "j", "bare", "h", "j2"]
    assert (chosen(version="1.0.7", binding="GRPC"), chosen(version="0.3")) == (["g"], ["g3"])
    assert chosen(version="0.3.0", binding="GRPC") == ["g3"]
    assert [one.interface.url for one in select(CARD, known=["QUEUE"])] == ["q"]


def test_why_interfaces_cannot_be_used() -> None:
    assert unusable(CARD, known=KNOWN) == [
        "QUEUE 1.0 q: its protocolBinding 'QUEUE' is unknown",
        "GRPC 0.1 old: version 0.1 has no GRPC",
        "JSONRPC 7.0 odd: its protocolVersion '7.0' is unknown",
    ]


@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        ("0.3", "0.3"),
        ("0.3.0", "0.3"),
        ("0.2.5", "0.2.5"),
        ("0.2.6", "0.2.5"),
        ("0.2", "0.2.5"),
        ("1.0", "1.0"),
    ],
)
def test_versions_by_major_and_minor(version: str, spoken: str) -> None:
    place = interface("JSONRPC", "u", version=version)
    assert versions(place) == versions(place, version=version) == versions(place, version=spoken) == [spoken]


def test_the_order_is_the_agents_in_every_version() -> None:
    places = [interface("JSONRPC", "u", version=version) for version in ("0.2.5", "1.0", "0.3")]
    assert versions(*places) == ["0.2.5", "1.0", "0.3"]


@pytest.mark.parametrize(
    "options",
    [
        {"binding": "QUEUE"},
        {"binding": "jsonrpc"},
        {"version": "0.2.5"},
        {"version": "2.0"},
        {"version": "nonsense"},
        {"binding": "JSONRPC", "version": "0.3"},
    ],
)
def test_no_usable_interface_is_an_error_with_the_offers(options: dict[str, str]) -> None:
    with pytest.raises(A2AError) as caught:
        chosen(**options)
    assert (caught.value.reason, caught.value.blame) == (Reason.UNSUPPORTED_OPERATION, Blame.PEER)
    for text in ("QUEUE 1.0", "GRPC 0.3", "HTTP+JSON 1.0", *options.values()):
        assert text in caught.value.message


def test_a_card_that_offers_nothing() -> None:
    with pytest.raises(A2AError) as caught:
        select(card_with(), known=KNOWN)
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
    assert "none" in caught.value.message
