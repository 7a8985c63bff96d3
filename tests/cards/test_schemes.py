"""Security schemes that 1.0 cannot express: left out for its readers, with a warning. SDKs reject them."""

import logging
from typing import Any

import pytest

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import Advertisement, Mounted, interface
from a2a_bridge.codec import loads_exact
from a2a_bridge.dialects import V0_3
from a2a_bridge.pb import lf_a2a_v1 as hub

HTTP = ListenAddress("127.0.0.1", 8080)
ONE = Mounted(interface("JSONRPC"), "http", HTTP)
OLD = Mounted(interface("JSONRPC", version="0.3"), "http", HTTP, "/old")

SCHEMES: dict[str, Any] = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "odd": {"type": "carrierPigeon", "loft": 7},
    "flowless": {"type": "oauth2", "flows": {"byHand": {"tokenUrl": "https://t.example"}}},
    "code": {
        "type": "oauth2",
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "https://a.example",
                "tokenUrl": "https://t.example",
                "scopes": {},
            }
        },
    },
}


def elsewhere() -> hub.AgentCard:
    """A card of 0.3 with every sort of scheme, as a reader has it."""
    tree = {
        "name": "n",
        "description": "d",
        "version": "1",
        "protocolVersion": "0.3.0",
        "url": "http://agent.example/",
        "capabilities": {},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
        "securitySchemes": SCHEMES,
        "security": [{"odd": []}, {"key": []}],
    }
    return V0_3.card.decode(tree)


@pytest.mark.parametrize("mounted", [[ONE], [ONE, OLD]], ids=["1.0", "1.0 and 0.3"])
def test_the_card_has_the_content_that_1_0_can_express(
    mounted: list[Mounted], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        made = Advertisement(elsewhere(), mounted, card_address=HTTP, carries=True)
    assert [record.getMessage() for record in caplog.records] == [
        "the card of 'n' has security schemes that A2A 1.0 cannot express; callers of 1.0 do not see them: flowless, odd"
    ]
    tree: Any = loads_exact(made.document("http://here.example"))
    assert sorted(tree["securitySchemes"]) == ["code", "key"]
    assert tree["securitySchemes"]["key"]["apiKeySecurityScheme"] == {"location": "header", "name": "X-Key"}
    # A requirement stays, even if its scheme cannot be expressed.
    assert [list(one["schemes"]) for one in tree["securityRequirements"]] == [["odd"], ["key"]]


def test_a_card_of_0_3_alone_has_them_as_they_were() -> None:
    assert V0_3.card.encode(elsewhere())["securitySchemes"] == SCHEMES


def test_no_warning_for_schemes_that_1_0_can_express(caplog: pytest.LogCaptureFixture) -> None:
    card = elsewhere()
    for name in ("odd", "flowless"):
        del card.security_schemes[name]
    Advertisement(card, [ONE], card_address=HTTP)
    assert not caplog.records
