"""The 0.x agent card, member by member, and its preserved content, by payloads that others lose.

Possible losses between 0.x and 1.0: L1 empty or absent, L2 numbers, L5 false or absent, L7 unknown members,
L17 interfaces, L18 stateTransitionHistory, L20 signatures, L25 members unknown to 0.2.5.
"""

import json
import re
from typing import Any

import pytest

from a2a_bridge.codec import decode_bytes, dumps, encoder, loads_exact
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.unmapped import KEY, same
from a2a_bridge.dialects.v0_3.card import FORM, decode_card, encode_card, without_carrier
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.samples import full
from tests.rejections import rejected

MINIMAL = {
    "protocolVersion": "0.3.0",
    "name": "a",
    "description": "d",
    "url": "http://a.example/",
    "preferredTransport": "JSONRPC",
    "version": "1",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["t"]}],
}


def card(**members: Any) -> dict[str, Any]:
    """The minimal card with other members; `...` takes one away."""
    return {name: value for name, value in (MINIMAL | members).items() if value is not ...}


def read(tree: Any) -> Any:
    """The tree as it arrives on a wire."""
    return loads_exact(tree if isinstance(tree, bytes) else dumps(tree))


def round_trip(tree: Any, version: str = "0.3.0") -> hub.AgentCard:
    """Decodes the tree, asserts that it comes back after binary and ProtoJSON hops; returns the card."""
    given = read(tree)
    decoded = decode_card(given, version)
    hops = [
        hub.AgentCard.FromString(decoded.SerializeToString()),
        decode_bytes(hub.AgentCard, dumps(encoder(hub.AgentCard)(decoded))),
    ]
    for hop in hops:
        back = read(encode_card(hop, version))
        assert same(back, given), back
        assert KEY not in dumps(back).decode()
    return decoded


def bears_residue(decoded: hub.AgentCard) -> bool:
    return any(one.uri == KEY for one in decoded.capabilities.extensions)


def interfaces(decoded: hub.AgentCard) -> list[tuple[str, str, str]]:
    return [(one.url, one.protocol_binding, one.protocol_version) for one in decoded.supported_interfaces]


def test_a_regular_card_carries_nothing() -> None:
    decoded = round_trip(
        card(
            provider={"organization": "o", "url": "u"},
            capabilities={
                "streaming": False,
                "extensions": [{"uri": "urn:x", "required": True, "params": {"n": 1, "half": 0.5}}],
            },
            supportsAuthenticatedExtendedCard=True,
            signatures=[{"protected": "p", "signature": "s", "header": {"kid": "1"}}],
            security=[{"k": []}],
            securitySchemes={"k": {"type": "apiKey", "in": "header", "name": "X"}},
        )
    )
    assert not bears_residue(decoded)
    assert without_carrier(decoded) is decoded
    assert (decoded.name, decoded.provider) == ("a", hub.AgentProvider(organization="o", url="u"))
    assert decoded.capabilities.HasField("streaming")
    assert not decoded.capabilities.streaming
    assert not decoded.capabilities.HasField("push_notifications")
    assert decoded.capabilities.extended_agent_card
    assert decoded.capabilities.extensions[0].params.fields["half"].number_value == 0.5
    assert decoded.signatures[0].header.fields["kid"].string_value == "1"
    assert decoded.skills[0].tags == ["t"]


def test_every_member_of_1_0_has_a_place() -> None:
    tree = encode_card(full(hub.AgentCard))
    assert KEY not in dumps(tree).decode()
    assert decode_card(read(tree)) == full(hub.AgentCard)


@pytest.mark.parametrize("presence", [None, False, True])
def test_the_extended_card_keeps_its_presence(presence: bool | None) -> None:
    decoded = round_trip(card(supportsAuthenticatedExtendedCard=... if presence is None else presence))
    assert decoded.capabilities.HasField("extended_agent_card") is (presence is not None)
    assert decoded.capabilities.extended_agent_card is bool(presence)
    assert not bears_residue(decoded)


