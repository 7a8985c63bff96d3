"""The card for Google ADK 2, which rejects a whole card because of a gRPC interface in it.

ADK is not installed for the tests: its request, and the check that its `_validate_card_rpc_targets` makes of
every interface, stand here.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest

from a2a_bridge import agent, interface, serve

WELL_KNOWN = "/.well-known/agent-card.json"


@agent
async def echo(text: str) -> str:
    return text


async def bindings(url: str, headers: dict[str, str], query: str = "") -> list[tuple[str, str]]:
    """The bindings and URLs of the interfaces that a reader with these headers gets."""
    async with httpx.AsyncClient(headers=headers, verify=False) as http:  # noqa: S501
        reply = await http.get(f"{url}{WELL_KNOWN}{query}")
    assert "User-Agent" in reply.headers["vary"]
    return [(one["protocolBinding"], one["url"]) for one in reply.json()["supportedInterfaces"]]


async def test_adk_gets_a_card_that_it_accepts() -> None:
    async with serve(echo) as server:
        url = f"http://{server.http}"
        found = await bindings(url, {"A2A-Version": "1.0"})
        assert {name for name, _ in found} == {"JSONRPC", "HTTP+JSON"}
        assert {urlsplit(place).netloc for _, place in found} == {str(server.http)}
        assert {urlsplit(place).scheme for _, place in found} == {"http"}


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"A2A-Version": "1.0", "User-Agent": "curl/8"}, ""),
        ({"A2A-Version": "1.0"}, "?version=1.0"),
    ],
    ids=["the official SDK", "another client", "a reader that asks for a version"],
)
async def test_other_readers_get_grpc_too(headers: dict[str, str], query: str) -> None:
    async with serve(echo) as server:
        assert "GRPC" in {name for name, _ in await bindings(f"http://{server.http}", headers, query)}


async def test_a_card_of_grpc_alone_stays_whole() -> None:
    async with serve(echo, [interface("GRPC")]) as server:
        found = await bindings(f"http://{server.http}", {"A2A-Version": "1.0"}) if server.http else []
    assert all(name == "GRPC" for name, _ in found)
