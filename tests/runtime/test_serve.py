"""serve() mounts the declared interfaces, lists exactly these, and leaves no resource behind."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest

from a2a_bridge import connect, interface, serve
from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS, EXTENSION, PATIENCE, WELL_KNOWN, agent

RPC = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}
HEADERS = {"A2A-Version": "1.0"}


def listed(card: hub.AgentCard) -> list[tuple[str, str]]:
    return [(one.protocol_binding, one.url) for one in card.supported_interfaces]


async def test_everything_by_default() -> None:
    async with serve(agent()) as server:
        assert listed(server.card) == [
            ("JSONRPC", f"http://{server.http}/"),
            ("HTTP+JSON", f"http://{server.http}"),
            ("GRPC", str(server.grpc)),
        ] * len(VERSIONS)
        versions = [one.protocol_version for one in server.card.supported_interfaces]
        assert versions == [version for version in VERSIONS for _ in range(3)]
        for version in VERSIONS:
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
                async with connect(server.card, binding=binding, version=version) as peer:
                    assert (await peer.send("hi")).text == "hi!"
        async with httpx.AsyncClient(base_url=f"http://{server.http}", headers=HEADERS) as http:
            assert (await http.post("/", json=RPC)).json()["result"]["message"]["parts"] == [{"text": "hi!"}]
            assert (await http.post("/message:send", json=RPC["params"])).status_code == 200
            found = (await http.get(WELL_KNOWN)).json()["supportedInterfaces"]
            # Only the named version.
            assert [(one["protocolBinding"], one["url"]) for one in found] == listed(server.card)[:3]


@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        (
            "/",
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "message/send",
                "params": {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": []}},
            },
            "message.parts",
        ),
        ("/v1/message:send", {"message": {"messageId": "m", "role": "ROLE_USER"}}, "message.content"),
    ],
)
async def test_a_message_of_0_3_without_parts_is_rejected_as_in_1_0(
    path: str, body: Any, member: str
) -> None:
    async with serve(agent()) as server, httpx.AsyncClient(base_url=f"http://{server.http}") as http:
        answer = (await http.post(path, json=body)).json()
    error = answer["error"]
    assert error.get("message", "").startswith(f"{member}: required")
    assert answer.get("code", error["code"]) == -32602


async def test_undeclared_interfaces_are_not_served() -> None:
    async with serve(agent(), [interface("JSONRPC", "/rpc")]) as server:
        assert server.grpc is None
        assert listed(server.card) == [("JSONRPC", f"http://{server.http}/rpc")]
        async with httpx.AsyncClient(base_url=f"http://{server.http}", headers=HEADERS) as http:
            assert (await http.post("/message:send", json=RPC["params"])).status_code == 404
            assert (await http.post("/", json=RPC)).status_code == 404
            assert (await http.post("/rpc", json=RPC)).status_code == 200
    async with serve(agent(), [interface("GRPC")]) as server:
        assert server.http is None
        assert listed(server.card) == [("GRPC", str(server.grpc))]


async def test_several_paths_on_one_listener() -> None:
    declared = [interface("HTTP+JSON", "/rest"), interface("JSONRPC", "/a"), interface("JSONRPC", "/b/")]
    async with serve(agent(), declared) as server:
        base = f"http://{server.http}"
        assert listed(server.card) == [
            ("HTTP+JSON", f"{base}/rest"),
            ("JSONRPC", f"{base}/a"),
            ("JSONRPC", f"{base}/b"),
        ]
        for one in server.card.supported_interfaces:
            async with connect(one) as peer:
                assert (await peer.send("hi")).text == "hi!"


async def test_an_interface_may_be_declared_twice() -> None:
    declared = [interface("JSONRPC"), interface("JSONRPC", "/", version="1.0.1", tenant="acme")]
    async with serve(agent(), declared) as server:
        assert [one.tenant for one in server.card.supported_interfaces] == ["", "acme"]
        async with connect(server.card.supported_interfaces[1]) as peer:
            assert (await peer.send("tenant")).text == "tenant=acme"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_hosts_limits_hold_on_every_binding(binding: str) -> None:
    options = ServeOptions(host=HostOptions(max_body=1000))
    async with serve(agent(), options=options) as server, connect(server.card, binding=binding) as peer:
        with rejected(Reason.REQUEST_TOO_LARGE) as caught:
            await peer.send("x" * 5000)
        assert caught.value.metadata == {"limit": "1000"}
        assert (await peer.send("hi")).text == "hi!"


async def test_two_listeners(unused_tcp_port: int) -> None:
    port = unused_tcp_port
    declared = [
        interface("JSONRPC"),
        interface("HTTP+JSON", f"http://127.0.0.1:{port}/v1"),
        interface("GRPC"),
    ]
    async with serve(agent(), declared) as server:
        assert server.http is not None
        assert server.http.port not in (0, port)
        assert listed(server.card)[1] == ("HTTP+JSON", f"http://127.0.0.1:{port}/v1")
        for one in server.card.supported_interfaces:
            async with connect(one) as peer:
                assert (await peer.send("hi")).text == "hi!"
        async with httpx.AsyncClient(headers=HEADERS) as http:
            assert (await http.post(f"http://127.0.0.1:{port}/", json=RPC)).status_code == 404


async def test_the_options_say_where(unused_tcp_port: int) -> None:
    port = unused_tcp_port
    options = ServeOptions(
        http=ListenAddress("127.0.0.1", port), public_url="https://pub.example/x", public_grpc="pub.example:9"
    )
    async with serve(agent(), options=options) as server:
        assert server.http == ListenAddress("127.0.0.1", port)
        assert listed(server.card) == [
            ("JSONRPC", "https://pub.example/x/"),
            ("HTTP+JSON", "https://pub.example/x"),
            ("GRPC", "pub.example:9"),
        ] * len(VERSIONS)


@each(
    ("declared", "error"),
    [
        (interface("CARRIER-PIGEON"), LookupError),
        (interface(""), LookupError),
        (interface("GRPC", version="0.1"), ValueError),
        (interface("JSONRPC", version="0.5"), ValueError),
        (interface("JSONRPC", version="nonsense"), ValueError),
        (interface("JSONRPC", "http://"), ValueError),
        (interface("JSONRPC", "http://:8080"), ValueError),
        (interface("JSONRPC", "http://127.0.0.1:99999"), ValueError),
        (interface("GRPC", "127.0.0.1:port"), ValueError),
        (interface("GRPC", "/twice"), ValueError),
        (interface("JSONRPC", WELL_KNOWN), ValueError),
        (interface("JSONRPC", "https://127.0.0.1:0"), ValueError),
    ],
)
async def test_invalid_declarations_are_rejected(
    declared: hub.AgentInterface, error: type[Exception]
) -> None:
    with pytest.raises(error):
        async with serve(agent(), [interface("JSONRPC"), interface("GRPC"), declared]):
            pytest.fail("it was served")


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
async def test_a_taken_port_leaves_nothing_open(binding: str, unused_tcp_port: int) -> None:
    mine = unused_tcp_port
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        declared = [interface("HTTP+JSON", f"127.0.0.1:{mine}"), interface(binding, f"127.0.0.1:{taken}")]
        with pytest.raises(OSError):
            async with serve(agent(), declared):
                pytest.fail("it was served")
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", mine)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", mine))


async def test_tls_shows_in_the_card() -> None:
    pem = Path(__file__).parents[1] / "transports" / "http_tls.pem"
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(pem)
    options = ServeOptions(host=HostOptions(tls=theirs))
    dial = DialOptions(tls=ssl.create_default_context(cafile=str(pem)))
    async with serve(agent(), [interface("JSONRPC", "https://127.0.0.1:0/a")], options) as server:
        assert listed(server.card) == [("JSONRPC", f"https://{server.http}/a")]
        async with connect(f"https://{server.http}", options=dial) as peer:
            assert peer.card == server.card
            assert (await peer.send("hi")).text == "hi!"


async def test_nothing_declared_is_nothing_to_serve() -> None:
    with pytest.raises(ValueError, match="no interfaces"):
        async with serve(agent(), []):
            pytest.fail("it was served")


async def test_both_families_can_have_tls_at_once() -> None:
    pem = Path(__file__).parents[1] / "transports" / "http_tls.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    key_at = pem.read_bytes().index(b"-----BEGIN PRIVATE KEY-----")
    certificate_at = pem.read_bytes().index(b"-----BEGIN CERTIFICATE-----")
    blocks = sorted([key_at, certificate_at])
    first, second = pem.read_bytes()[blocks[0] : blocks[1]], pem.read_bytes()[blocks[1] :]
    key, certificate = (second, first) if certificate_at < key_at else (first, second)
    options = ServeOptions(
        host=HostOptions(tls=context), grpc_tls=grpc.ssl_server_credentials([(key, certificate)])
    )
    dial = DialOptions(tls=ssl.create_default_context(cafile=str(pem)))
    async with serve(agent(), options=options) as server:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            async with connect(server.card, binding=binding, options=dial) as peer:
                assert (await peer.send("hi")).text == "hi!"


async def test_drain_may_be_repeated() -> None:
    async with serve(agent()) as server:
        async with asyncio.timeout(PATIENCE):
            await server.drain(0)
            await server.drain(5)
        async with connect(f"{server.grpc}") as peer:
            with pytest.raises(A2AError) as caught:
                await peer.send("hi")
        assert caught.value.reason is Reason.UNAVAILABLE


async def test_drain_ends_running_calls() -> None:
    async with serve(agent()) as server, connect(server.card) as peer:
        events = peer.stream("hang")
        async with asyncio.timeout(PATIENCE):
            first = await anext(events)
            assert first.WhichOneof("payload") == "task"
            await server.drain(0)
            with pytest.raises(A2AError) as caught:
                async for _ in events:
                    pass
        assert caught.value.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("binding", BINDINGS)
async def test_extensions_tenants_and_deadlines_arrive(binding: str) -> None:
    async with serve(agent()) as server, connect(server.card, binding=binding) as peer:
        context = CallContext(parameters={"a2a-extensions": f"{EXTENSION}, https://unknown.example"})
        reply = await peer.send("ext", context=context)
        assert reply.text.split(",")[0] == EXTENSION
        assert context.reply["a2a-extensions"] == EXTENSION
        late = CallContext(deadline=0.0)
        with rejected(Reason.DEADLINE_EXCEEDED):
            await peer.send("hi", context=late)
        request = hub.SendMessageRequest(tenant="acme")
        request.message.CopyFrom(
            hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="tenant")])
        )
        assert (await peer.send_message(request)).message.parts[0].text == "tenant=acme"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_tenant_that_the_interface_names(binding: str) -> None:
    async with serve(agent(), [interface(binding, tenant="acme")]) as server:
        assert [one.tenant for one in server.card.supported_interfaces] == ["acme"]
        async with connect(server.card) as peer:
            assert (await peer.send("tenant")).text == "tenant=acme"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_required_extension(binding: str) -> None:
    required = agent(extensions=[hub.AgentExtension(uri=EXTENSION, required=True)])
    async with serve(required) as server, connect(server.card, binding=binding) as peer:
        with rejected(Reason.EXTENSION_SUPPORT_REQUIRED):
            await peer.send("hi")
        context = CallContext(parameters={"a2a-extensions": EXTENSION})
        assert (await peer.send("hi", context=context)).text == "hi!"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_extended_card_gets_addresses(binding: str) -> None:
    async with serve(agent()) as server, connect(server.card, binding=binding) as peer:
        extended = await peer.get_extended_agent_card()
        assert (extended.name, listed(extended)) == ("extended", listed(server.card))


async def test_the_extended_card_follows_the_caller() -> None:
    options = ServeOptions(host=HostOptions(trust_forwarded=("127.0.0.1",)))
    headers = HEADERS | {"X-Forwarded-Host": "pub.example", "X-Forwarded-Proto": "https"}
    async with (
        serve(agent(), options=options) as server,
        httpx.AsyncClient(base_url=f"http://{server.http}", headers=headers) as http,
    ):
        public = (await http.get(WELL_KNOWN)).json()["supportedInterfaces"]
        extended = (await http.get("/extendedAgentCard")).json()["supportedInterfaces"]
    assert public[0]["url"] == "https://pub.example/"
    assert [one for one in extended if one["protocolVersion"] == "1.0"] == public


async def test_the_listener_of_an_extended_card_does_not_stand_for_another(unused_tcp_port: int) -> None:
    declared = [
        interface("JSONRPC", "http://127.0.0.1:0"),
        interface("HTTP+JSON", f"http://127.0.0.1:{unused_tcp_port}"),
    ]
    async with serve(agent(), declared) as server:
        rest = server.card.supported_interfaces[1].url
        async with httpx.AsyncClient(headers=HEADERS) as http:
            extended = (await http.get(f"{rest}/extendedAgentCard")).json()["supportedInterfaces"]
        assert [one["url"] for one in extended] == [url for _, url in listed(server.card)]


async def test_further_middleware_is_innermost() -> None:
    seen: list[str] = []

    class Watching:
        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.stream = inner.stream

        async def unary(self, call: Any) -> Any:
            seen.append(call.operation.name)
            return await self._inner.unary(call)

    options = ServeOptions(middleware=(Watching,))
    async with serve(agent(), options=options) as server, connect(server.card) as peer:
        await peer.send("hi")
        with pytest.raises(A2AError):
            await peer.get_task(hub.GetTaskRequest())
    assert seen == ["SendMessage"], "what is not valid is rejected before"


async def test_a_foreign_grpc_client_reaches_the_address_of_the_card() -> None:
    async with (
        serve(agent()) as server,
        grpc.aio.insecure_channel(server.card.supported_interfaces[2].url) as channel,
    ):
        call = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(hub.GetTaskRequest(id="none").SerializeToString(), timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