@each(
    "members",
    [
        {"additionalInterfaces": []},
        {"securitySchemes": {}},
        {"security": []},
        {"signatures": []},
        {"capabilities": {"extensions": []}},
        {"skills": [{"id": "", "name": "", "description": "", "tags": [], "examples": [], "inputModes": []}]},
        {"skills": []},
        {"provider": {"organization": "", "url": ""}},
        {"documentationUrl": ""},
        {"iconUrl": ""},
        {"securitySchemes": {"": {"type": "http", "scheme": "", "description": "", "bearerFormat": ""}}},
    ],
)
def test_l1_empty_is_not_absent(members: Any) -> None:
    round_trip(card(**members))


@each(
    "number",
    ["1.0", "1e0", "-0", "-0.0", "9007199254740993", "-1e-400", "0.10", "1e22", "18446744073709551616"],
)
@each("place", ["params", "header", "unknown"])
def test_l2_numbers_come_back_as_they_were_written(number: str, place: str) -> None:
    members: dict[str, Any] = {
        "params": {"capabilities": {"extensions": [{"uri": "u", "params": {"n": [5]}}]}},
        "header": {"signatures": [{"protected": "", "signature": "", "header": {"n": [5]}}]},
        "unknown": {"x": {"n": [5]}},
    }[place]
    round_trip(dumps(card(**members)).replace(b"[5]", f"[{number}]".encode()))


def test_l2_numbers_that_are_doubles_keep_their_value() -> None:
    text = b'{"uri":"u","params":{"n":1.0,"big":9007199254740993,"e":1e2}}'
    decoded = round_trip(dumps(card(capabilities={"extensions": ["!"]})).replace(b'"!"', text))
    fields = decoded.capabilities.extensions[0].params.fields
    assert {name: value.number_value for name, value in fields.items()} == {"n": 1, "big": 2.0**53, "e": 100}


def test_l2_unknown_members_may_be_deep_and_hold_halves_of_surrogate_pairs() -> None:
    deep: Any = "\ud83d"
    for _ in range(100):
        deep = {"\udc00": [deep]}
    round_trip(card(securitySchemes={"s": {"type": "mutualTLS", "x": deep}}, x=deep))
    for name in ("url", "protocolBinding", "protocolVersion", "tenant"):
        round_trip(card(supportedInterfaces=[{"url": "http://h/", name: "half \ud83d"}]))


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"name": "half \ud83d"}, "name: is not valid Unicode"),
        ({"url": "half \ud83d"}, "url: is not valid Unicode"),
        (
            {"additionalInterfaces": [{"url": "\ud83d", "transport": "GRPC"}]},
            "additionalInterfaces[0].url: is",
        ),
        ({"securitySchemes": {"\ud83d": {"type": "mutualTLS"}}}, 'securitySchemes["\\ud83d"]: is not'),
        ({"security": [{"\ud83d": []}]}, 'security[0]["\\ud83d"]: is not valid Unicode'),
        ({"security": [{"s": ["\ud83d"]}]}, "security[0].s[0]: is not valid Unicode"),
    ],
)
def test_l2_halves_of_surrogate_pairs_are_rejected(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(A2AError, match=re.escape(problem)) as caught:
        decode_card(card(**members))
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE


@pytest.mark.parametrize(
    ("content", "problem"), [("1e400", "is not a finite number"), ("[" * 90 + "]" * 90, "deep")]
)
def test_l2_content_beyond_a_struct_is_rejected(content: str, problem: str) -> None:
    text = dumps(card(capabilities={"extensions": [{"uri": "u", "params": {"n": 5}}]}))
    text = text.replace(b'"n":5', f'"n":{content}'.encode())
    with pytest.raises(A2AError, match=r"capabilities\.extensions\[0\]\.params\.n.*" + problem):
        decode_card(read(text))


@pytest.mark.parametrize("name", ["required", "streaming", "pushNotifications"])
def test_l5_false_is_not_absent(name: str) -> None:
    for value in (True, False):
        if name == "required":
            round_trip(card(capabilities={"extensions": [{"uri": "u", name: value}]}))
        else:
            assert not bears_residue(round_trip(card(capabilities={name: value})))


def test_l7_unknown_members_everywhere() -> None:
    unknown = {"x": 1, "~/": [None, 1.5], "icon_url": 5, "kind": "card"}
    decoded = round_trip(
        card(
            provider={"organization": "o", "url": "u"} | unknown,
            capabilities={"extendedAgentCard": "no", "extensions": [{"uri": "u"} | unknown]} | unknown,
            skills=[MINIMAL["skills"][0] | unknown],  # type: ignore[index]
            additionalInterfaces=[{"url": "u", "transport": "GRPC"} | unknown],
            securitySchemes={
                "o": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "", "scopes": {}} | unknown} | unknown} | unknown
            },
            signatures=[{"protected": "p", "signature": "s"} | unknown],
            **unknown,
        )
    )  # fmt: skip
    assert not decoded.HasField("icon_url")
    assert not decoded.capabilities.HasField("extended_agent_card")


