"""The card, resolved in each way of the official SDK for Python, and as Google ADK checks it."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import grpc.aio
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory, create_client
from a2a.client.client import Client
from a2a.types import a2a_pb2

from a2a_bridge import agent, interface, serve
from tests.equivalence.stack import BINDINGS
from tests.patience import PATIENCE

pytestmark = pytest.mark.sdk

#: what a program with two agents does: (URLs of the agents, configuration, shared HTTP client) -> clients
Resolve = Callable[[list[str], ClientConfig, httpx.AsyncClient], Awaitable[list[Client]]]
PATHS = ["/.well-known/agent-card.json", "/.well-known/agent.json"]
HTTP_ONLY = "?binding=JSONRPC&binding=HTTP%2BJSON"


@agent
async def echo(text: str) -> str:
    return text


async def by_resolver(urls: list[str], config: ClientConfig, http: httpx.AsyncClient) -> list[Client]:
    cards = [await A2ACardResolver(http, url).get_agent_card() for url in urls]
    return [ClientFactory(config).create(card) for card in cards]


async def by_resolver_after_a_factory(
    urls: list[str], config: ClientConfig, http: httpx.AsyncClient
) -> list[Client]:
    config.httpx_client = http  # which sends A2A-Version from now on
    factory = ClientFactory(config)
    return [factory.create(await A2ACardResolver(http, url).get_agent_card()) for url in urls]


async def by_create_client(urls: list[str], config: ClientConfig, _: httpx.AsyncClient) -> list[Client]:
    return [await create_client(url, client_config=config) for url in urls]


async def by_create_client_with_shared_http(
    urls: list[str], config: ClientConfig, http: httpx.AsyncClient
) -> list[Client]:
    config.httpx_client = http
    return [await create_client(url, client_config=config) for url in urls]


async def by_factory(urls: list[str], config: ClientConfig, http: httpx.AsyncClient) -> list[Client]:
    config.httpx_client = http
    factory = ClientFactory(config)
    return [await factory.create_from_url(url) for url in urls]


async def answer(client: Client, text: str) -> str:
    message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])
    events = client.send_message(a2a_pb2.SendMessageRequest(message=message))
    return "".join([part.text async for event in events for part in event.message.parts])


@pytest.mark.parametrize(
    "resolve",
    [
        by_resolver,
        by_resolver_after_a_factory,
        by_create_client,
        by_create_client_with_shared_http,
        by_factory,
    ],
)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_each_way_finds_each_binding(resolve: Resolve, binding: str) -> None:
    # The second agent has gRPC in 0.3 only, for which the SDK has a layer of its own.
    mixed = [interface("JSONRPC"), interface("HTTP+JSON"), interface("GRPC", version="0.3")]
    async with (
        serve(echo) as whole,
        serve(echo, mixed) as second,
        httpx.AsyncClient(timeout=PATIENCE, verify=False) as http,  # noqa: S501
    ):
        config = ClientConfig(
            supported_protocol_bindings=[binding], grpc_channel_factory=grpc.aio.insecure_channel
        )
        for client in await resolve([f"http://{whole.http}", f"http://{second.http}"], config, http):
            async with client:
                assert await answer(client, "hi") == "hi"


@pytest.mark.parametrize("agent_header", [None, "curl/8"], ids=["the SDK", "another client"])
async def test_no_header_takes_a_binding_out_of_the_card(agent_header: str | None) -> None:
    headers = {"A2A-Version": "1.0"} | ({"User-Agent": agent_header} if agent_header else {})
    async with (
        serve(echo) as server,
        httpx.AsyncClient(base_url=f"http://{server.http}", headers=headers, verify=False) as http,  # noqa: S501
    ):
        reply = await http.get(PATHS[0])
        assert reply.headers["vary"] == "A2A-Version"
        assert [one["protocolBinding"] for one in reply.json()["supportedInterfaces"]] == list(BINDINGS)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", [{}, {"A2A-Version": "1.0"}], ids=["no version", "version"])
async def test_adk_accepts_the_card_that_is_asked_for_by_bindings(path: str, version: dict[str, str]) -> None:
    async with (
        serve(echo) as server,
        httpx.AsyncClient(base_url=f"http://{server.http}", headers=version, verify=False) as http,  # noqa: S501
    ):
        whole, asked = await http.get(path), await http.get(f"{path}{HTTP_ONLY}")
        by_list = await http.get(f"{path}?binding=HTTP%2BJSON,JSONRPC")
        assert whole.headers["etag"] != asked.headers["etag"] == by_list.headers["etag"]
        again = await http.get(f"{path}{HTTP_ONLY}", headers={"If-None-Match": asked.headers["etag"]})
        assert again.status_code == 304
        found = asked.json()["supportedInterfaces"]
        assert {one["protocolBinding"] for one in found} == {"JSONRPC", "HTTP+JSON"}
        assert {urlsplit(one["url"])[:2] for one in found} == {("http", str(server.http))}
        assert "GRPC" not in asked.text
        none = await http.get(f"{path}?binding=SOAP")
        assert (none.status_code, none.json()["error"]["details"][1]["fieldViolations"][0]["field"]) == (
            400,
            "binding",
        )
