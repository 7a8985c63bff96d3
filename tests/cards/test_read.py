"""The version of a card: its content decides, not the readers that accept it."""

from typing import Any

import pytest

from a2a_bridge.cards import interface, select
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0, by_version
from a2a_bridge.dialects.v0_3.card import encode_card
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]
HERE = "http://a.example/card.json"
OLD = {
    "protocolVersion": "0.3.0",
    "name": "a",
    "description": "d",
    "url": "http://a.example/",
    "version": "1",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["t"]}],
}
NEW = {
    **{name: value for name, value in OLD.items() if name not in ("protocolVersion", "url")},
    "supportedInterfaces": [
        {"url": "http://a.example/1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
}
Place = tuple[str, str, str]


def old(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in (OLD | members).items() if value is not ...}


def places(tree: Any) -> list[Place]:
    card = parse_bytes(dumps(tree), HERE)
    return [(one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces]


def spoken(tree: Any, **options: str) -> list[str]:
    """The versions of the interfaces that would be dialled."""
    found = select(parse_bytes(dumps(tree), HERE), known=BINDINGS, **options)
    return [one.dialect.version for one in found]


def rejected(body: bytes) -> A2AError:
    with pytest.raises(A2AError) as caught:
        parse_bytes(body, HERE)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
    return caught.value


@pytest.mark.parametrize(
    ("said", "spoken_version"),
    [
        ("0.3.0", "0.3"),
        ("0.3", "0.3"),
        ("0.3.9", "0.3"),
        ("0.2.5", "0.2.5"),
        ("0.2.6", "0.2.5"),
        ("0.2", "0.2.5"),
    ],
)
def test_the_version_that_a_card_names(said: str, spoken_version: str) -> None:
    tree = old(protocolVersion=said)
    assert places(tree) == [("http://a.example/", "JSONRPC", said)]
    assert spoken(tree) == [spoken_version]


def test_further_interfaces_are_of_the_cards_version() -> None:
    tree = old(
        protocolVersion="0.2.5",
        preferredTransport="HTTP+JSON",
        additionalInterfaces=[{"url": "a.example:1", "transport": "GRPC"}],
    )
    assert places(tree) == [("http://a.example/", "HTTP+JSON", "0.2.5"), ("a.example:1", "GRPC", "0.2.5")]
    assert spoken(tree, binding="GRPC") == ["0.2.5"]


@pytest.mark.parametrize(
    "url", ["a.example:1", "http://a.example:1", "https://a.example:1/", "grpc://a.example:1", "grpcs://a.example:1", "dns:///a.example:1"]
)  # fmt: skip
def test_grpc_addresses_of_any_form_are_taken_as_they_are(url: str) -> None:
    tree = old(url=url, preferredTransport="GRPC")
    assert (places(tree), spoken(tree)) == ([(url, "GRPC", "0.3.0")], ["0.3"])


@pytest.mark.parametrize("said", ["0.4.0", "2.0", "dev"])
def test_an_unknown_version_is_offered_and_not_selected(said: str) -> None:
    tree = old(protocolVersion=said)
    assert places(tree) == [("http://a.example/", "JSONRPC", said)]
    with pytest.raises(A2AError, match=said) as caught:
        spoken(tree)
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


def test_a_card_of_0_x_is_none_of_1_0_and_the_other_way_round() -> None:
    assert spoken(OLD) == ["0.3"]
    assert spoken(NEW) == ["1.0"]
    with pytest.raises(A2AError):
        spoken(OLD, version="1.0")
    with pytest.raises(A2AError):
        spoken(NEW, version="0.3")


def test_a_card_without_a_version_is_of_the_0_2_that_had_none() -> None:
    assert spoken(old(protocolVersion=...)) == ["0.2.5"]
    assert spoken(old(protocolVersion=None)) == ["0.2.5"]


def test_a_card_of_0_1_is_recognised_by_its_authentication() -> None:
    tree = old(protocolVersion=..., authentication={"schemes": ["Bearer"]})
    assert spoken(tree) == ["0.1" if by_version("0.1") else "0.2.5"]  # 0.1 may be deleted
    assert spoken(old(authentication={"schemes": ["Bearer"]})) == ["0.3"], "it names its version"


DUAL = {
    **OLD,
    **NEW,
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": "a.example:1", "transport": "GRPC"}],
}


def test_a_card_of_both_versions_prefers_1_0_and_offers_the_rest() -> None:
    assert places(DUAL) == [
        ("http://a.example/1", "JSONRPC", "1.0"),
        ("http://a.example/", "JSONRPC", "0.3.0"),
        ("a.example:1", "GRPC", "0.3.0"),
    ]
    assert (spoken(DUAL), spoken(DUAL, version="0.3")) == (["1.0", "0.3", "0.3"], ["0.3", "0.3"])
    assert spoken(DUAL, version="0.3", binding="GRPC") == ["0.3"]
    assert spoken(DUAL, version="1.0") == ["1.0"]


def test_a_card_of_both_that_names_no_version_offers_0_3() -> None:
    tree = {name: value for name, value in DUAL.items() if name != "protocolVersion"}
    assert spoken(tree) == ["1.0", "0.3", "0.3"]


def test_interfaces_of_1_0_are_not_offered_twice() -> None:
    listed = [
        {"url": "http://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "0.2.5"},
        {"url": "a.example:1", "protocolBinding": "GRPC", "protocolVersion": "0.3"},
    ]
    grpc = [{"url": "http://a.example:1", "transport": "GRPC"}]
    tree = DUAL | {"supportedInterfaces": listed, "additionalInterfaces": grpc}
    assert [version for _, _, version in places(tree)] == ["0.2.5", "0.3"]


def test_older_members_complete_a_card_of_both_versions() -> None:
    flows = {
        "authorizationCode": {"authorizationUrl": "a", "tokenUrl": "t", "scopes": {}},
        "password": {"tokenUrl": "t", "scopes": {}},
    }
    skill = {"id": "s", "name": "s", "description": "s", "tags": ["t"], "security": [{"k": []}]}
    tree = DUAL | {
        "securitySchemes": {
            "k": {"type": "apiKey", "in": "header", "name": "X"},
            "o": {"type": "oauth2", "flows": flows},
            "new": {"mtlsSecurityScheme": {}, "type": "http", "scheme": "Basic"},
        },
        "security": [{"o": []}],
        "supportsAuthenticatedExtendedCard": True,
        "skills": [skill],
    }
    card = parse_bytes(dumps(tree), HERE)
    assert {name: scheme.WhichOneof("scheme") for name, scheme in card.security_schemes.items()} == {
        "k": "api_key_security_scheme",
        "o": "oauth2_security_scheme",
        "o#password": "oauth2_security_scheme",
        "new": "mtls_security_scheme",
    }
    assert [list(one.schemes) for one in card.security_requirements] == [["o"], ["o#password"]]
    assert [list(one.schemes) for one in card.skills[0].security_requirements] == [["k"]]
    assert card.capabilities.extended_agent_card


def test_security_of_1_0_is_unchanged() -> None:
    tree = DUAL | {
        "securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "Basic"}, "type": "mutualTLS"}},
        "securityRequirements": [{"schemes": {"k": {}}}],
        "security": [{"other": []}],
        "capabilities": {"extendedAgentCard": False},
        "supportsAuthenticatedExtendedCard": True,
    }
    card = parse_bytes(dumps(tree), HERE)
    assert card.security_schemes["k"].http_auth_security_scheme.scheme == "Basic"
    assert [list(one.schemes) for one in card.security_requirements] == [["k"]]
    assert not card.capabilities.extended_agent_card


@pytest.mark.parametrize("odd", [5, "x", {"url": "u"}, [5], [{"url": 5}], [{"protocolVersion": ["1.0"]}]])
def test_a_member_of_1_0_that_is_none_leaves_a_card_of_0_x(odd: Any) -> None:
    assert places(old(supportedInterfaces=odd)) == [("http://a.example/", "JSONRPC", "0.3.0")]


def test_older_members_that_are_none_leave_a_card_of_1_0() -> None:
    assert places(DUAL | {"additionalInterfaces": 5}) == [("http://a.example/1", "JSONRPC", "1.0")]
    assert places(NEW | {"url": 5}) == [("http://a.example/1", "JSONRPC", "1.0")]


#: members about security as only cards of 0.x have them
_OLD_SECURITY = {"securitySchemes": {"a": {"type": "http", "scheme": "bearer"}}, "security": [{"a": []}]}


@each(
    ("tree", "text"),
    [
        (old(name=5), "name: expected"),
        (old(url=""), "names no interface"),
        (old(url=...), "names no interface"),
        (old(url=5), "names no interface"),
        (NEW | {"supportedInterfaces": []}, "names no interface"),
        (NEW | {"skills": 5}, "skills: expected"),
        (DUAL | {"skills": 5}, "skills: expected"),
        ([], "is not an agent card"),
    ],
)
def test_an_invalid_card_is_rejected_with_the_reason(tree: Any, text: str) -> None:
    assert text in rejected(dumps(tree)).message


@each(
    ("tree", "scheme"),
    [
        (NEW | {"supportedInterfaces": []}, ""),
        (old(url=..., protocolVersion="0.3.0", **_OLD_SECURITY), "bearer"),
        (old(url=..., protocolVersion=..., **_OLD_SECURITY), "bearer"),
        (old(url="", protocolVersion="0.2.5", **_OLD_SECURITY), "bearer"),
        (old(), ""),
    ],
)
def test_the_card_of_an_agent_that_is_served_here_needs_no_interfaces(tree: Any, scheme: str) -> None:
    card = parse_bytes(dumps(tree), "card.json", hosted=True)
    assert card.name == tree["name"]
    assert card.security_schemes["a"].http_auth_security_scheme.scheme == scheme
    assert bool(card.security_requirements) == bool(scheme)


def test_numbers_of_a_card_are_read_as_they_are_written() -> None:
    card = parse_bytes(dumps(OLD)[:-1] + b',"x":[1.0,9007199254740993,1e400,0.10]}', HERE)
    assert dumps(encode_card(card)).endswith(b'"x":[1.0,9007199254740993,1e400,0.10]}')
    extensions = b'{"uri":"u","params":{"n":123456789012345678901234567890}}'
    new = dumps(NEW).replace(b'"capabilities":{}', b'"capabilities":{"extensions":[%s]}' % extensions)
    assert (
        parse_bytes(new, HERE).capabilities.extensions[0].params.fields["n"].number_value
        == 1.2345678901234568e29
    )


def test_hostile_depth_is_no_crash() -> None:
    for levels in (300, 900):
        body = dumps(OLD)[:-1] + b',"x":' + b"[" * levels + b"]" * levels + b"}"
        try:
            parse_bytes(body, HERE)
        except A2AError as error:
            assert error.reason is Reason.INVALID_AGENT_RESPONSE  # noqa: PT017


def test_a_card_that_is_shown_is_read_back() -> None:
    made = hub.AgentCard(name="a", supported_interfaces=[interface("JSONRPC", "http://a", version="0.2.5")])
    dialect = by_version("0.2.5")
    assert dialect is not None
    assert spoken(dialect.card.encode(made)) == ["0.2.5"]
    made.supported_interfaces[0].protocol_version = "1.0"
    assert spoken(V1_0.card.encode(made)) == ["1.0"]


@pytest.mark.parametrize(
    ("more", "version"),
    [
        ({}, "1.0"),
        ({"protocolVersion": "1.0"}, "1.0"),
        ({"protocolVersion": "0.3.0"}, "0.3"),
        ({"protocolVersion": "9"}, "1.0"),
        # Microsoft's agent-framework 1.23: the members of 0.x are beside, and describe themselves.
        ({"protocolVersion": "0.3.0", "url": "http://a.example/1", "preferredTransport": "JSONRPC"}, "1.0"),
    ],
)
def test_an_interface_without_a_version_is_of_the_cards_own_else_of_1_0(
    more: dict[str, Any], version: str
) -> None:
    tree = {
        **NEW,
        "supportedInterfaces": [{"url": "http://a.example/1", "protocolBinding": "JSONRPC"}],
        **more,
    }
    assert (spoken(tree)[0], spoken(tree, version=version)) == (version, [version])


@pytest.mark.parametrize("authentication", [{"required": False}, {"schemes": None}, {}])
def test_authentication_without_schemes_asks_for_nothing(authentication: dict[str, Any]) -> None:
    card = parse_bytes(dumps(old(protocolVersion=..., authentication=authentication)), HERE)
    assert not card.security_schemes
    assert not card.security_requirements


#: a card as a writer in Python leaves it, who forgets the aliases of his models
SNAKE: dict[str, Any] = {
    "name": "snake",
    "description": "d",
    "version": "1",
    "url": "http://h/",
    "preferred_transport": "HTTP+JSON",
    "additional_interfaces": [{"url": "http://h/rpc", "transport": "JSONRPC"}],
    "default_input_modes": ["text/plain"],
    "default_output_modes": ["text/plain"],
    "capabilities": {
        "streaming": True,
        "push_notifications": True,
        "extensions": [{"uri": "u", "params": {"a_b": 1}}],
    },
    "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"], "input_modes": ["image/png"]}],
    "security_schemes": {
        "my_key": {"type": "apiKey", "in": "header", "name": "X"},
        "my_flow": {
            "type": "oauth2",
            "flows": {"client_credentials": {"token_url": "https://t/", "scopes": {"read_all": "reads"}}},
        },
    },
    "supports_authenticated_extended_card": True,
}


@pytest.mark.parametrize(
    ("declared", "version"),
    [({"protocol_version": "0.3.0"}, "0.3.0"), ({"protocol_version": "0.2.5"}, "0.2.5"), ({}, "0.2.5")],
)
def test_a_card_of_0_x_in_snake_case_has_its_content(declared: dict[str, Any], version: str) -> None:
    card = parse_bytes(dumps({**SNAKE, **declared}), HERE)
    assert [(one.protocol_binding, one.protocol_version) for one in card.supported_interfaces][:1] == [
        ("HTTP+JSON", version)
    ]
    assert "JSONRPC" in {one.protocol_binding for one in card.supported_interfaces}
    assert card.capabilities.push_notifications
    assert card.capabilities.extended_agent_card
    assert dict(card.capabilities.extensions[0].params) == {"a_b": 1}
    assert (list(card.default_input_modes), list(card.skills[0].input_modes)) == (
        ["text/plain"],
        ["image/png"],
    )
    assert set(card.security_schemes) == {"my_key", "my_flow"}
    flow = card.security_schemes["my_flow"].oauth2_security_scheme.flows.client_credentials
    assert (flow.token_url, dict(flow.scopes)) == ("https://t/", {"read_all": "reads"})


@pytest.mark.parametrize(
    ("members", "version"),
    [
        ({}, "0.2.5"),
        ({"version": "1", "capabilities": {}, "skills": []}, "0.2.5"),
        ({"signatures": []}, "0.3.0"),
        ({"authentication": {"schemes": []}}, "0.1.0"),
        ({"authentication": {"schemes": []}, "protocol_version": "0.3.0"}, "0.3.0"),
    ],
)
def test_only_authentication_marks_a_card_of_0_1(members: dict[str, Any], version: str) -> None:
    [one] = parse_bytes(dumps({"name": "n", "url": "http://h/", **members}), HERE).supported_interfaces
    assert (one.protocol_binding, one.protocol_version) == ("JSONRPC", version)


@each(
    ("binding", "usual"),
    [
        ("jsonrpc", "JSONRPC"),
        ("JSON-RPC", "JSONRPC"),
        ("json_rpc", "JSONRPC"),
        ("Http+Json", "HTTP+JSON"),
        ("HTTP-JSON", "HTTP+JSON"),
        ("gRPC", "GRPC"),
        ("SOAP", "SOAP"),
        ("REST", "REST"),
    ],
)
@each("old", [False, True])
def test_a_binding_in_other_letters(binding: str, usual: str, old: bool) -> None:
    tree: dict[str, Any] = {"name": "n", "url": "http://h/", "preferredTransport": binding}
    if not old:
        tree = {"name": "n", "supportedInterfaces": [{"url": "http://h/", "protocolBinding": binding}]}
    [one] = parse_bytes(dumps(tree), HERE).supported_interfaces
    assert one.protocol_binding == usual


@each(
    ("version", "usual"),
    [
        ("1", "1.0"),
        ("v1.0", "1.0"),
        ("V1", "1.0"),
        (" 1.0 ", "1.0"),
        ("1.0.1", "1.0.1"),
        ("v0.3.0", "0.3.0"),
        ("2", "2"),
        ("x", "x"),
    ],
)
def test_a_version_in_another_spelling(version: str, usual: str) -> None:
    declared = {"url": "http://h/", "protocolBinding": "JSONRPC", "protocolVersion": version}
    [one] = parse_bytes(dumps({"name": "n", "supportedInterfaces": [declared]}), HERE).supported_interfaces
    assert one.protocol_version == usual
    old = {"name": "n", "url": "http://h/", "protocolVersion": "v0.2.5"}
    assert parse_bytes(dumps(old), HERE).supported_interfaces[0].protocol_version == "0.2.5"


@pytest.mark.parametrize(
    ("url", "absolute"),
    [
        ("/rpc", "http://a.example/rpc"),
        ("./rpc?x=1", "http://a.example/x/rpc?x=1"),
        ("../rpc", "http://a.example/rpc"),
        ("//b.example/rpc", "http://b.example/rpc"),
        ("http://b.example/rpc", "http://b.example/rpc"),
        ("", ""),
        ("127.0.0.1:50051", "127.0.0.1:50051"),
    ],
)
def test_a_relative_url_is_one_of_the_card(url: str, absolute: str) -> None:
    tree = {"name": "n", "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC"}]}
    card = parse_bytes(dumps(tree), "http://a.example/x/agent-card.json")
    assert card.supported_interfaces[0].url == absolute
    assert parse_bytes(dumps(tree), "card.json").supported_interfaces[0].url == url  # of a file


@pytest.mark.parametrize(
    ("member", "value"), [("protocolBinding", "SOAP"), ("protocolVersion", "2"), ("url", "")]
)
def test_a_card_that_cannot_be_used_names_the_member(member: str, value: str) -> None:
    declared = {"url": "http://h/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", member: value}
    card = parse_bytes(dumps({"name": "n", "supportedInterfaces": [declared]}), HERE)
    with pytest.raises(A2AError) as caught:
        select(card, known=["JSONRPC"], binding="JSONRPC")
    assert f"its {member} {value!r}" in caught.value.message
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
    assert "--card FILE" in getattr(caught.value, "hint", "")