@each(
    "name",
    [
        "additionalInterfaces",
        "documentationUrl",
        "iconUrl",
        "preferredTransport",
        "provider",
        "security",
        "securitySchemes",
        "signatures",
        "supportsAuthenticatedExtendedCard",
    ],
)
def test_null_is_as_good_as_absent(name: str) -> None:
    decoded = without_carrier(round_trip(card(**{name: None})))
    assert decoded == without_carrier(round_trip(card(**{name: ...})))


def test_l17_the_default_transport_is_jsonrpc() -> None:
    absent = round_trip(card(preferredTransport=...))
    said = round_trip(card())
    assert interfaces(absent) == interfaces(said) == [("http://a.example/", "JSONRPC", "0.3.0")]
    assert bears_residue(absent)
    assert not bears_residue(said)


def test_l17_additional_interfaces_in_order_with_repetitions() -> None:
    places = [
        {"url": "http://a.example/", "transport": "JSONRPC"},
        {"url": "a.example:1", "transport": "GRPC"},
        {"url": "http://a.example/", "transport": "JSONRPC"},
        {"url": "a.example:1", "transport": "x-mine"},
    ]
    decoded = round_trip(card(additionalInterfaces=places))
    assert interfaces(decoded) == [
        ("http://a.example/", "JSONRPC", "0.3.0"),
        *((one["url"], one["transport"], "0.3.0") for one in places),
    ]
    assert not bears_residue(decoded)


@each("version", ["0.3.0", "0.2.5", "0.2.6", "0.3", "0.3.7", "0.4.0", "1.0", "", "dev"])
def test_l17_the_version_is_kept_as_it_is_written(version: str) -> None:
    decoded = round_trip(card(protocolVersion=version))
    assert decoded.supported_interfaces[0].protocol_version == (version or "0.3.0")


def test_l17_a_card_of_no_version_is_of_the_one_it_is_read_as() -> None:
    assert interfaces(round_trip(card(protocolVersion=...), "0.2.5"))[0][2] == "0.2.5"
    assert interfaces(round_trip(card(protocolVersion=...)))[0][2] == "0.3.0"


MIXED = [
    hub.AgentInterface(url="http://one", protocol_binding="JSONRPC", protocol_version="1.0", tenant="t"),
    hub.AgentInterface(url="http://two", protocol_binding="HTTP+JSON", protocol_version="0.2.5"),
    hub.AgentInterface(url="three:1", protocol_binding="GRPC", protocol_version="0.3"),
    hub.AgentInterface(url="http://four", protocol_binding="JSONRPC", protocol_version="0.3"),
]


def test_l17_the_main_interface_is_of_the_newest_0_x_or_of_the_readers_version() -> None:
    source = hub.AgentCard(supported_interfaces=MIXED)
    tree = encode_card(source)
    assert (tree["url"], tree["preferredTransport"], tree["protocolVersion"]) == ("three:1", "GRPC", "0.3.0")
    assert tree["additionalInterfaces"] == [
        {"url": "http://two", "transport": "HTTP+JSON"},
        {"url": "http://four", "transport": "JSONRPC"},
    ]
    older = encode_card(source, "0.2.5")
    assert (older["url"], older["preferredTransport"], older["protocolVersion"]) == (
        "http://two",
        "HTTP+JSON",
        "0.2.5",
    )


