"""Cards that SDKs show, read by us: those of both versions at once, and those of 0.3."""

import pytest

from a2a_bridge.cards import interface, select
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.dialects.unmapped import same
from a2a_bridge.dialects.v0_3.card import encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import full

HERE = "http://a.example/.well-known/agent-card.json"


def source() -> hub.AgentCard:
    card = full(hub.AgentCard)
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(
        [
            interface("JSONRPC", "http://a.example/", version="1.0"),
            interface("JSONRPC", "http://a.example/", version="0.3"),
            interface("GRPC", "a.example:1", version="0.3"),
        ]
    )
    card.security_schemes["security_schemes-0"].api_key_security_scheme.location = "header"
    del card.capabilities.extensions[0].params.fields["huge"]  # that SDK prints it as no double is written
    return card


@pytest.mark.sdk
def test_the_card_of_a_server_of_both_versions() -> None:
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.types import a2a_pb2

    shown = agent_card_to_dict(a2a_pb2.AgentCard.FromString(source().SerializeToString()))
    assert {"supportedInterfaces", "url", "additionalInterfaces"} <= shown.keys(), "a card of both"
    card = parse_bytes(dumps(loads_exact(dumps(shown))), HERE)
    assert [(one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces] == [
        ("http://a.example/", "JSONRPC", "1.0"),
        ("http://a.example/", "JSONRPC", "0.3"),
        ("a.example:1", "GRPC", "0.3"),
    ]
    known = ["JSONRPC", "GRPC"]
    assert [one.dialect.version for one in select(card, known=known)] == ["1.0", "0.3", "0.3"]
    assert [one.interface.url for one in select(card, known=known, version="0.3", binding="GRPC")] == [
        "a.example:1"
    ]
    assert card.security_schemes == source().security_schemes
    assert list(card.security_requirements) == list(source().security_requirements)


@pytest.mark.sdk
def test_the_card_of_a_server_of_0_3() -> None:
    from a2a.compat.v0_3.conversions import to_compat_agent_card
    from a2a.types import a2a_pb2

    made = to_compat_agent_card(a2a_pb2.AgentCard.FromString(source().SerializeToString()))
    shown = loads_exact(made.model_dump_json(by_alias=True, exclude_none=True))
    card = parse_bytes(dumps(shown), HERE)
    assert [one.protocol_binding for one in card.supported_interfaces] == ["JSONRPC", "GRPC"]
    assert {one.dialect.version for one in select(card, known=["JSONRPC", "GRPC"])} == {"0.3"}
    assert same(loads_exact(dumps(encode_card(card))), shown)
