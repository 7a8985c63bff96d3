"""`a2a-bridge gateway` as a process: ready line, card, draining, and errors."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from joserfc.jwk import ECKey

from a2a_bridge.app.runtime import Server, connect
from a2a_bridge.cards import interface
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.cli.commands import ANY_PORT, agent, card, command, serving
from tests.patience import PATIENCE
from tests.tools.check.scripted import Script, scripted

MESSAGE = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hello")])
ANSWER = hub.SendMessageResponse(message=MESSAGE)


@asynccontextmanager
async def posting(upstream: Server, shown: bytes) -> AsyncIterator[str]:
    """A URL with a card of its own, which forwards everything else to another server on this machine."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # a connection test sends nothing
            writer.close()
            return
        if head.startswith(b"GET /.well-known/"):
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(shown), shown)
            )
            writer.close()
            return
        address = upstream.http
        assert address is not None
        there, back = await asyncio.open_connection(address.host, address.port)
        back.write(head)
        await asyncio.gather(copied(reader, back), copied(there, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def copied(source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(65536):
            into.write(chunk)
        into.close()


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(ANSWER)
    made.on_stream = yielding(hub.StreamResponse(message=MESSAGE))
    return made


async def test_it_prints_only_the_ready_line_and_ends_with_0(probe: Probe) -> None:
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT) as gateway,
    ):
        assert sorted(gateway.addresses) == ["grpc", "http"]
        assert gateway.ready == f"ready http={gateway.http} grpc={gateway.grpc}"
        for target in (gateway.http, gateway.grpc):
            async with connect(target) as peer:
                assert (await peer.send("hi")).text == "hello"
        gateway.signal()
        done = await gateway.ended()
    assert (done.code, done.out) == (0, "")


async def test_the_card_lists_the_gateways_interfaces_and_keeps_the_rest(probe: Probe) -> None:
    signed = card(signatures=[hub.AgentCardSignature(protected="e30", signature="AAAA")])
    async with (
        agent(probe, "JSONRPC", shown=signed) as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT) as gateway,
    ):
        shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
        gateway.signal()
        done = await gateway.ended()
    listed = [
        (one["protocolVersion"], one["protocolBinding"], one["url"]) for one in shown["supportedInterfaces"]
    ]
    assert listed == [
        (version, *place)
        for version in ("1.0", "0.3", "0.2.5")
        for place in (("JSONRPC", f"{gateway.http}/"), ("HTTP+JSON", gateway.http), ("GRPC", gateway.grpc))
    ]
    assert (shown["name"], shown["description"]) == ("Probe", "Does what a test says")
    assert "signatures" not in shown
    assert "sign" in done.err


async def test_the_card_shows_the_public_addresses(probe: Probe) -> None:
    public = {
        "A2A_BRIDGE_PUBLIC_URL": "https://agent.example/a",
        "A2A_BRIDGE_PUBLIC_GRPC": "agent.example:443",
    }
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT, env=public) as gateway,
    ):
        shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
    assert {one["url"] for one in shown["supportedInterfaces"]} == {
        "https://agent.example/a/",
        "https://agent.example/a",
        "agent.example:443",
    }


async def test_one_family_alone_can_be_served(probe: Probe) -> None:
    async with agent(probe, "GRPC") as upstream:
        target = str(upstream.grpc)
        async with serving("gateway", target, "--no-grpc", "--http", "127.0.0.1:0") as gateway:
            assert sorted(gateway.addresses) == ["http"]
        async with serving(
            "gateway", target, env={"A2A_BRIDGE_NO_HTTP": "1", "A2A_BRIDGE_GRPC": ":0"}
        ) as gateway:
            assert sorted(gateway.addresses) == ["grpc"]


async def test_a_grpc_agent_without_a_card_gets_the_least_card_and_a_note(probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.UNSUPPORTED_OPERATION))
    async with agent(probe, "GRPC") as upstream, serving("gateway", str(upstream.grpc), *ANY_PORT) as gateway:
        shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
        probe.on_unary = answering(ANSWER)
        async with connect(gateway.http, binding="HTTP+JSON") as peer:
            assert (await peer.send("hi")).text == "hello"
        gateway.signal()
        done = await gateway.ended()
    assert shown["name"] == str(upstream.grpc)
    assert "--card" in done.err


async def test_a_grpc_agent_may_show_its_card_over_grpc(probe: Probe) -> None:
    extended = card()
    extended.name = "Shown over gRPC"
    probe.on_unary = answering(extended)
    async with agent(probe, "GRPC") as upstream, serving("gateway", str(upstream.grpc), *ANY_PORT) as gateway:
        shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
    assert shown["name"] == "Shown over gRPC"