def test_l17_one_place_of_several_versions_is_listed_once() -> None:
    source = hub.AgentCard(name="a")
    source.capabilities.SetInParent()
    for version in ("1.0", "0.3", "0.2.5"):
        source.supported_interfaces.add(url="http://a", protocol_binding="JSONRPC", protocol_version=version)
        source.supported_interfaces.add(url="a:1", protocol_binding="GRPC", protocol_version=version)
    tree = encode_card(source)
    assert (tree["url"], tree["additionalInterfaces"]) == ("http://a", [{"url": "a:1", "transport": "GRPC"}])
    assert decode_card(read(tree)) == source


def test_l17_a_card_without_0_x_still_names_an_address() -> None:
    tree = encode_card(hub.AgentCard(supported_interfaces=MIXED[:1]))
    assert (tree["url"], tree["preferredTransport"], tree["protocolVersion"]) == (
        "http://one",
        "JSONRPC",
        "0.3.0",
    )
    assert "additionalInterfaces" not in tree
    assert encode_card(hub.AgentCard())["url"] == ""


def test_l18_state_transition_history_is_carried() -> None:
    for value in (True, False):
        decoded = round_trip(card(capabilities={"stateTransitionHistory": value}))
        assert bears_residue(decoded)


def test_l20_signatures_as_they_are() -> None:
    signatures = [
        {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "_-8", "header": {"n": 1, "x": {"y": [None]}}},
        {"protected": "", "signature": ""},
    ]
    decoded = round_trip(card(signatures=signatures))
    assert not bears_residue(decoded)
    assert decoded.signatures[0].signature == "_-8"


def test_l25_members_unknown_to_0_2_5_are_kept() -> None:
    decoded = hub.AgentCard(name="a")
    decoded.supported_interfaces.add(url="u", protocol_binding="JSONRPC", protocol_version="0.2.5")
    decoded.signatures.add(protected="p", signature="s")
    decoded.security_schemes["m"].mtls_security_scheme.SetInParent()
    decoded.security_schemes["o"].oauth2_security_scheme.oauth2_metadata_url = "http://meta"
    decoded.skills.add(id="s").security_requirements.add().schemes["m"].SetInParent()
    decoded.security_schemes["o"].oauth2_security_scheme.flows.SetInParent()
    decoded.capabilities.SetInParent()
    tree = encode_card(decoded, "0.2.5")
    assert (tree["protocolVersion"], tree["skills"][0]["security"]) == ("0.2.5", [{"m": []}])
    assert tree["securitySchemes"]["m"] == {"type": "mutualTLS"}
    assert tree["securitySchemes"]["o"] == {"type": "oauth2", "flows": {}, "oauth2MetadataUrl": "http://meta"}
    assert tree["signatures"] == [{"protected": "p", "signature": "s"}]
    assert decode_card(read(tree), "0.2.5") == decoded


def test_payload_11_state_transition_history_true() -> None:
    round_trip(card(capabilities={"stateTransitionHistory": True}))


def test_payload_12_a_card_of_0_2_5_passes() -> None:
    decoded = round_trip(card(protocolVersion="0.2.5"), "0.2.5")
    assert interfaces(decoded) == [("http://a.example/", "JSONRPC", "0.2.5")]


def test_payload_14_an_extension_that_does_not_say_required() -> None:
    assert not bears_residue(round_trip(card(capabilities={"extensions": [{"uri": "u"}]})))


def test_payload_15_empty_lists_of_a_card() -> None:
    skill = {"id": "s", "name": "s", "description": "s", "tags": ["t"], "examples": [], "security": []}
    round_trip(card(security=[], skills=[skill], capabilities={"extensions": []}))


