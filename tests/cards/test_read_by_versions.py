"""The card for readers of several versions, read by the readers that exist."""

import inspect
import json
import subprocess
import textwrap
from typing import Any

import pytest

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import Advertisement, Mounted, interface
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import full
from tests.patience import PATIENCE
from tests.peers.processes import python_of

HTTP = ListenAddress("127.0.0.1", 8080)
GRPC = ListenAddress("127.0.0.1", 50051)
MOUNTED = [
    Mounted(interface("JSONRPC"), "http", HTTP),
    Mounted(interface("HTTP+JSON"), "http", HTTP),
    Mounted(interface("GRPC"), "grpc", GRPC),
    Mounted(interface("JSONRPC", version="0.3"), "http", HTTP, "/old"),
    Mounted(interface("HTTP+JSON", version="0.3"), "http", HTTP, "/old"),
    Mounted(interface("GRPC", version="0.3"), "grpc", GRPC),
    Mounted(interface("JSONRPC", version="0.2.5"), "http", HTTP, "/old"),
]
KINDS = {
    "security_schemes-0": "APIKeySecurityScheme",
    "security_schemes-1": "HTTPAuthSecurityScheme",
    "security_schemes-2": "OAuth2SecurityScheme",
    "security_schemes-3": "OpenIdConnectSecurityScheme",
    "security_schemes-4": "MutualTLSSecurityScheme",
    "oauth": "OAuth2SecurityScheme",
    "oauth#password": "OAuth2SecurityScheme",
}
PLACES = [
    ["http://127.0.0.1:8080/old", "JSONRPC"],
    ["http://127.0.0.1:8080/old", "HTTP+JSON"],
    ["127.0.0.1:50051", "GRPC"],
    ["http://127.0.0.1:50051", "GRPC"],
    ["127.0.0.1:50051", "GRPC"],
]


def advertisement() -> Advertisement:
    """Of an agent whose card has every possible member."""
    card = full(hub.AgentCard)
    card.security_schemes["security_schemes-0"].api_key_security_scheme.location = "header"
    for name, flow in (("oauth", "client_credentials"), ("oauth#password", "password")):
        getattr(card.security_schemes[name].oauth2_security_scheme.flows, flow).SetInParent()
        card.security_requirements.add().schemes[name].list.append("r")
    return Advertisement(card, MOUNTED, card_address=HTTP)


def document(path: str = "/.well-known/agent-card.json") -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(advertisement().at(path)("http://127.0.0.1:8080"))
    return tree


def summary_of_0_x(card: Any) -> dict[str, Any]:
    """The content of an SDK's model after reading."""
    return {
        "version": card.protocol_version,
        "main": [card.url, card.preferred_transport],
        "places": [[one.url, one.transport] for one in card.additional_interfaces],
        "schemes": {name: type(one.root).__name__ for name, one in card.security_schemes.items()},
        "security": card.security,
        "extended": card.supports_authenticated_extended_card,
        "streaming": card.capabilities.streaming,
        "extensions": [one.uri for one in card.capabilities.extensions],
    }


def expected(kinds: dict[str, str]) -> dict[str, Any]:
    source = full(hub.AgentCard)
    return {
        "version": "0.3.0",
        "main": PLACES[0],
        "places": PLACES,
        "schemes": kinds,
        "security": [
            {name: list(scopes.list) for name, scopes in source.security_requirements[0].schemes.items()},
            {"oauth": ["r"]},
            {"oauth#password": ["r"]},
        ],
        "extended": True,
        "streaming": True,
        "extensions": [one.uri for one in source.capabilities.extensions],
    }


@pytest.mark.sdk
def test_the_sdk_of_1_0_reads_the_content_of_1_0() -> None:
    from a2a.client.card_resolver import parse_agent_card

    read = parse_agent_card(document())
    said = advertisement().card("http://127.0.0.1:8080")
    assert hub.AgentCard.FromString(read.SerializeToString()) == said


@pytest.mark.sdk
def test_the_0_3_reader_of_that_sdk_reads_the_older_members() -> None:
    from a2a.compat.v0_3.types import AgentCard

    assert summary_of_0_x(AgentCard.model_validate(document())) == expected(KINDS)


@pytest.mark.process
@pytest.mark.sdk
@pytest.mark.parametrize(
    ("generation", "path", "kinds"),
    [
        ("0.3", "/.well-known/agent-card.json", KINDS),
        ("0.2", "/.well-known/agent.json", {name: kind for name, kind in KINDS.items() if "TLS" not in kind}),
    ],
)
def test_the_sdks_of_0_3_and_0_2_read_the_card(generation: str, path: str, kinds: dict[str, str]) -> None:
    # These SDKs cannot be installed beside the newer one, so they read in environments of their own.
    python = python_of(generation)
    program = f"""
        import json, sys
        from typing import Any
        from a2a.types import AgentCard

        {textwrap.indent(inspect.getsource(summary_of_0_x), " " * 8).strip()}

        print(json.dumps(summary_of_0_x(AgentCard.model_validate(json.load(sys.stdin)))))
    """
    done = subprocess.run(
        [python, "-c", textwrap.dedent(program)],
        input=json.dumps(document(path)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == expected(kinds)
