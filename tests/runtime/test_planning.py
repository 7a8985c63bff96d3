"""Agents inside servers of applications: ASGI applications and grpc.aio servers."""

from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from a2a_bridge import add_to_server, asgi, connect, interface
from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.hosting import Engine
from tests.runtime.scene import PATIENCE, WELL_KNOWN, agent, uvicorn_running

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
OUTERS = pytest.mark.parametrize("outer", ["Starlette", "FastAPI"])


def within(outer: str, inner: Any, path: str = "/agents/shows") -> Any:
    if outer == "Starlette":
        return Starlette(routes=[Mount(path, inner)])
    app = FastAPI()
    app.mount(path, inner)
    return app


def browser(app: Any, base: str = "https://host.example") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(
        transport=transport, base_url=base, headers={"A2A-Version": "1.0", "User-Agent": "reader"}
    )


def listed(card: Any) -> list[tuple[str, str]]:
    return [(one["protocolBinding"], one["url"]) for one in card["supportedInterfaces"]]


@OUTERS
async def test_mounted_below_a_path(outer: str) -> None:
    async with browser(within(outer, asgi(agent()))) as http:
        base = "/agents/shows"
        answer = await http.post(f"{base}/", json=RPC)
        assert answer.json()["result"]["message"]["parts"] == [{"text": "hi!"}]
        assert (await http.post(f"{base}/message:send", json={"message": MESSAGE})).status_code == 200
        url = f"https://host.example{base}"
        assert listed((await http.get(base + WELL_KNOWN)).json()) == [
            ("JSONRPC", f"{url}/"),
            ("HTTP+JSON", url),
        ]  # of the named version


@OUTERS
async def test_streams_on_a_real_socket(outer: str) -> None:
    """And without a lifespan: the outer application has none for mounted ones."""
    async with uvicorn_running(within(outer, asgi(agent())), lifespan="off") as base:
        for binding in ("JSONRPC", "HTTP+JSON"):
            async with connect(f"{base}/agents/shows", binding=binding) as peer:
                assert peer.interface is not None
                assert peer.interface.url.rstrip("/") == f"{base}/agents/shows"
                assert (await peer.send("hi")).text == "hi!"
                assert [one async for one in peer.stream_text("words")] == ["one ", "two"]


@pytest.mark.parametrize(
    ("trusted", "shown"), [((), "https://host.example"), (("*",), "https://pub.example")]
)
async def test_forwarded_headers_count_when_trusted(trusted: tuple[str, ...], shown: str) -> None:
    options = ServeOptions(host=HostOptions(trust_forwarded=trusted))
    async with browser(within("FastAPI", asgi(agent(), options=options))) as http:
        headers = {"X-Forwarded-Host": "pub.example", "X-Forwarded-Proto": "https"}
        card = (await http.get("/agents/shows" + WELL_KNOWN, headers=headers)).json()
        assert {url.rstrip("/") for _, url in listed(card)} == {f"{shown}/agents/shows"}


async def test_of_declared_interfaces_only_the_paths_count() -> None:
    declared = [
        interface("JSONRPC", "http://127.0.0.1:9999/rpc"),
        interface("HTTP+JSON", "/rest"),
        interface("HTTP+JSON", "http://elsewhere.example/rpc"),
    ]
    async with browser(within("Starlette", asgi(agent(), declared))) as http:
        base = "/agents/shows"
        assert listed((await http.get(base + WELL_KNOWN)).json()) == [
            ("JSONRPC", f"https://host.example{base}/rpc"),
            ("HTTP+JSON", f"https://host.example{base}/rest"),
            ("HTTP+JSON", f"https://host.example{base}/rpc"),
        ]
        assert (await http.post(f"{base}/rpc", json=RPC)).status_code == 200
        assert (await http.post(f"{base}/rest/message:send", json={"message": MESSAGE})).status_code == 200
        assert (await http.post(f"{base}/rpc/message:send", json={"message": MESSAGE})).status_code == 200
        assert (await http.post(f"{base}/message:send", json={"message": MESSAGE})).status_code == 404