def test_payload_18_interfaces_of_1_0_and_0_3_with_a_tenant() -> None:
    source = hub.AgentCard(name="a", supported_interfaces=MIXED)
    source.capabilities.SetInParent()
    tree = encode_card(source)
    assert tree["supportedInterfaces"][0] == {
        "url": "http://one",
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
        "tenant": "t",
    }
    assert decode_card(read(tree)) == source
    only = hub.AgentCard(name="a", supported_interfaces=MIXED[:1])
    only.capabilities.SetInParent()
    assert decode_card(read(encode_card(only))) == only


@each(
    ("members", "path"),
    [
        ({"name": 5}, "name"),
        ({"url": 5}, "url"),
        ({"url": ["x"]}, "url"),
        ({"protocolVersion": 0.3}, "protocolVersion"),
        ({"preferredTransport": {}}, "preferredTransport"),
        ({"additionalInterfaces": {}}, "additionalInterfaces"),
        ({"additionalInterfaces": [5]}, "additionalInterfaces[0]"),
        ({"additionalInterfaces": [{"url": "u", "transport": 5}]}, "additionalInterfaces[0].transport"),
        ({"capabilities": []}, "capabilities"),
        ({"capabilities": {"streaming": "yes"}}, "capabilities.streaming"),
        ({"capabilities": {"extensions": {}}}, "capabilities.extensions"),
        ({"capabilities": {"extensions": [{"uri": 5}]}}, "capabilities.extensions[0].uri"),
        ({"capabilities": {"extensions": [{"uri": "u", "params": []}]}}, "capabilities.extensions[0].params"),
        ({"supportsAuthenticatedExtendedCard": 1}, "supportsAuthenticatedExtendedCard"),
        ({"skills": {}}, "skills"),
        ({"skills": ["s"]}, "skills[0]"),
        ({"skills": [{"id": "s", "tags": [5]}]}, "skills[0].tags[0]"),
        ({"skills": [{"id": "s", "security": {}}]}, "skills[0].security"),
        ({"provider": "me"}, "provider"),
        ({"signatures": [{"header": 5}]}, "signatures[0].header"),
        ({"defaultInputModes": [None]}, "defaultInputModes[0]"),
        ({"iconUrl": False}, "iconUrl"),
    ],
)
def test_a_member_of_the_wrong_kind_is_named(members: Any, path: str) -> None:
    with pytest.raises(A2AError) as caught:
        decode_card(read(card(**members)))
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
    assert f": {path}: expected" in caught.value.message


@pytest.mark.parametrize("tree", [[], "x", None, 5, True])
def test_a_card_must_be_an_object(tree: Any) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        FORM.decode(tree)