async def test_a_card_file_stands_in_for_the_card(probe: Probe, tmp_path: Path) -> None:
    own = card()
    own.name = "From a file"
    own.supported_interfaces.add(
        url="http://elsewhere.invalid/", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    file = tmp_path / "card.json"
    file.write_bytes(dumps(encoder(hub.AgentCard)(own)))
    async with agent(probe, "GRPC", "HTTP+JSON") as upstream:
        for target, more in (
            (str(upstream.grpc), ()),
            (f"http://{upstream.http}", ("--binding", "HTTP+JSON")),
        ):
            async with serving("gateway", target, "--card", str(file), *more, *ANY_PORT) as gateway:
                shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
                async with connect(gateway.http) as peer:
                    assert (await peer.send("hi")).text == "hello"
            assert shown["name"] == "From a file"


async def test_unusable_interfaces_of_a_card_are_skipped_with_a_warning(probe: Probe, tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    async with agent(probe, "JSONRPC") as upstream:
        own = card()
        for binding, version in (("GRPC", "0.1"), ("QUEUE", "1.0"), ("JSONRPC", "7.0")):
            own.supported_interfaces.add(
                url=f"http://{upstream.http}/", protocol_binding=binding, protocol_version=version
            )
        file.write_bytes(dumps(encoder(hub.AgentCard)(own)))
        rejected = await command("gateway", str(file), *ANY_PORT)
        own.supported_interfaces.add(url=f"http://{upstream.http}/", protocol_binding="JSONRPC")
        file.write_bytes(dumps(encoder(hub.AgentCard)(own)))
        async with serving("gateway", str(file), *ANY_PORT) as gateway:
            async with connect(gateway.http) as peer:
                assert (await peer.send("hi")).text == "hello"
            gateway.signal()
            done = await gateway.ended()
    for text in (
        "version 0.1 has no GRPC",
        "its protocolBinding 'QUEUE' is unknown",
        "its protocolVersion '7.0' is unknown",
    ):
        assert text in done.err
        assert text in rejected.err
    assert "Traceback" not in done.err + rejected.err
    assert (rejected.code, rejected.out) == (1, "")


async def test_the_card_lists_the_bindings_that_are_advertised_or_asked_for(probe: Probe) -> None:
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", "--advertise", "JSONRPC,GRPC", *ANY_PORT) as gateway,
    ):
        card_url = f"{gateway.http}/.well-known/agent-card.json"
        all_of_them = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
        one = (await command("card", "get", "-a", f"{card_url}?binding=GRPC", "-o", "json")).json
        none = await command("card", "get", "-a", f"{card_url}?binding=HTTP+JSON")
        async with connect(interface("HTTP+JSON", gateway.http)) as peer:
            assert (await peer.send("hi")).text == "hello"
    assert {one["protocolBinding"] for one in all_of_them["supportedInterfaces"]} == {"JSONRPC", "GRPC"}
    assert {one["protocolBinding"] for one in one["supportedInterfaces"]} == {"GRPC"}
    assert none.code == 3
    rejected = await command("gateway", "http://127.0.0.1:1", "--advertise", "QUEUE")
    assert rejected.code == 2


async def test_the_card_of_the_origin_is_taken_with_a_note_or_rejected(probe: Probe) -> None:
    async with agent(probe, "JSONRPC") as upstream:
        wrong = f"http://{upstream.http}/agents/other"
        async with serving("gateway", wrong, *ANY_PORT) as gateway:
            gateway.signal()
            done = await gateway.ended()
        assert f"{wrong} shows no card of its own; this is the agent 'Probe'" in done.err
        for verb in (
            ("gateway", wrong, *ANY_PORT),
            ("card", "get", "-a", wrong),
            ("send", "-a", wrong, "hi"),
        ):
            rejected = await command(*verb, "--exact")
            assert rejected.code == 3
            assert "no agent card at" in rejected.err
            assert rejected.out == ""


async def test_a_card_with_another_address_is_dialled_at_the_named_host(
    probe: Probe, unused_tcp_port: int
) -> None:
    """For agents whose card has http://localhost:8000 on every host."""
    async with agent(probe, "JSONRPC") as upstream:
        shown = card()
        for _ in range(2):  # cards of 0.3 repeat their main interface
            shown.supported_interfaces.add(
                url=f"http://localhost:{unused_tcp_port}/", protocol_binding="JSONRPC", protocol_version="1.0"
            )
        shown.supported_interfaces.add(
            url="http://169.254.169.254/", protocol_binding="HTTP+JSON", protocol_version="1.0"
        )
        body = dumps(encoder(hub.AgentCard)(shown))
        async with posting(upstream, body) as named:
            async with serving("gateway", named, "-H", "X-Key: secret", *ANY_PORT) as gateway:
                async with connect(gateway.http) as peer:
                    assert (await peer.send("hi")).text == "hello"
                gateway.signal()
                done = await gateway.ended()
            assert (await command("send", "-a", named, "hi")).code == 0
            async with serving("gateway", named, "--trust-card-urls", *ANY_PORT) as gateway:
                gateway.signal()
                trusting = await gateway.ended()
            rejected = await command("send", "-a", named, "hi", "--trust-card-urls", "--transport", "JSONRPC")
    assert f"upstream: JSONRPC 1.0 {named}/ with your headers" in done.err
    assert done.err.count("upstream: ") == 1
    assert "and 1 more of its card" in done.err
    assert "warning" not in done.err  # of one that is not needed
    assert f"instead of the card's http://localhost:{unused_tcp_port}/" in done.err
    assert f"http://localhost:{unused_tcp_port}/ does not answer yet" in trusting.err
    assert rejected.code == 3
    assert probe.calls[0].context.parameters["x-key"] == "secret"


async def test_an_upstream_that_does_not_answer_is_reported_before_the_ready_line(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    own = card()
    own.supported_interfaces.add(
        url=f"http://127.0.0.1:{unused_tcp_port}/", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    file = tmp_path / "card.json"
    file.write_bytes(dumps(encoder(hub.AgentCard)(own)))
    for target in (str(file), f"127.0.0.1:{unused_tcp_port}"):
        flags = ("--card", str(file)) if target != str(file) else ()
        async with serving("gateway", target, *flags, *ANY_PORT) as gateway:
            gateway.signal()
            done = await gateway.ended()
        assert "does not answer yet" in done.err


async def test_headers_go_upstream_and_those_of_the_caller_if_they_are_named(probe: Probe) -> None:
    flags = ("-H", "X-Key: secret", "--forward", "X-User")
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *flags, *ANY_PORT) as gateway,
    ):
        sent = ("-H", "X-User: me", "-H", "X-Other: no", "-H", "Authorization: Bearer t", "--binding", "GRPC")
        assert (await command("send", "-a", gateway.http, "hi", *sent)).code == 0
        seen = probe.last.context.parameters
    assert (seen["x-key"], seen["x-user"], seen["authorization"]) == ("secret", "me", "Bearer t")
    assert "x-other" not in seen


async def held_stream(probe: Probe) -> tuple[asyncio.Event, Any]:
    """Streams give one event and then wait for the returned event."""
    go_on = asyncio.Event()

    async def on_stream(_: Any) -> Any:
        yield hub.StreamResponse(task=hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING)))
        await go_on.wait()
        update = hub.TaskStatusUpdateEvent(task_id="t", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED))
        yield hub.StreamResponse(status_update=update)

    probe.on_stream = on_stream
    return go_on, on_stream


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_running_stream_finishes_before_the_gateway_ends(probe: Probe, binding: str) -> None:
    go_on, _ = await held_stream(probe)
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT) as gateway,
    ):
        async with connect(gateway.http, binding=binding) as peer, aclosing(peer.stream("hi")) as events:
            assert (await anext(events)).HasField("task")
            gateway.signal()
            await rejects_connections(gateway.http)
            go_on.set()
            rest = [event async for event in events]
        done = await gateway.ended()
    assert [event.WhichOneof("payload") for event in rest] == ["status_update"]
    assert done.code == 0


