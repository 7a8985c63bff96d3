"""A gateway over real sockets: forwarded content, rewritten content, and unreachable agents."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions, Server, connect, serve_gateway, serve_service
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import dumps, rounded
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext, Joined, entries_of
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.upstream import is_connect_failure
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding
from tests.patience import PATIENCE
from tests.rejections import rejected

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
EXTENSION = "https://extension.example/1"


def card(**members: Any) -> hub.AgentCard:
    return hub.AgentCard(
        name="Probe",
        description="Does what a test says",
        version="1",
        capabilities=hub.AgentCapabilities(
            streaming=True, extended_agent_card=True, extensions=[hub.AgentExtension(uri=EXTENSION)]
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        **members,
    )


@pytest.fixture
def probe() -> Probe:
    return Probe()


@asynccontextmanager
async def agent(probe: Probe, *bindings: str, address: ListenAddress | None = None) -> AsyncIterator[Server]:
    options = ServeOptions(http=address or ListenAddress(), grpc=address or ListenAddress(), grace=0)
    async with serve_service(probe, card(), [interface(one) for one in bindings], options) as server:
        yield server


def candidates(*interfaces: hub.AgentInterface) -> list[Candidate]:
    return [Candidate(one, V1_0) for one in interfaces]


@asynccontextmanager
async def gateway(
    *interfaces: hub.AgentInterface, replay: ReplayOptions | None = None, **dial: Any
) -> AsyncIterator[Server]:
    """A gateway on all bindings in front of `interfaces`."""
    options = DialOptions(timeout=None, **dial)
    served = ServeOptions(grace=0, replay=replay or ReplayOptions())
    async with serve_gateway(card(), candidates(*interfaces), options=served, dial_options=options) as server:
        yield server


@asynccontextmanager
async def bridged(probe: Probe, upstream: str, front: str, **dial: Any) -> AsyncIterator[Client]:
    """A client of `front` to a gateway to the probe behind `upstream`."""
    async with (
        agent(probe, upstream) as server,
        gateway(*server.card.supported_interfaces, **dial) as bridge,
        connect(bridge.card, binding=front, options=DialOptions(forward=frozenset())) as peer,
    ):
        yield peer


def of_port(binding: str, port: int) -> hub.AgentInterface:
    return interface(binding, f"127.0.0.1:{port}" if binding == "GRPC" else f"http://127.0.0.1:{port}/")


CELLS = [(upstream, front) for upstream in BINDINGS for front in BINDINGS]


@pytest.mark.parametrize(
    "own",
    [
        {"name": "A2A_32050", "code": -32050, "metadata": {"code": "-32050"}},
        {"name": "AGENT_OVERSLEPT", "metadata": {"until": "noon"}},
    ],
    ids=["code", "name"],
)
@pytest.mark.parametrize(("upstream", "front"), CELLS)
async def test_an_unknown_error_passes_unchanged(
    probe: Probe, upstream: str, front: str, own: dict[str, Any]
) -> None:
    detail = {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"minutes": 90}}
    sent = A2AError(Reason.INTERNAL_ERROR, "the agent's own words", details=[detail], **own)
    probe.on_unary = answering(sent)
    async with bridged(probe, upstream, front) as client:
        with pytest.raises(A2AError) as caught:
            await client.get_task(hub.GetTaskRequest(id="t"))
    got = caught.value
    assert (got.name, got.code, got.message) == (sent.name, sent.code, sent.message)
    assert (got.metadata, [dict(one) for one in got.details]) == (sent.metadata, [detail])


@pytest.mark.parametrize(("upstream", "front"), CELLS)
async def test_parameters_deadline_and_reply_travel(probe: Probe, upstream: str, front: str) -> None:
    async def on_unary(call: Any) -> Any:
        call.context.reply["a2a-extensions"] = EXTENSION
        return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    probe.on_unary = on_unary
    deadline = time.monotonic() + 30
    context = CallContext(deadline=deadline, parameters={"a2a-extensions": EXTENSION})
    options = DialOptions(
        parameters={
            "authorization": "Bearer t",
            "traceparent": "00-1-1-01",
            "x-private": "no",
            "x-named": "yes",
        }
    )
    known = DialOptions().forward
    async with (
        agent(probe, upstream) as server,
        gateway(*server.card.supported_interfaces, forward=known | {"x-named"}) as bridge,
        connect(bridge.card, binding=front, options=options) as client,
    ):
        await client.get_task(hub.GetTaskRequest(id="t"), context)
    seen = probe.last.context
    assert seen.parameters["authorization"] == "Bearer t"
    assert (seen.parameters["traceparent"], seen.parameters["x-named"]) == ("00-1-1-01", "yes")
    assert "x-private" not in seen.parameters
    assert seen.extensions == (EXTENSION,)
    assert seen.deadline is not None
    assert abs(seen.deadline - deadline) < 5
    assert context.reply["a2a-extensions"] == EXTENSION


@pytest.mark.parametrize(("upstream", "front"), CELLS)
async def test_entries_of_a_parameter_travel_as_they_came(probe: Probe, upstream: str, front: str) -> None:
    """Agents in Go take each entry as one URI; other readers split at commas."""
    probe.on_unary = answering(hub.Task(id="t", context_id="c"))
    entries = ("https://one.example", "https://two.example, https://three.example")
    context = CallContext(parameters={"a2a-extensions": Joined(entries)})
    async with bridged(probe, upstream, front) as client:
        await client.get_task(hub.GetTaskRequest(id="t"), context)
    seen = probe.last.context
    assert entries_of(seen.parameters["a2a-extensions"]) == entries
    assert seen.extensions == ("https://one.example", "https://two.example", "https://three.example")


async def test_an_extension_the_agent_does_not_confirm_is_not_confirmed(probe: Probe) -> None:
    async def on_unary(call: Any) -> Any:
        call.context.reply.clear()  # parameters that the server side of the agent sets itself
        return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    probe.on_unary = on_unary
    async with bridged(probe, "GRPC", "JSONRPC") as client:
        context = CallContext(parameters={"a2a-extensions": EXTENSION})
        await client.get_task(hub.GetTaskRequest(id="t"), context)
    assert probe.last.context.extensions == (EXTENSION,)
    assert "a2a-extensions" not in context.reply


@pytest.mark.parametrize(("upstream", "front"), CELLS)
async def test_a_caller_that_goes_away_ends_the_stream_upstream(
    probe: Probe, upstream: str, front: str
) -> None:
    begun = hub.StreamResponse(task=hub.Task(id="t", context_id="c"))
    probe.on_stream = holding(begun)
    # For an agent that cannot resume, a stream stays open a little longer: here not at all.
    async with bridged(probe, upstream, front, replay=ReplayOptions(linger=0)) as client:
        request = hub.SubscribeToTaskRequest(id="t")
        async with aclosing(client.subscribe_to_task(request)) as events:
            assert (await anext(events)).task.id == "t"
            await probe.wait_running(1)
        await probe.wait_running(0)
    assert probe.cancelled == 1


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_the_next_interface_answers_if_the_first_has_no_listener(
    probe: Probe, upstream: str, unused_tcp_port: int
) -> None:
    probe.on_unary = answering(hub.Task(id="t"))
    async with agent(probe, "HTTP+JSON") as server:
        dead = of_port(upstream, unused_tcp_port)
        async with gateway(dead, *server.card.supported_interfaces) as bridge, connect(bridge.card) as client:
            assert (await client.get_task(hub.GetTaskRequest(id="t"))).id == "t"
    assert len(probe.calls) == 1


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_an_agent_that_breaks_off_is_not_asked_again_elsewhere(probe: Probe, upstream: str) -> None:
    """An agent that accepted the connection may have seen the call."""
    accepted = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        # A gRPC client waits for the server's first frame before it sends a call; the probe sends it.
        writer.write(b"\0\0\0\4\0\0\0\0\0" if upstream == "GRPC" else b"")
        received = b""
        while b"GetTask" not in received and b"/tasks/" not in received and len(received) < 300:
            chunk = await reader.read(4096)
            if not chunk:
                break
            received += chunk
        writer.close()

    breaking = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with breaking, agent(probe, "JSONRPC") as other:
        first = of_port(upstream, breaking.sockets[0].getsockname()[1])
        async with gateway(first, *other.card.supported_interfaces) as bridge, connect(bridge.card) as client:
            with pytest.raises(A2AError) as caught:
                await client.get_task(hub.GetTaskRequest(id="t"))
    assert accepted >= 1
    assert caught.value.reason is Reason.UNAVAILABLE
    assert probe.calls == []


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_an_agent_that_comes_back_answers_again(
    probe: Probe, upstream: str, unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    probe.on_unary = answering(hub.Task(id="t"))
    address = ListenAddress("127.0.0.1", unused_tcp_port)
    with caplog.at_level(logging.WARNING, "a2a_bridge.gateway"):
        async with gateway(of_port(upstream, address.port)) as bridge, connect(bridge.card) as client:
            request = hub.GetTaskRequest(id="t")
            for _ in range(2):
                async with agent(probe, upstream, address=address):
                    assert (await answered(client, request)).id == "t"
                with rejected(Reason.UNAVAILABLE) as caught:
                    await client.get_task(request)
                assert str(address.port) not in caught.value.message
                assert not is_connect_failure(caught.value)
    assert any(str(address.port) in record.getMessage() for record in caplog.records)


async def answered(client: Client, request: hub.GetTaskRequest) -> hub.Task:
    """The answer, requested until the agent is reachable again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await client.get_task(request)
            except A2AError as error:
                if error.reason is not Reason.UNAVAILABLE:
                    raise