async def test_a_public_url_is_shown_and_given_to_extended_cards() -> None:
    options = ServeOptions(public_url="https://pub.example/a")
    async with browser(within("Starlette", asgi(agent(), options=options))) as http:
        card = (await http.get("/agents/shows" + WELL_KNOWN)).json()
        extended = (await http.get("/agents/shows/extendedAgentCard")).json()
        urls = [url for _, url in listed(card)]
        assert urls == ["https://pub.example/a/", "https://pub.example/a"]
        assert (extended["name"], listed(extended)[:2]) == ("extended", listed(card))


async def test_extended_cards_follow_the_caller_too() -> None:
    async with browser(within("Starlette", asgi(agent()))) as http:
        card = (await http.get("/agents/shows" + WELL_KNOWN)).json()
        extended = (await http.get("/agents/shows/extendedAgentCard")).json()
        assert listed(card)[0][1] == "https://host.example/agents/shows/"
        assert listed(extended)[:2] == listed(card)


async def test_the_card_of_an_application_lists_grpc_where_the_server_sends_trailers() -> None:
    """And not below a mount path, which gRPC does not have, unless there is a public address."""
    for trailers, outer, options, expected in (
        (True, None, ServeOptions(), ["host.example:443"]),
        (True, None, ServeOptions(public_url="https://pub.example:8443"), ["pub.example:8443"]),
        (True, "FastAPI", ServeOptions(), []),
        (False, None, ServeOptions(), []),
        (False, "FastAPI", ServeOptions(public_grpc="pub.example:443"), ["pub.example:443"]),
    ):
        app = asgi(agent(), options=options)

        async def sending(scope: Any, receive: Any, send: Any, app: Any = app, has: bool = trailers) -> None:
            if has:
                scope["extensions"] = {"http.response.trailers": {}}
            await app(scope, receive, send)

        async with browser(within(outer, sending) if outer else sending) as http:
            base = "/agents/shows" if outer else ""
            for path in (WELL_KNOWN, "/extendedAgentCard"):
                card = (await http.get(base + path)).json()
                assert [url for kind, url in listed(card) if kind == "GRPC"][:1] == expected
            older = (await http.get(base + WELL_KNOWN, params={"version": "0.3"})).json()
            found = [one["url"] for one in older["additionalInterfaces"] if one["transport"] == "GRPC"]
            assert bool(found) == bool(expected)


async def test_an_unknown_binding_is_no_part_of_an_application() -> None:
    with pytest.raises(LookupError):
        asgi(agent(), [interface("PIGEON")])


class OwnService(grpc.GenericRpcHandler):
    """Another gRPC service on the same server."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def echo(request: bytes, context: Any) -> bytes:
            return request

        return grpc.unary_unary_rpc_method_handler(echo) if details.method == "/own.Echo/Echo" else None


async def test_next_to_another_grpc_service() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((OwnService(),))
    port = server.add_insecure_port("127.0.0.1:0")
    engine = add_to_server(agent(), server, health=True, reflection=True)
    assert isinstance(engine, Engine)
    await server.start()
    try:
        async with connect(f"127.0.0.1:{port}") as peer:
            assert (await peer.send("hi")).text == "hi!"
            assert [one async for one in peer.stream_text("words")] == ["one ", "two"]
            assert (await peer.get_extended_agent_card()).name == "extended"
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await channel.unary_unary("/own.Echo/Echo")(b"same", timeout=PATIENCE) == b"same"
            health = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert await health(b"", timeout=PATIENCE) == b"\x08\x01"
    finally:
        await server.stop(0)
        await engine.close(0)


@pytest.mark.sdk
@pytest.mark.parametrize("protocol", ["JSONRPC", "HTTP+JSON"])
async def test_the_sdks_client_speaks_to_a_mounted_agent(protocol: str) -> None:
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2

    async with uvicorn_running(within("FastAPI", asgi(agent()))) as base, httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, f"{base}/agents/shows").get_agent_card()
        urls = [one.url for one in card.supported_interfaces]
        assert urls == [f"{base}/agents/shows/", f"{base}/agents/shows"] * len(VERSIONS)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[protocol], streaming=True)
        client = ClientFactory(config).create(card)
        request = a2a_pb2.SendMessageRequest(
            message=a2a_pb2.Message(
                message_id="m", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="words")]
            )
        )
        events = [event async for event in client.send_message(request)]
        texts = [
            event.artifact_update.artifact.parts[0].text
            for event in events
            if event.HasField("artifact_update")
        ]
        assert texts == ["one ", "two"]
