"""The card of a2a.v1: its content in JSON and in the hub, without a loss."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, encoder, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.v0_3 import proto_card
from a2a_bridge.dialects.v0_3.forms import GRPC_FORM, HTTP_JSON_FORM
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.rejections import rejected
from tests.strategies import messages


def full() -> v0.AgentCard:
    oauth = v0.OAuthFlows(
        authorization_code=v0.AuthorizationCodeOAuthFlow(
            authorization_url="https://a",
            token_url="https://t",  # noqa: S106
            scopes={"r": "read"},
        )
    )
    security = v0.Security(schemes={"key": v0.StringList(), "oauth": v0.StringList(list=["r"])})
    card = v0.AgentCard(
        protocol_version="0.3.0",
        name="n",
        description="d",
        url="https://x",
        preferred_transport="GRPC",
        additional_interfaces=[v0.AgentInterface(url="https://y", transport="JSONRPC")],
        provider=v0.AgentProvider(url="https://p", organization="o"),
        version="1",
        documentation_url="https://d",
        icon_url="https://i",
        capabilities=v0.AgentCapabilities(
            streaming=True, extensions=[v0.AgentExtension(uri="urn:x", required=True)]
        ),
        security_schemes={
            "key": v0.SecurityScheme(
                api_key_security_scheme=v0.APIKeySecurityScheme(location="header", name="X-Key")
            ),
            "http": v0.SecurityScheme(http_auth_security_scheme=v0.HTTPAuthSecurityScheme(scheme="bearer")),
            "oauth": v0.SecurityScheme(oauth2_security_scheme=v0.OAuth2SecurityScheme(flows=oauth)),
            "oidc": v0.SecurityScheme(
                open_id_connect_security_scheme=v0.OpenIdConnectSecurityScheme(
                    open_id_connect_url="https://o"
                )
            ),
            "mtls": v0.SecurityScheme(mtls_security_scheme=v0.MutualTlsSecurityScheme(description="m")),
        },
        security=[security],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[v0.AgentSkill(id="s", name="s", description="s", tags=["t"], security=[security])],
        supports_authenticated_extended_card=True,
        signatures=[v0.AgentCardSignature(protected="p", signature="s")],
    )
    card.capabilities.extensions[0].params["n"] = 1.5
    return card


def raw_bytes(message: Any) -> bytes:
    made: bytes = message.SerializeToString(deterministic=True)
    return made


def test_a_card_has_the_same_content_in_the_hub() -> None:
    card = proto_card.decode_bytes(full().SerializeToString())
    assert (card.name, card.icon_url, card.documentation_url) == ("n", "https://i", "https://d")
    assert [(one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces] == [
        ("https://x", "GRPC", "0.3.0"),
        ("https://y", "JSONRPC", "0.3.0"),
    ]
    assert card.capabilities.extended_agent_card
    assert card.security_schemes["key"].api_key_security_scheme.name == "X-Key"
    assert card.security_schemes["oauth"].oauth2_security_scheme.flows.authorization_code.scopes == {
        "r": "read"
    }
    assert card.security_schemes["mtls"].mtls_security_scheme.description == "m"
    assert list(card.skills[0].security_requirements[0].schemes["oauth"].list) == ["r"]


def test_a_full_card_comes_back_as_it_came() -> None:
    wire = full()
    again = v0.AgentCard.FromString(
        proto_card.encode_bytes(proto_card.decode_bytes(wire.SerializeToString()))
    )
    assert raw_bytes(again) == raw_bytes(wire)


@settings(max_examples=60)
@given(data=st.data())
def test_any_card_comes_back_as_it_came(data: st.DataObject) -> None:
    wire = data.draw(messages(v0.AgentCard))
    for name in list(wire.security_schemes):
        scheme = wire.security_schemes[name]
        if scheme.WhichOneof("scheme") in (None, "oauth2_security_scheme"):
            del wire.security_schemes[
                name
            ]  # the JSON card has no scheme without a type, nor a flow without URLs
    message = proto_card.decode_bytes(wire.SerializeToString())
    message = hub.AgentCard.FromString(message.SerializeToString())
    assert raw_bytes(v0.AgentCard.FromString(proto_card.encode_bytes(message))) == raw_bytes(wire)


@settings(max_examples=60)
@given(data=st.data())
def test_any_card_of_1_0_survives_a2a_v1(data: st.DataObject) -> None:
    card = data.draw(messages(hub.AgentCard, complete=True))
    for name in list(card.security_schemes):
        if card.security_schemes[name].WhichOneof("scheme") is None:
            del card.security_schemes[name]
    back = proto_card.decode_bytes(proto_card.encode_bytes(card))
    assert encoder(hub.AgentCard)(back) == encoder(hub.AgentCard)(card)


def test_a_card_of_1_0_only_is_readable_for_peers_that_know_nothing_of_it() -> None:
    card = hub.AgentCard(name="n", capabilities=hub.AgentCapabilities(streaming=False))
    card.supported_interfaces.add(
        url="https://x", protocol_binding="JSONRPC", protocol_version="0.3", tenant="t"
    )
    wire = v0.AgentCard.FromString(proto_card.encode_bytes(card))
    assert (wire.name, wire.url, wire.preferred_transport) == ("n", "https://x", "JSONRPC")
    assert not any(one.required for one in wire.capabilities.extensions)


def test_numbers_that_json_parsers_doubt_go_both_ways() -> None:
    card = hub.AgentCard(name="n")
    card.supported_interfaces.add(url="u", protocol_binding="GRPC", protocol_version="0.3")
    params = card.capabilities.extensions.add(uri="urn:x").params
    params["half"], params["huge"], params["list"] = -0.5, 1e300, [1e-7, 2.0**53]
    assert proto_card.decode_bytes(proto_card.encode_bytes(card)) == card


def test_a_forged_carrier_cannot_change_a_card() -> None:
    wire = v0.AgentCard(name="n", url="https://x", capabilities=v0.AgentCapabilities())
    extension = wire.capabilities.extensions.add(uri=proto_card.CARRIER)
    extension.params[proto_card.CARRIER] = '{"v":1,"proto":[["/iconUrl",null,"https://evil"]]}'
    assert proto_card.decode_bytes(wire.SerializeToString()).icon_url == ""


def card_row() -> Any:
    row = HTTP_JSON_FORM.row(ops.GET_EXTENDED_AGENT_CARD)
    assert row is not None
    return row


def test_over_http_both_kinds_of_readers_find_the_schemes() -> None:
    card = proto_card.decode_bytes(full().SerializeToString())
    tree = card_row().encode_response(card)
    assert tree["securitySchemes"]["key"] == {
        "type": "apiKey",
        "in": "header",
        "name": "X-Key",
        "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
    }
    assert card_row().decode_response(loads_exact(dumps(tree))) == card


def test_over_http_protojson_is_read_too() -> None:
    card = card_row().decode_response(loads_exact(dumps(encoder(v0.AgentCard)(full()))))
    assert card == proto_card.decode_bytes(full().SerializeToString())


@pytest.mark.parametrize(
    "tree", [None, [], "card", {"securitySchemes": {"a": {"type": []}}, "name": []}, {"skills": 1}]
)
def test_an_invalid_card_is_an_error_of_the_agent(tree: Any) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        card_row().decode_response(tree)


def test_bytes_that_are_no_card_are_the_agents_fault() -> None:
    row = GRPC_FORM.row(ops.GET_EXTENDED_AGENT_CARD)
    assert row is not None
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        row.decode_response(b"\xff")
