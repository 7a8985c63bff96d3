"""The card that callers see: the mounted interfaces and no others, under addresses that work for that caller."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import Advertisement, Mounted, interface
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.cards.select import expressible
from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.option_classes import ServeValues
from a2a_bridge.dialects import V0_3, V1_0
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.dialects.v0_3.card import decode_card, without_carrier
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.old_cards import card_trees
from tests.strategies import messages

CARD = hub.AgentCard(
    name="a",
    description="d",
    version="1",
    capabilities=hub.AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[hub.AgentSkill(id="s", name="s", description="s", tags=["t"])],
    supported_interfaces=[hub.AgentInterface(url="http://stale.example", protocol_binding="JSONRPC")],
)
HTTP = ListenAddress("127.0.0.1", 8080)
OTHER = ListenAddress("127.0.0.1", 9090)
WILD = ListenAddress("0.0.0.0", 8080)
GRPC = ListenAddress("127.0.0.1", 50051)


def http(path: str = "", address: ListenAddress = HTTP, binding: str = "JSONRPC", **more: Any) -> Mounted:
    return Mounted(interface(binding, **more), "http", address, path)


def grpc(address: ListenAddress = GRPC, **more: Any) -> Mounted:
    return Mounted(interface("GRPC", **more), "grpc", address)


def shown(card: hub.AgentCard, mounted: list[Mounted], **options: Any) -> Advertisement:
    """The card on a listener. options: fields of ServeValues, and further arguments of Advertisement."""
    values = {one.name: options.pop(one.name) for one in fields(ServeValues) if one.name in options}
    return Advertisement(card, mounted, ServeValues(**values), card_address=HTTP, **options)


def urls(mounted: list[Mounted], base: str = "", **options: Any) -> list[str]:
    made = shown(CARD, mounted, **options).card(base)
    return [one.url for one in made.supported_interfaces]


def test_exactly_the_mounted_ones_in_their_order() -> None:
    mounted = [grpc(), http(binding="HTTP+JSON", tenant="acme"), http("/a2a", version="1.0.1")]
    made = Advertisement(CARD, mounted, card_address=HTTP).card()
    assert [
        (one.protocol_binding, one.url, one.protocol_version, one.tenant) for one in made.supported_interfaces
    ] == [
        ("GRPC", "127.0.0.1:50051", "1.0", ""),
        ("HTTP+JSON", "http://127.0.0.1:8080", "1.0", "acme"),
        ("JSONRPC", "http://127.0.0.1:8080/a2a", "1.0", ""),
    ]
    assert made.name == "a"
    assert len(CARD.supported_interfaces) == 1, "the agent's own card is left alone"


def test_nothing_mounted_nothing_listed() -> None:
    assert urls([]) == []


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("", "http://127.0.0.1:8080/a2a"),
        ("http://agent.example", "http://agent.example/a2a"),
        ("https://agent.example/", "https://agent.example/a2a"),
        ("https://agent.example:8443/agents/x%20y", "https://agent.example:8443/agents/x%20y/a2a"),
        ("http://[::1]:8080", "http://[::1]:8080/a2a"),
    ],
)
def test_the_address_that_the_caller_used(base: str, expected: str) -> None:
    assert urls([http("/a2a")], base) == [expected]


def test_a_root_interface_ends_with_a_slash() -> None:
    assert urls([http()], "https://agent.example/x") == ["https://agent.example/x/"]


@pytest.mark.parametrize(
    ("base", "public", "root"),
    [
        ("", "", "http://127.0.0.1:8080"),
        ("https://agent.example/x", "", "https://agent.example/x"),
        ("", "https://agent.example", "https://agent.example"),
        ("", "https://agent.example/x/", "https://agent.example/x"),
    ],
)
def test_urls_of_http_json_end_without_a_slash(base: str, public: str, root: str) -> None:
    mounted = [http("", binding="HTTP+JSON"), http("/a2a", binding="HTTP+JSON")]
    assert urls(mounted, base, public_url=public) == [root, f"{root}/a2a"]


def test_other_listeners_keep_their_own_address() -> None:
    assert urls([http(), http("/b", OTHER), grpc()], "https://agent.example") == [
        "https://agent.example/",
        "http://127.0.0.1:9090/b",
        "127.0.0.1:50051",
    ]


@each("host", ["0.0.0.0", "::", ""])
@each(
    ("base", "shown"),
    [
        ("", "127.0.0.1"),
        ("http://agent.example:8080", "agent.example"),
        ("http://[fe80::1]:8080", "[fe80::1]"),
        ("http://[:::]:8080", "127.0.0.1"),
    ],
)
def test_wildcards_are_never_shown(host: str, base: str, shown: str) -> None:
    mounted = [http("/b", ListenAddress(host, 9090)), grpc(ListenAddress(host, 50051))]
    assert urls(mounted, base) == [f"http://{shown}:9090/b", f"{shown}:50051"]


@pytest.mark.parametrize("base", ["", "http://other.example"])
def test_public_addresses_outweigh_everything(base: str) -> None:
    mounted = [http("/a2a", WILD), http("", OTHER), grpc(ListenAddress("::", 50051))]
    public = {"public_url": "https://agent.example/base/"}
    assert urls(mounted, base, **public) == [
        "https://agent.example/base/a2a",
        "https://agent.example/base/",
        "agent.example:50051",
    ]
    assert urls(mounted, base, **public, public_grpc="grpc.example:443")[2] == "grpc.example:443"
    assert urls([grpc()], base, public_grpc="grpc.example:443") == ["grpc.example:443"]


def test_listeners_with_tls() -> None:
    assert urls([http("/a"), grpc()], secure=True) == ["https://127.0.0.1:8080/a", "127.0.0.1:50051"]


def test_ipv6_listeners() -> None:
    six = ListenAddress("::1", 8080)
    assert urls([http("", six), grpc(ListenAddress("::1", 1))]) == ["http://[::1]:8080/", "[::1]:1"]


def test_a_transport_of_ones_own_is_shown_by_its_address() -> None:
    own = Mounted(interface("QUEUE"), "queue", ListenAddress("127.0.0.1", 5))
    assert urls([own], public_grpc="grpc.example:1") == ["127.0.0.1:5"]


def test_a_transport_of_ones_own_keeps_its_scheme() -> None:
    own = Mounted(interface("QUEUE", "queue://0.0.0.0:5/jobs"), "queue", ListenAddress("0.0.0.0", 5), "/jobs")
    assert urls([own], "http://agent.example") == ["queue://agent.example:5/jobs"]


def test_addresses_that_the_system_gave_are_put_in() -> None:
    advertisement = Advertisement(CARD, [http("", ListenAddress("127.0.0.1", 0))])
    before = advertisement.document("http://agent.example")
    settled = ListenAddress("127.0.0.1", 4711)
    advertisement.settle([http("", settled)], settled)
    after = advertisement.document("http://agent.example")
    assert b":0/" in before
    assert json.loads(after)["supportedInterfaces"][0]["url"] == "http://agent.example/"
    assert advertisement.card().supported_interfaces[0].url == "http://127.0.0.1:4711/"


def test_documents_are_made_once_and_remembered_within_bounds() -> None:
    advertisement = Advertisement(CARD, [http()], card_address=HTTP)
    first = advertisement.document("http://host.example")
    assert advertisement.document("http://host.example") is first
    for number in range(500):
        advertisement.document(f"http://{number}.example")
    assert len(advertisement._documents) <= 64
    assert advertisement.document("http://host.example") == first


def test_where_the_card_is_published() -> None:
    assert Advertisement(CARD, [http()]).paths() == ("/.well-known/agent-card.json",)
    assert Advertisement(CARD, []).paths() == ("/.well-known/agent-card.json",)
    unknown = Advertisement(CARD, [http(version="9.9"), http(version="odd")])
    assert unknown.paths() == ("/.well-known/agent-card.json",)
    assert [one.version for one in unknown.mounted] == ["9.9", "odd"]


def test_a_card_of_1_0_has_no_member_of_another_version() -> None:
    tree = json.loads(Advertisement(CARD, [http(), grpc()], card_address=HTTP).document("http://h.example"))
    assert set(tree) == {
        "name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills",
        "supportedInterfaces",
    }  # fmt: skip
    assert set(tree["supportedInterfaces"][0]) == {"url", "protocolBinding", "protocolVersion"}


def tree(mounted: list[Mounted], card: hub.AgentCard = CARD, **options: Any) -> dict[str, Any]:
    made = shown(card, mounted, **options)
    read: dict[str, Any] = json.loads(made.document("http://h.example"))
    return read


def places(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["url"], one["transport"]) for one in document["additionalInterfaces"]]


def test_with_an_interface_of_0_3_the_card_has_the_members_of_both() -> None:
    document = tree([http(), grpc(), http("/old", version="0.3"), grpc(version="0.3.0")])
    assert [(one["url"], one["protocolVersion"]) for one in document["supportedInterfaces"]] == [
        ("http://h.example/", "1.0"),
        ("127.0.0.1:50051", "1.0"),
        ("http://h.example/old", "0.3"),
        ("127.0.0.1:50051", "0.3"),
    ]
    assert (document["url"], document["preferredTransport"]) == ("http://h.example/old", "JSONRPC")
    assert document["protocolVersion"] == "0.3.0"
    assert places(document) == [
        ("http://h.example/old", "JSONRPC"),
        ("127.0.0.1:50051", "GRPC"),
        ("http://127.0.0.1:50051", "GRPC"),
        ("127.0.0.1:50051", "GRPC"),
    ]


def test_the_main_interface_is_the_first_of_the_newest_0_x() -> None:
    mounted = [
        http("/2", version="0.2.5"),
        http(),
        http("/3", version="0.3", binding="HTTP+JSON"),
        grpc(version="0.2.5"),
        http("/3", version="0.3"),
        http("/three", version="0.3"),
    ]
    document = tree(mounted)
    assert (document["url"], document["preferredTransport"]) == ("http://h.example/3", "HTTP+JSON")
    assert document["protocolVersion"] == "0.3.0"
    assert places(document) == [
        ("http://h.example/3", "HTTP+JSON"),
        ("127.0.0.1:50051", "GRPC"),
        ("http://127.0.0.1:50051", "GRPC"),
        ("127.0.0.1:50051", "GRPC"),
        ("http://h.example/3", "JSONRPC"),
        ("http://h.example/three", "JSONRPC"),
    ]
    assert len(document["supportedInterfaces"]) == len(mounted)


def test_versions_at_one_place_are_listed_once_for_0_x_and_each_for_1_0() -> None:
    document = tree([http(version=version) for version in ("1.0", "0.3", "0.2.5")])
    assert [one["protocolVersion"] for one in document["supportedInterfaces"]] == ["1.0", "0.3", "0.2.5"]
    assert places(document) == [("http://h.example/", "JSONRPC")]


@pytest.mark.parametrize(
    ("version", "said", "spoken"),
    [
        ("0.3", "0.3.0", "0.3"),
        ("0.3.0", "0.3.0", "0.3"),
        ("0.2.5", "0.2.5", "0.2.5"),
        ("0.2.6", "0.2.5", "0.2.5"),
    ],
)
def test_0_x_alone_is_a_card_of_both_all_the_same(version: str, said: str, spoken: str) -> None:
    document = tree([http(version=version)])
    assert document["protocolVersion"] == said
    assert document["supportedInterfaces"][0]["protocolVersion"] == spoken
    assert document["url"] == document["supportedInterfaces"][0]["url"] == "http://h.example/"


BARE, URL = "127.0.0.1:50051", "http://127.0.0.1:50051"


@pytest.mark.parametrize(
    ("grpc_urls", "newer", "older", "entries"),
    [
        ("both-in-0.x", BARE, BARE, [BARE, URL, BARE]),
        ("url-last-in-0.x", BARE, BARE, [BARE, URL]),
        ("bare", BARE, BARE, [BARE]),
        ("http-in-0.x", BARE, URL, [URL]),
        ("http", URL, URL, [URL]),
    ],
)
def test_grpc_addresses_in_the_form_that_readers_want(
    grpc_urls: Any, newer: str, older: str, entries: list[str]
) -> None:
    mounted = [grpc(), grpc(version="0.3")]
    document = tree(mounted, grpc_urls=grpc_urls)
    assert [one["url"] for one in document["supportedInterfaces"]] == [newer, newer]
    assert (document["url"], document["preferredTransport"]) == (older, "GRPC")
    assert [one["url"] for one in document["additionalInterfaces"]] == entries
    secure = tree(mounted, grpc_urls=grpc_urls, grpc_secure=True)
    assert secure["url"] == older.replace("http:", "https:")


@pytest.mark.parametrize(
    ("public", "newer", "older"),
    [
        ("grpc.example:443", "grpc.example:443", "https://grpc.example:443"),
        ("grpc.example:9", "grpc.example:9", "http://grpc.example:9"),
        ("https://grpc.example:9", "grpc.example:9", "https://grpc.example:9"),
        ("http://grpc.example:9", "grpc.example:9", "http://grpc.example:9"),
    ],
)
def test_whether_a_public_grpc_address_speaks_tls(public: str, newer: str, older: str) -> None:
    document = tree([grpc(), grpc(version="0.3")], public_grpc=public)
    assert [one["url"] for one in document["supportedInterfaces"]] == [newer, newer]
    assert document["url"] == newer
    assert places(document) == [(newer, "GRPC"), (older, "GRPC"), (newer, "GRPC")]


def test_every_well_known_path_with_0_x() -> None:
    both = ("/.well-known/agent-card.json", "/.well-known/agent.json")
    for version in ("0.3", "0.2.5"):
        assert Advertisement(CARD, [http(version=version)]).paths() == both
        assert Advertisement(CARD, [http(), http(version=version)]).paths() == both
    made = Advertisement(CARD, [http(version="0.3")], card_address=HTTP)
    assert made.at(both[0])("http://h.example") == made.at(both[1])("http://h.example")


def test_where_0_2_looks_there_is_no_mutual_tls() -> None:
    card = hub.AgentCard()
    card.CopyFrom(CARD)
    card.security_schemes["m"].mtls_security_scheme.SetInParent()
    card.security_schemes["h"].http_auth_security_scheme.scheme = "Bearer"
    both = card.security_requirements.add()
    both.schemes["m"].SetInParent()
    both.schemes["h"].SetInParent()
    card.skills[0].security_requirements.add().schemes["m"].SetInParent()
    made = Advertisement(card, [http(version="0.2.5")], card_address=HTTP)
    whole, older = (json.loads(made.at(path)("http://h.example")) for path in made.paths())
    assert set(whole["securitySchemes"]) == {"m", "h"}
    assert (set(older["securitySchemes"]), older["security"]) == ({"h"}, [{"h": []}])
    assert older["securityRequirements"] == [{"schemes": {"h": {}}}]
    assert older["skills"][0]["security"] == [{}]
    assert made.at(made.paths()[1])("http://h.example") is made.document_for_0_2("http://h.example")


OLD_CARD = {
    "protocolVersion": "0.3.0",
    "name": "a",
    "description": "d",
    "url": "http://elsewhere.example/",
    "version": "1",
    "capabilities": {"stateTransitionHistory": True, "extensions": [{"uri": "u", "params": {"n": 1}}]},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
    "x-mine": {"a": None},
}


def carrying(**members: Any) -> hub.AgentCard:
    return decode_card(loads_exact(dumps(OLD_CARD | members)))  # type: ignore[arg-type]


@pytest.mark.parametrize("carries", [False, True])
def test_content_of_0_x_is_shown_to_readers_of_0_x(carries: bool) -> None:
    document = tree([http(), http(version="0.3")], carrying(), carries=carries)
    assert document["capabilities"]["stateTransitionHistory"] is True
    assert (document["x-mine"], document["url"]) == ({"a": None}, "http://h.example/")
    assert KEY not in json.dumps(document)


@pytest.mark.parametrize("carries", [False, True])
def test_content_of_0_x_is_carried_in_the_card_of_a_remote_agent(carries: bool) -> None:
    made = Advertisement(carrying(), [http()], card_address=HTTP, carries=carries)
    assert (KEY in made.document("").decode()) is carries
    assert (KEY in str(made.card())) is carries
    assert "stateTransitionHistory" not in json.loads(made.document(""))["capabilities"]


@pytest.mark.parametrize(
    "smuggled",
    [
        {"securityRequirements": 5},
        {"securityRequirements": [{"schemes": {"x": {}}}]},
        {"security_requirements": [{"schemes": {"x": {}}}]},
        {"icon_url": "http://evil.example"},
        {"capabilities": {"extendedAgentCard": True}},
        {"supportedInterfaces": 5},
    ],
)
def test_unknown_members_of_an_agent_say_nothing_in_the_name_of_1_0(smuggled: Any) -> None:
    document = tree([http(), http(version="0.3")], carrying(**smuggled))
    plain = Advertisement(
        without_carrier(carrying(**smuggled)), [http(), http(version="0.3")], card_address=HTTP
    )
    assert V1_0.card.decode(document) == plain.card("http://h.example")
    assert document["url"] == "http://h.example/"


@pytest.mark.sdk
def test_the_sdk_reads_the_card_strictly() -> None:
    from a2a.types import a2a_pb2
    from google.protobuf.json_format import ParseDict

    advertisement = Advertisement(CARD, [http(), grpc()], card_address=HTTP)
    tree = json.loads(advertisement.document("http://h.example"))
    read = ParseDict(tree, a2a_pb2.AgentCard(), ignore_unknown_fields=False)
    assert read.SerializeToString(deterministic=True) == advertisement.card(
        "http://h.example"
    ).SerializeToString(deterministic=True)


def test_bindings_may_be_left_out_of_the_card() -> None:
    mounted = [
        *(http(version=one) for one in ("1.0", "0.3")),
        *(http(binding="HTTP+JSON", version=one) for one in ("1.0", "0.3")),
        *(grpc(version=one) for one in ("1.0", "0.3")),
    ]
    whole = Advertisement(CARD, mounted, card_address=HTTP)
    path = "/.well-known/agent-card.json"

    def listed(made: Advertisement, query: str) -> set[str]:
        tree: Any = loads_exact(made.variant_at(path)("", query, ""))
        old = {tree["preferredTransport"], *(one["transport"] for one in tree["additionalInterfaces"])}
        found = {one["protocolBinding"] for one in tree["supportedInterfaces"]}
        assert old == found
        return found

    everything = {"JSONRPC", "HTTP+JSON", "GRPC"}
    assert listed(whole, "") == listed(whole, "x=1") == listed(whole, "binding=") == everything
    for query in (
        "bindings=JSONRPC,HTTP+JSON",
        "binding=JSONRPC,HTTP+JSON",
        "binding=jsonrpc&binding=HTTP%2BJSON",
        "binding=JSONRPC&binding=HTTP+JSON&binding=QUEUE",
    ):
        assert listed(whole, query) == {"JSONRPC", "HTTP+JSON"}
    with pytest.raises(A2AError, match=r"JSONRPC, HTTP\+JSON, GRPC"):
        listed(whole, "binding=QUEUE")
    fewer = shown(CARD, mounted, advertise=("JSONRPC", "HTTP+JSON"))
    assert listed(fewer, "") == {"JSONRPC", "HTTP+JSON"}
    assert listed(fewer, "binding=JSONRPC") == {"JSONRPC"}
    with pytest.raises(A2AError):
        listed(fewer, "binding=GRPC")


def versioned(made: Advertisement, query: str = "", version: str = "") -> Any:
    return loads_exact(made.variant_at("/.well-known/agent-card.json")("http://h", query, version))


def test_a_reader_that_names_a_version_gets_the_card_of_that_version() -> None:
    mounted = [
        *(http(version=one) for one in ("1.0", "0.3", "0.2.5")),
        *(grpc(version=one) for one in ("1.0", "0.3")),
    ]
    made = Advertisement(CARD, mounted, card_address=HTTP)
    newest = versioned(made, "version=1.0")
    assert newest == versioned(made, version="1.0") == versioned(made, version="0.3, 1.0.1")
    assert newest == V1_0.card.encode(V1_0.card.decode(newest))  # no member that 1.0 does not know
    assert not {"url", "preferredTransport", "additionalInterfaces", "protocolVersion"} & newest.keys()
    assert [one["protocolVersion"] for one in newest["supportedInterfaces"]] == ["1.0", "1.0"]
    for version in ("0.3", "0.2.5"):
        older = versioned(made, f"version={version}")
        assert "supportedInterfaces" not in older
        assert older["protocolVersion"].startswith(version)
        assert older["url"] == "http://h/"
    assert versioned(made, "version=0.3") == versioned(made, version="0.3")
    assert versioned(made, "version=0.2.5") == versioned(made, "binding=JSONRPC", "0.2.5")
    assert {one["transport"] for one in versioned(made, version="0.3")["additionalInterfaces"]} == {
        "JSONRPC",
        "GRPC",
    }
    # A header goes with every request of a client: one that means nothing here changes nothing, and neither
    # does a version without gRPC, which the client may want.
    everything = loads_exact(made.document("http://h"))
    for other in ("", "9.9", "0.1", "nonsense", "0.2.5"):
        assert versioned(made, version=other) == everything
    assert versioned(made, "version=") == everything
    for query in ("version=0.1", "version=9.9", "version=x"):
        with pytest.raises(
            A2AError, match=r"none of the versions of this card: 1\.0, 0\.3, 0\.2\.5"
        ) as caught:
            versioned(made, query)
        assert caught.value.violations[0].field == "version"


def test_the_card_can_be_for_some_versions_only() -> None:
    mounted = [http(version=one) for one in ("1.0", "0.3")]
    made = shown(CARD, mounted, card_versions=("1.0",))
    tree: Any = loads_exact(made.document("http://h"))
    assert [one["protocolVersion"] for one in tree["supportedInterfaces"]] == ["1.0"]
    assert "url" not in tree
    assert versioned(made, version="0.3") == tree
    with pytest.raises(A2AError, match=r"versions of this card: 1\.0"):
        versioned(made, "version=0.3")


# --- One document for all: each reader gets the content of its own card. For any card ---

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