@pytest.mark.parametrize("front", BINDINGS)
async def test_the_extended_card_leads_to_the_gateway(probe: Probe, front: str) -> None:
    extended = card(signatures=[hub.AgentCardSignature(protected="e30", signature="AAAA")])
    extended.supported_interfaces.append(interface("JSONRPC", "http://10.0.0.7/"))
    extended.skills.add(id="secret", name="Secret", description="For those who may", tags=["x"])
    extended.security_schemes[
        "odd"
    ].SetInParent()  # of a type that 1.0 does not have: SDKs would reject the card
    probe.on_unary = answering(extended)
    async with agent(probe, "GRPC") as server, gateway(*server.card.supported_interfaces) as bridge:
        async with connect(bridge.card, binding=front) as client:
            shown = await client.get_extended_agent_card()
        assert list(shown.supported_interfaces) == list(bridge.card.supported_interfaces)
    assert [skill.id for skill in shown.skills] == ["secret"]
    assert not shown.signatures
    assert not shown.security_schemes


@pytest.mark.parametrize("front", BINDINGS)
async def test_tenants(probe: Probe, front: str) -> None:
    """The upstream's interface names a tenant: the gateway adds it, and rejects any other."""
    probe.on_unary = answering(hub.Task(id="t"))
    async with agent(probe, "HTTP+JSON") as server:
        upstream = hub.AgentInterface()
        upstream.CopyFrom(server.card.supported_interfaces[0])
        for fixed, asked, seen in (("", "", ""), ("", "a", "a"), ("a", "", "a"), ("a", "a", "a")):
            upstream.tenant = fixed
            async with gateway(upstream) as bridge, connect(bridge.card, binding=front) as client:
                await client.get_task(hub.GetTaskRequest(id="t", tenant=asked))
                assert (probe.last.request.tenant, probe.last.context.tenant) == (seen, seen)
        before = len(probe.calls)
        async with gateway(upstream) as bridge, connect(bridge.card, binding=front) as client:
            with pytest.raises(A2AError) as caught:
                await client.get_task(hub.GetTaskRequest(id="t", tenant="b"))
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert len(probe.calls) == before


async def test_an_integer_beyond_doubles_is_rounded_and_logged_once(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.serving")
    monkeypatch.setattr(rounded, "count", 0)
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    exact = 2**53 + 1
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": {"n": exact}}
    body = dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
    head = f"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    async with agent(probe, "HTTP+JSON") as server, gateway(*server.card.supported_interfaces) as bridge:
        assert bridge.http is not None
        for _ in range(2):
            reader, writer = await asyncio.open_connection(bridge.http.host, bridge.http.port)
            writer.write(head.encode() + body)
            assert b" 200 " in await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            await writer.wait_closed()
    assert probe.last.request.message.metadata["n"] == 2.0**53
    said = [record for record in caplog.records if record.name == "a2a_bridge.serving"]
    assert len(said) == 1
    assert rounded.count >= 2