def test_l17_where_the_two_lists_disagree_the_members_of_0_x_count() -> None:
    other = [{"url": "http://evil.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    decoded = round_trip(card(supportedInterfaces=other))
    assert interfaces(decoded) == [("http://a.example/", "JSONRPC", "0.3.0")]
    agreeing = [*other, {"url": "http://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]
    decoded = round_trip(card(supportedInterfaces=agreeing))
    assert [url for url, _, _ in interfaces(decoded)] == ["http://evil.example", "http://a.example/"]


# --- Changed preserved content ---
def preserved(decoded: hub.AgentCard) -> str:
    return decoded.capabilities.extensions[-1].params.fields[KEY].string_value


def with_text(text: str, **members: Any) -> hub.AgentCard:
    decoded = without_carrier(decode_card(read(card(**members))))
    decoded.capabilities.extensions.add(uri=KEY).params.fields[KEY].string_value = text
    return decoded


def test_a_change_in_between_survives_and_other_entries_still_apply() -> None:
    decoded = decode_card(
        read(
            card(preferredTransport=..., iconUrl=None, capabilities={"stateTransitionHistory": True}, x=[1.0])
        )
    )
    decoded.description = "changed"
    decoded.icon_url = "http://icon"
    del decoded.supported_interfaces[:]
    decoded.supported_interfaces.add(url="there:1", protocol_binding="GRPC", protocol_version="0.3")
    tree = encode_card(decoded)
    assert (tree["url"], tree["preferredTransport"], tree["description"]) == ("there:1", "GRPC", "changed")
    assert tree["iconUrl"] == "http://icon"
    assert tree["capabilities"] == {"stateTransitionHistory": True}
    assert json.loads(dumps(tree))["x"] == [1.0]
    assert KEY not in dumps(tree).decode()


@pytest.mark.parametrize("version", ["0.3.0", "0.3", "0.2.5", "dev"])
def test_carried_content_survives_other_interfaces(version: str) -> None:
    decoded = decode_card(read(card(protocolVersion=version, additionalInterfaces=[])))
    del decoded.supported_interfaces[:]
    decoded.supported_interfaces.extend(MIXED)
    tree = encode_card(decoded)
    assert KEY not in dumps(tree).decode()
    assert tree["protocolVersion"] == "0.3.0"
    assert tree["additionalInterfaces"]


def test_a_residue_of_a_0_x_caller_is_the_callers_own() -> None:
    once = decode_card(read(card(x=1, preferredTransport=...)))
    extension = {"uri": KEY, "params": {KEY: preserved(once)}}
    given = read(card(capabilities={"extensions": [extension]}))
    tree = encode_card(decode_card(given))
    assert same(read(tree), given)
    assert "x" not in tree


def test_content_that_0_x_lacks_survives_a_hop_through_0_x() -> None:
    tree = encode_card(hub.AgentCard(name="a"))
    assert tree["capabilities"]["extensions"][0]["uri"] == KEY
    assert not decode_card(read(tree)).HasField("capabilities")


def test_another_wires_residue_is_not_shown() -> None:
    tree = encode_card(with_text('{"v":1,"proto":[["/x",null,1]]}'))
    assert KEY not in dumps(tree).decode()


def mirror(entries: str, *others: Any) -> Any:
    """A card with preserved content of the other direction, possibly forged."""
    text = f'{{"v":1,"hub":{entries}}}'
    return read(card(capabilities={"extensions": [*others, {"uri": KEY, "params": {KEY: text}}]}))


@pytest.mark.parametrize(
    "entries",
    [
        '[["/name",null,5]]',
        '[["/supportedInterfaces",null,5],["/iconUrl",null,5]]',
        '[["/iconUrl",null,"http://evil"]]',
        '[["",null,5]]',
        '[["/x",null,1e400]]',
        "[]",
        "5",
    ],
)
def test_a_residue_of_the_other_direction_that_0_x_forged_is_its_own(entries: str) -> None:
    given = mirror(entries, {"uri": "u"})
    decoded = decode_card(given)
    assert without_carrier(decoded) == decode_card(read(card(capabilities={"extensions": [{"uri": "u"}]})))
    assert same(read(encode_card(decoded)), given)


def test_content_that_0_x_lacks_is_carried_beside_other_extensions() -> None:
    source = hub.AgentCard(name="a")
    source.capabilities.extensions.add(uri="u")
    source.security_schemes["o"].oauth2_security_scheme.description = "no flows, not even none"
    tree = encode_card(source)
    assert [one["uri"] for one in tree["capabilities"]["extensions"]] == ["u", KEY]
    assert decode_card(read(tree)) == source


def test_a_hostile_card_is_no_crash() -> None:
    deep: Any = 1
    for _ in range(450):
        deep = [deep]
    source = hub.AgentCard()
    source.security_schemes["o"].oauth2_security_scheme.SetInParent()
    tree = encode_card(source)
    assert KEY in dumps(tree).decode()
    for given in (read(tree) | {"x": deep}, card(x=deep), card(securitySchemes={"s": {"type": deep}})):
        try:
            decoded = decode_card(given)
        except A2AError as error:
            assert error.reason is Reason.INVALID_AGENT_RESPONSE  # noqa: PT017
        else:
            dumps(encode_card(decoded))


@pytest.mark.parametrize("odd", [5, [5], [{"url": 5}], [{"url": None}], [[]], {}])
def test_a_member_of_1_0_that_is_none_is_an_unknown_member(odd: Any) -> None:
    decoded = round_trip(card(supportedInterfaces=odd))
    assert interfaces(decoded) == [("http://a.example/", "JSONRPC", "0.3.0")]
