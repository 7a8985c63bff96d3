"""GRPC to a host with checked addresses: what is dialled, and the name for server and certificate."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge_transports.grpc import BINDING
from tests.transports.grpc_scene import PATIENCE, dialling, hosting

REQUEST = hub.GetTaskRequest(id="t")


class Names:
    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.asked = 0

    async def resolve(self, host: str, _port: int) -> Sequence[str]:
        assert host == "agent.example"
        self.asked += 1
        if "169.254.169.254" in self.addresses:
            raise A2AError(
                Reason.UNAVAILABLE, "inner address", metadata={"phase": "connect"}, blame=Blame.PEER
            )
        return self.addresses


def agent(name: str) -> Probe:
    probe = Probe()
    probe.on_unary = answering(hub.Task(id=name))
    probe.on_stream = yielding(hub.StreamResponse(task=hub.Task(id=name)))
    return probe


async def test_only_checked_addresses_are_dialled_and_looked_at_again_after_a_failure() -> None:
    names = Names("127.0.0.1")
    async with hosting(agent("one")) as first:
        port = first.address.port
        options: dict[str, Any] = {"resolve": names.resolve, "connect_timeout": 2}
        async with dialling(f"agent.example:{port}", **options) as client:
            for _ in range(3):
                assert (await client.get_task(REQUEST)).id == "one"
            events = [event async for event in client.subscribe_to_task(hub.SubscribeToTaskRequest(id="t"))]
            assert [event.task.id for event in events] == ["one"]
            assert names.asked == 1
            await first.drain(0)
            names.addresses = ["169.254.169.254"]
            for words in (".", "inner address", "inner address"):
                with pytest.raises(A2AError, match=words) as caught:
                    await client.get_task(REQUEST)
                assert caught.value.reason is Reason.UNAVAILABLE
            names.addresses = ["127.0.0.2", "::1"]
            second = BINDING.host(ListenAddress("127.0.0.2", port), HostOptions())
            BINDING.mount(second, "", agent("two"), [V1_0])
            await second.start()
            try:
                assert (await client.get_task(REQUEST)).id == "two"
            finally:
                await second.drain(0)


async def test_calls_on_former_addresses_end_there() -> None:
    """An agent that stops accepts no connections any more, and still works on its calls."""
    names = Names("127.0.0.1")
    reached, go = asyncio.Event(), asyncio.Event()

    async def answer(_: Call[Any, Any]) -> hub.Task:
        if not reached.is_set():
            reached.set()
            await go.wait()
        return hub.Task(id="one")

    async def events(_: Call[Any, Any]) -> AsyncIterator[hub.StreamResponse]:
        yield hub.StreamResponse(task=hub.Task(id="first"))
        await go.wait()
        yield hub.StreamResponse(task=hub.Task(id="last"))

    former = Probe()
    former.on_unary, former.on_stream = answer, events
    async with hosting(former) as first, asyncio.timeout(PATIENCE):
        port = first.address.port
        async with dialling(f"agent.example:{port}", resolve=names.resolve, connect_timeout=2) as client:
            call = asyncio.create_task(client.get_task(REQUEST))
            stream = client.subscribe_to_task(hub.SubscribeToTaskRequest(id="t"))
            assert (await anext(stream)).task.id == "first"
            await reached.wait()
            draining = asyncio.create_task(first.drain(PATIENCE))
            names.addresses = ["127.0.0.2"]
            second = BINDING.host(ListenAddress("127.0.0.2", port), HostOptions())
            BINDING.mount(second, "", agent("two"), [V1_0])
            await second.start()
            try:
                while await answer_of(client) != "two":
                    pass
                assert not call.done()
                go.set()
                assert (await call).id == "one"
                assert [event.task.id async for event in stream] == ["last"]
                await draining
            finally:
                await second.drain(0)


async def answer_of(client: Client) -> str:
    """Who answers; empty if nobody does: an agent that stops drops calls that arrive at that moment."""
    try:
        return (await client.get_task(REQUEST)).id
    except A2AError as error:
        if error.reason is not Reason.UNAVAILABLE:
            raise
        return ""


async def test_a_client_that_is_closed_while_it_resolves_does_not_dial() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        asked.set()
        await go.wait()
        return ["127.0.0.1"]

    async with hosting(agent("one")) as host, asyncio.timeout(PATIENCE):
        async with dialling(f"agent.example:{host.address.port}", resolve=resolve) as client:
            call = asyncio.create_task(client.get_task(REQUEST))
            await asked.wait()
        go.set()
        with pytest.raises(A2AError) as caught:
            await call
    error = caught.value
    assert (error.reason, error.metadata, error.blame) == (
        Reason.UNAVAILABLE,
        {"phase": "connect"},
        Blame.SELF,
    )


async def test_nothing_is_dialled_without_an_address() -> None:
    names = Names()
    async with dialling("agent.example:50051", resolve=names.resolve) as client:
        with pytest.raises(A2AError, match=r"no address of agent\.example is known") as caught:
            await client.get_task(REQUEST)
    assert caught.value.metadata == {"phase": "connect"}


@pytest.mark.parametrize(("name", "taken"), [("agent.example", True), ("other.example", False)])
async def test_the_certificate_has_to_be_for_the_name(name: str, taken: bool) -> None:
    certificate, key = _certificate(name)
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    async with hosting(agent("one"), tls=credentials) as host:
        url = f"https://agent.example:{host.address.port}"
        tls = grpc.ssl_channel_credentials(certificate)
        async with dialling(url, resolve=Names("127.0.0.1").resolve, tls=tls, connect_timeout=2) as client:
            if taken:
                assert (await client.get_task(REQUEST)).id == "one"
            else:
                with pytest.raises(A2AError) as caught:
                    await client.get_task(REQUEST)
                assert caught.value.reason is Reason.UNAVAILABLE


def _certificate(name: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(own)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, plain
    )
