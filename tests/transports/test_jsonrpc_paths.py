"""Where JSON-RPC answers, too: at the paths of the agent's own card, and with a tenant behind it."""

import json
from typing import Any

import pytest

from a2a_bridge.app.planning import jsonrpc_paths
from a2a_bridge.app.runtime import serve_service
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.transports.http_scene import MESSAGE, Answer, Scripted, ask, hosting, request


def rpc(tenant: str | None = None) -> str:
    params: dict[str, Any] = {"message": MESSAGE}
    if tenant is not None:
        params["tenant"] = tenant
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})


@pytest.mark.parametrize("path", ["/jsonrpc", "/jsonrpc/", "/a/b"])
async def test_a_path_of_the_agents_own_card(path: str) -> None:
    service = Scripted()
    async with hosting(service, options=HostOptions(jsonrpc_paths=("/jsonrpc", "/a/b"))) as host:
        answer = await ask(host, request("POST", path, rpc()))
        assert "result" in answer.json()
        assert service.calls[0].request.tenant == ""
        # It takes posts and nothing else, and nothing of others.
        assert (await ask(host, request("GET", path))).status in (404, 405)
    for taken in ("/readyz", "/message:send", "/tasks"):
        async with hosting(service, options=HostOptions(jsonrpc_paths=(taken,))) as host:
            assert (await ask(host, request("GET", "/readyz", version=""))).status == 200
            assert (await ask(host, request("GET", "/tasks"))).status == 200


async def test_which_paths_these_are() -> None:
    card = hub.AgentCard()
    for binding, url in (
        ("JSONRPC", "http://h:1/jsonrpc"),
        ("JSONRPC", "http://h:1/jsonrpc"),
        ("JSONRPC", "http://h:1/"),
        ("JSONRPC", "http://[h"),
        ("JSONRPC", "/v2/rpc"),
        ("HTTP+JSON", "http://h:1/rest"),
    ):
        card.supported_interfaces.add(protocol_binding=binding, url=url, protocol_version="1.0")
    assert jsonrpc_paths(card) == ("/jsonrpc", "/v2/rpc")


async def test_a_served_agent_answers_at_the_address_of_its_card() -> None:
    card = hub.AgentCard(name="a")
    card.supported_interfaces.add(
        protocol_binding="JSONRPC", url="http://old:1/jsonrpc", protocol_version="1.0"
    )
    for rewrites in (False, True):
        async with serve_service(Scripted(), card, rewrites_card=rewrites) as server:
            [host] = [one for one in server._hosts.values() if hasattr(one, "publish")]
            answer = await ask(host, request("POST", "/jsonrpc", rpc()))  # type: ignore[arg-type]
            assert "result" in answer.json()
            assert not any("/jsonrpc" in one.url for one in server.card.supported_interfaces)


@pytest.mark.parametrize(
    ("path", "given", "found"),
    [
        ("/acme", None, "acme"),
        ("/acme/", "acme", "acme"),
        ("/caf%C3%A9", None, "café"),
        ("/", "acme", "acme"),
    ],
)
async def test_a_tenant_behind_the_path(path: str, given: str | None, found: str) -> None:
    for mount in ("", "/rpc"):
        service = Scripted()
        async with hosting(service, path=mount) as host:
            answer = await ask(host, request("POST", mount + path, rpc(given)))
        assert "result" in answer.json()
        assert service.calls[0].request.tenant == found


async def test_a_tenant_that_is_not_utf_8_is_rejected() -> None:
    """Replaced bytes would make one tenant of several."""
    service = Scripted()
    async with hosting(service) as host:
        answer = await ask(host, request("POST", "/%FF", rpc()))
    assert answer.reason == "INVALID_REQUEST"
    assert not service.calls


async def test_two_tenants_are_rejected() -> None:
    service = Scripted()
    async with hosting(service) as host:
        answer = await ask(host, request("POST", "/acme", rpc("other")))
    [violation] = answer.json()["error"]["data"][-1]["fieldViolations"]
    assert answer.json()["error"]["code"] == -32602
    assert violation["field"] == "tenant"
    assert not service.calls


@pytest.mark.parametrize(
    "path", ["/tasks", "/v1", "/message:send", "/acme/message:send", "/a/b", "/tasks/7:cancel"]
)
async def test_paths_of_others_are_no_tenants(path: str) -> None:
    service = Scripted()
    async with hosting(service) as host:
        answer: Answer = await ask(host, request("POST", path, rpc()))
    assert b"jsonrpc" not in answer.body


async def test_readiness_takes_no_posts() -> None:
    async with hosting(Scripted()) as host:
        assert (await ask(host, request("POST", "/readyz", rpc()))).status in (404, 405)
