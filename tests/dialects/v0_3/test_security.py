"""Security schemes and requirements of 0.x. L19: several OAuth flows in one scheme, of which 1.0 has one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.v0_3.card import decode_card, encode_beside, encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.dialects.v0_3.test_card import bears_residue, card, read, round_trip
from tests.rejections import rejected

#: the fields of the flows in the hub, by their names in cards
FIELDS = {field.json_name: field.name for field in hub.OAuthFlows.DESCRIPTOR.fields}

URL = "http://t"
FLOW = {
    "authorizationCode": {"authorizationUrl": "http://a", "tokenUrl": "http://t", "scopes": {"r": "read"}},
    "clientCredentials": {"tokenUrl": "http://t", "scopes": {"r": "read"}, "refreshUrl": "http://r"},
    "deviceCode": {"deviceAuthorizationUrl": "http://d", "tokenUrl": "http://t", "scopes": {}},
    "password": {"tokenUrl": "http://t", "scopes": {}},
    "implicit": {"authorizationUrl": "http://a", "scopes": {}},
}


def oauth(*flows: str, **more: Any) -> dict[str, Any]:
    return {"type": "oauth2", "flows": {name: FLOW[name] for name in flows}} | more


def requirements(found: Any) -> list[dict[str, list[str]]]:
    return [{name: list(scopes.list) for name, scopes in one.schemes.items()} for one in found]


def flows(decoded: hub.AgentCard) -> dict[str, str | None]:
    return {
        name: scheme.oauth2_security_scheme.flows.WhichOneof("flow")
        for name, scheme in decoded.security_schemes.items()
    }


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (
            {"type": "apiKey", "in": "cookie", "name": "X", "description": "d"},
            {"api_key_security_scheme": {"location": "cookie", "name": "X", "description": "d"}},
        ),
        (
            {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
            {"http_auth_security_scheme": {"scheme": "Bearer", "bearer_format": "JWT"}},
        ),
        (
            {"type": "openIdConnect", "openIdConnectUrl": "http://o"},
            {"open_id_connect_security_scheme": {"open_id_connect_url": "http://o"}},
        ),
        ({"type": "mutualTLS"}, {"mtls_security_scheme": {}}),
        (
            {"type": "oauth2", "flows": {}, "oauth2MetadataUrl": "http://m"},
            {"oauth2_security_scheme": {"oauth2_metadata_url": "http://m", "flows": {}}},
        ),
        (
            {"type": "oauth2", "flows": {"implicit": FLOW["implicit"]}},
            {"oauth2_security_scheme": {"flows": {"implicit": {"authorization_url": "http://a"}}}},
        ),
    ],
)
def test_each_type(scheme: dict[str, Any], expected: dict[str, Any]) -> None:
    decoded = round_trip(card(securitySchemes={"s": scheme}))
    assert decoded.security_schemes["s"] == hub.SecurityScheme(**expected)
    assert not bears_residue(decoded)


@pytest.mark.parametrize("scheme", [{}, {"type": "future", "x": 1}, {"type": None}, {"type": 5, "flows": 5}])
def test_an_unknown_type_is_a_scheme_without_content(scheme: Any) -> None:
    decoded = round_trip(card(securitySchemes={"s": scheme}, security=[{"s": []}]))
    assert decoded.security_schemes["s"].WhichOneof("scheme") is None
    assert requirements(decoded.security_requirements) == [{"s": []}]


def test_a_scheme_without_flows() -> None:
    decoded = round_trip(card(securitySchemes={"o": {"type": "oauth2"}}))
    assert decoded.security_schemes["o"].oauth2_security_scheme.HasField("flows")


def test_anonymous_callers_may_be_an_alternative() -> None:
    decoded = round_trip(card(security=[{}]))
    assert requirements(decoded.security_requirements) == [{}]
    assert not bears_residue(decoded)


def test_l19_each_flow_is_a_scheme_and_each_choice_an_alternative() -> None:
    skill = {"id": "s", "name": "s", "description": "s", "tags": [], "security": [{"o": ["r"]}]}
    decoded = round_trip(
        card(
            securitySchemes={"o": oauth("implicit", "clientCredentials", "authorizationCode"), "k": {"type": "mutualTLS"}},
            security=[{"o": ["r"], "k": []}, {"k": []}],
            skills=[skill],
        )
    )  # fmt: skip
    assert flows(decoded) == {
        "o": "authorization_code",
        "o#clientCredentials": "client_credentials",
        "o#implicit": "implicit",
        "k": None,
    }
    assert requirements(decoded.security_requirements) == [
        {"o": ["r"], "k": []},
        {"o#clientCredentials": ["r"], "k": []},
        {"o#implicit": ["r"], "k": []},
        {"k": []},
    ]
    assert requirements(decoded.skills[0].security_requirements) == [
        {"o": ["r"]},
        {"o#clientCredentials": ["r"]},
        {"o#implicit": ["r"]},
    ]
    assert not bears_residue(decoded), "put together again from what the schemes say"


def test_payload_13_both_flows_of_a_scheme_survive() -> None:
    decoded = round_trip(card(securitySchemes={"o": oauth("authorizationCode", "clientCredentials")}))
    assert flows(decoded) == {"o": "authorization_code", "o#clientCredentials": "client_credentials"}
    assert not bears_residue(decoded)


def test_l19_two_such_schemes_in_one_requirement() -> None:
    schemes = {"a": oauth("authorizationCode", "password"), "b": oauth("clientCredentials", "implicit")}
    decoded = round_trip(card(securitySchemes=schemes, security=[{"a": [], "b": ["r"]}]))
    assert requirements(decoded.security_requirements) == [
        {"a": [], "b": ["r"]},
        {"a": [], "b#implicit": ["r"]},
        {"a#password": [], "b": ["r"]},
        {"a#password": [], "b#implicit": ["r"]},
    ]


def test_l19_a_requirement_does_not_explode() -> None:
    schemes = {f"s{number}": oauth(*FLOW) for number in range(12)}
    decoded = round_trip(card(securitySchemes=schemes, security=[{name: [] for name in schemes}]))
    assert (len(decoded.security_requirements), len(decoded.security_schemes)) == (1, 60)


def test_l19_names_that_are_taken_stay_the_cards_own() -> None:
    schemes = {"o": oauth("authorizationCode", "password"), "o#password": {"type": "http", "scheme": "Basic"}}
    decoded = round_trip(card(securitySchemes=schemes, security=[{"o": []}]))
    assert decoded.security_schemes["o#password"].http_auth_security_scheme.scheme == "Basic"
    assert requirements(decoded.security_requirements) == [{"o": []}]


@each(
    "schemes",
    [
        {"o": oauth("authorizationCode"), "o#password": oauth("password")},
        {"o": oauth("password"), "o#authorizationCode": oauth("authorizationCode")},
        {"o": oauth("authorizationCode", description="d"), "o#password": oauth("password")},
        {"o": oauth("authorizationCode"), "o#implicit": oauth("password")},
        {
            "o": oauth("authorizationCode"),
            "o#password": oauth("password"),
            "o#password#implicit": oauth("implicit"),
        },
        {"o": oauth("authorizationCode", "password"), "o#password": oauth("password")},
    ],
)
@each("security", [[{"o": []}], [{"o": []}, {"o#password": []}], [{"o#password": []}], []])
def test_l19_schemes_of_a_card_that_only_look_like_it(schemes: Any, security: Any) -> None:
    round_trip(card(securitySchemes=schemes, security=security))


def test_payload_19_pkce_and_the_device_flow_have_a_place() -> None:
    source = hub.AgentCard(name="a")
    source.capabilities.SetInParent()
    source.security_schemes["p"].oauth2_security_scheme.flows.authorization_code.pkce_required = True
    source.security_schemes["d"].oauth2_security_scheme.flows.device_code.token_url = URL
    tree = encode_card(source)
    assert tree["securitySchemes"]["p"]["flows"]["authorizationCode"]["pkceRequired"] is True
    assert tree["securitySchemes"]["d"]["flows"] == {
        "deviceCode": {"deviceAuthorizationUrl": "", "tokenUrl": "http://t", "scopes": {}}
    }
    assert decode_card(read(tree)) == source
    for flow in (
        {"deviceCode": 5},
        {"deviceCode": {"tokenUrl": 5}},
        {"authorizationCode": FLOW["authorizationCode"] | {"pkceRequired": "x"}},
    ):
        round_trip(card(securitySchemes={"o": {"type": "oauth2", "flows": flow}}))  # fmt: skip


def test_flows_have_the_required_members_of_0_x() -> None:
    for name, field in FIELDS.items():
        source = hub.AgentCard()
        getattr(source.security_schemes["o"].oauth2_security_scheme.flows, field).SetInParent()
        tree = encode_card(source)["securitySchemes"]["o"]["flows"]
        required = {one for one in FLOW[name] if one != "refreshUrl"}
        assert required <= tree[name].keys()


def test_beside_1_0_the_flows_stay_apart() -> None:
    decoded = decode_card(
        read(card(securitySchemes={"o": oauth("authorizationCode", "password")}, security=[{"o": []}]))
    )
    tree = encode_beside(decoded)
    assert {name: list(one["flows"]) for name, one in tree["securitySchemes"].items()} == {
        "o": ["authorizationCode"],
        "o#password": ["password"],
    }
    assert tree["security"] == [{"o": []}, {"o#password": []}]


@given(data=st.data())
def test_l19_requirements_of_the_hub_in_any_order_come_back(data: st.DataObject) -> None:
    source = hub.AgentCard(name="a")
    source.capabilities.SetInParent()
    for name in data.draw(st.sets(st.sampled_from(["o", "p"]), min_size=1)):
        for flow in data.draw(st.sets(st.sampled_from(sorted(FIELDS)))):
            full = name if data.draw(st.booleans()) else f"{name}#{flow}"
            content = source.security_schemes[full].oauth2_security_scheme
            getattr(content.flows, FIELDS[flow]).SetInParent()
    names = sorted({*source.security_schemes, "o", "x"})
    for one in data.draw(st.lists(st.sets(st.sampled_from(names)), max_size=5)):
        requirement = source.security_requirements.add()
        for name in one:
            requirement.schemes[name].list.append("r")
    assert decode_card(read(encode_card(source))) == source


@each(
    ("members", "path"),
    [
        ({"securitySchemes": []}, "securitySchemes"),
        ({"securitySchemes": {"s": 5}}, "securitySchemes.s"),
        ({"securitySchemes": {"a b": {"type": "http", "scheme": 5}}}, 'securitySchemes["a b"].scheme'),
        ({"securitySchemes": {"s": {"type": "apiKey", "in": 5}}}, "securitySchemes.s.in"),
        ({"securitySchemes": {"s": {"type": "oauth2", "flows": 5}}}, "securitySchemes.s.flows"),
        (
            {"securitySchemes": {"s": {"type": "oauth2", "flows": {"password": 5}}}},
            "securitySchemes.s.flows.password",
        ),
        (
            {"securitySchemes": {"s": {"type": "oauth2", "flows": {"password": {"scopes": {"r": 5}}}}}},
            "securitySchemes.s.flows.password.scopes.r",
        ),
        ({"security": {}}, "security"),
        ({"security": [[]]}, "security[0]"),
        ({"security": [{}, {"s": "r"}]}, "security[1].s"),
        ({"security": [{"s": [5]}]}, "security[0].s[0]"),
    ],
)
def test_a_member_of_the_wrong_kind_is_named(members: Any, path: str) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE) as caught:
        decode_card(read(card(**members)))
    assert f": {path}: expected" in caught.value.message