async def test_a_stream_that_does_not_finish_gets_an_error(probe: Probe) -> None:
    await held_stream(probe)
    grace = ("--timeout-graceful-shutdown", "0.2")
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *grace, *ANY_PORT) as gateway,
        connect(gateway.http, binding="JSONRPC") as http,
        connect(gateway.grpc) as grpc,
        aclosing(http.stream("hi")) as one,
        aclosing(grpc.stream("hi")) as other,
    ):
        await anext(one)
        await anext(other)
        gateway.signal(signal.SIGINT)
        for events in (one, other):
            with pytest.raises(A2AError) as caught:
                await anext(events)
            assert caught.value.reason is Reason.UNAVAILABLE
        assert (await gateway.ended()).code == 0


async def test_a_second_signal_ends_it_at_once(probe: Probe) -> None:
    await held_stream(probe)
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT) as gateway,
        connect(gateway.grpc) as peer,
        aclosing(peer.stream("hi")) as events,
    ):
        await anext(events)
        gateway.signal()
        await rejects_connections(gateway.http)
        gateway.signal()
        assert (await gateway.ended()).code == 128 + signal.SIGTERM


async def rejects_connections(url: str) -> None:
    """Waits until no process listens any more: the begin of a drain."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return
            writer.close()


async def test_an_agent_that_cannot_be_reached_ends_it_with_3(unused_tcp_port: int) -> None:
    for target in (f":{unused_tcp_port}", f"127.0.0.1:{unused_tcp_port}"):
        done = await command("gateway", target, *ANY_PORT)
        assert (done.code, done.out) == (3, "")
        assert "error: " in done.err


async def test_a_taken_port_ends_it_with_2_and_advice(probe: Probe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with agent(probe, "JSONRPC") as upstream:
            for flags in (
                ("--http", f"127.0.0.1:{port}", "--no-grpc"),
                ("--grpc", f"127.0.0.1:{port}", "--no-http"),
            ):
                done = await command("gateway", f"http://{upstream.http}", *flags)
                assert (done.code, done.out) == (2, "")
                assert "try: " in done.err
                assert "Traceback" not in done.err


async def test_a_card_without_a_usable_interface_ends_it_with_1(probe: Probe, tmp_path: Path) -> None:
    shown = json.loads(dumps(encoder(hub.AgentCard)(card())))
    shown["supportedInterfaces"] = [{"url": "x://y", "protocolBinding": "SOAP", "protocolVersion": "1.0"}]
    file = tmp_path / "card.json"
    file.write_text(json.dumps(shown))
    done = await command("gateway", str(file), *ANY_PORT)
    assert (done.code, done.out) == (1, "")
    assert "SOAP" in done.err


async def test_a_store_without_a_relay_would_keep_nothing(tmp_path: Path) -> None:
    done = await command(
        "gateway", "http://127.0.0.1:9", "--store", f"sqlite:///{tmp_path / 'g.db'}", *ANY_PORT
    )
    assert (done.code, done.out) == (2, "")
    assert "--push-relay" in done.err


@pytest.mark.parametrize("store", [(), ("--store", "memory://")], ids=" ".join)
async def test_a_key_that_would_sign_nothing_is_a_usage_error(tmp_path: Path, store: tuple[str, ...]) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    flags = ("--push-relay", "http://127.0.0.1", *store, "--push-signing-key", str(key))
    done = await command("gateway", "http://127.0.0.1:9", *flags, *ANY_PORT)
    assert (done.code, done.out) == (2, "")
    assert "--store" in done.err


async def test_only_the_versions_that_are_asked_for_are_served(probe: Probe) -> None:
    async with (
        agent(probe, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *ANY_PORT, "--versions", "0.3,1.0.1") as gateway,
    ):
        shown = (await command("card", "get", "-a", gateway.http, "-o", "json")).json
        for version, code in (("0.3", 0), ("1.0", 0), ("0.2.5", 1)):
            done = await command("send", "-a", gateway.http, "hi", "--a2a-version", version)
            assert done.code == code, done.err
        gateway.signal()
        await gateway.ended()
    versions = [one["protocolVersion"] for one in shown["supportedInterfaces"]]
    assert versions == ["0.3"] * 3 + ["1.0"] * 3


@pytest.mark.parametrize("versions", ["", "0.4", "1.0,x", "0.1"])
async def test_versions_that_cannot_be_served_are_usage_errors(versions: str) -> None:
    without_http = ("--no-http",) if versions == "0.1" else ()
    done = await command("gateway", "127.0.0.1:1", *ANY_PORT, *without_http, "--versions", versions)
    assert done.code == 2
    assert "--versions" in done.err


async def test_the_version_that_was_assumed_is_named_when_the_agent_does_not_know_it() -> None:
    paths = {f"/.well-known/{name}.json": {"protocolVersion": None} for name in ("agent-card", "agent")}
    async with (
        scripted(Script(version="0.3.0", wire=("1.0",), cards=paths)) as agent,
        serving("gateway", agent, *ANY_PORT) as running,
    ):
        running.signal()
        err = (await running.ended()).err
    assert "0.2.5 is assumed, because a card without protocolVersion counts as that" in err
    assert "--card FILE" in err


async def test_a_server_with_the_grpc_service_of_0_3_is_named_at_start() -> None:
    """As a2a-java 1.0.0.Alpha3, which speaks its draft of 1.0 as a2a.v1."""

    async def reject(_: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "Task not found")
        raise AssertionError

    handlers = {"GetTask": grpc.unary_unary_rpc_method_handler(reject)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a2a.v1.A2AService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with serving("gateway", f"127.0.0.1:{port}", *ANY_PORT) as gateway:
            gateway.signal()
            done = await gateway.ended()
    finally:
        await server.stop(None)
    assert "its gRPC service is a2a.v1" in done.err
