"""A gRPC host under clients that misuse HTTP/2: streams reset at once, too many streams."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.bindings.binding import TlsFiles
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge.testing.samples import minimal
from a2a_bridge_transports.grpc import GrpcHost
from a2a_bridge_transports.grpc.wire import target_of
from tests.certificates import Identity, new_identity
from tests.patience import PATIENCE
from tests.transports.grpc_scene import SERVICE, channel, dialling, hosting, rejected

SEND = f"/{SERVICE}/SendMessage"
REQUEST = hub.SendMessageRequest(
    message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
).SerializeToString()
HEADERS, RST_STREAM, SETTINGS = 1, 3, 4
END_HEADERS = 4
CANCEL = struct.pack(">I", 8)


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(minimal(hub.SendMessageResponse))
    return made


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def block(*headers: tuple[str, str]) -> bytes:
    """Headers as HPACK literals without indexing."""
    return b"".join(
        b"\0" + b"".join(bytes((len(text),)) + text.encode() for text in header) for header in headers
    )


OPEN = block(
    (":method", "POST"),
    (":scheme", "http"),
    (":path", SEND),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


def resets(first: int, number: int) -> bytes:
    """Streams that are opened and reset at once."""
    ids = range(first, first + 2 * number, 2)
    return b"".join(frame(HEADERS, END_HEADERS, id_, OPEN) + frame(RST_STREAM, 0, id_, CANCEL) for id_ in ids)


async def test_streams_that_are_reset_at_once_cost_others_no_call(probe: Probe) -> None:
    burst, bursts, calls = 20_000, 3, 10
    async with hosting(probe) as host, channel(host.address) as others:
        send = others.unary_unary(SEND)
        await send(REQUEST)
        reader, writer = await asyncio.open_connection(host.address.host, host.address.port)
        ignoring = asyncio.create_task(reader.read())
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
        try:
            async with asyncio.timeout(PATIENCE):
                for number in range(bursts):
                    writer.write(resets(1 + 2 * burst * number, burst))
                    await asyncio.gather(*(send(REQUEST) for _ in range(calls)))
                    if ignoring.done():
                        break  # the host has closed that connection
                    await writer.drain()
        finally:
            ignoring.cancel()
            writer.close()
    assert len(probe.calls) >= 1 + calls


async def test_streams_of_one_connection_are_limited(probe: Probe) -> None:
    go = asyncio.Event()

    async def wait(_: Call[Any, Any]) -> Any:
        await go.wait()
        return hub.SendMessageResponse(message=hub.Message(message_id="a", role=hub.ROLE_AGENT))

    probe.on_unary = wait
    async with hosting(probe, max_connection_streams=2) as host, channel(host.address) as one:
        send = one.unary_unary(SEND)
        calls = [asyncio.ensure_future(send(REQUEST))]
        async with asyncio.timeout(PATIENCE):
            while not probe.calls:  # noqa: ASYNC110  the probe offers no event
                await asyncio.sleep(0.01)
        # The client knows the limit by now; streams that it opened before that are rejected.
        calls += [asyncio.ensure_future(send(REQUEST)) for _ in range(4)]
        # The option names a connection of its own; two channels would share one otherwise.
        async with channel(host.address, [("grpc.use_local_subchannel_pool", 1)]) as other:
            more = asyncio.ensure_future(other.unary_unary(SEND)(REQUEST))
            async with asyncio.timeout(PATIENCE):
                while len(probe.calls) < 3:  # noqa: ASYNC110  the probe offers no event
                    await asyncio.sleep(0.01)
            assert len(probe.calls) == 3
            go.set()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*calls, more)
    assert len(probe.calls) == 6


@pytest.mark.parametrize("limit", [1, 0])
async def test_connections_are_limited(limit: int, probe: Probe) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with (
        hosting(probe, max_connections=limit) as host,
        channel(host.address, own) as first,
        channel(host.address, own) as second,
    ):
        await first.unary_unary(SEND)(REQUEST)
        if limit:
            error = await rejected(second.unary_unary(SEND)(REQUEST))
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        else:
            await second.unary_unary(SEND)(REQUEST)
        await first.unary_unary(SEND)(REQUEST)


# gRPC over TLS, with an authority made for the occasion.


SENT = hub.GetTaskRequest(id="t")


@pytest.fixture(scope="module")
def identity() -> Identity:
    return new_identity()


@pytest.fixture
async def host(identity: Identity) -> AsyncIterator[GrpcHost]:
    probe = Probe()
    probe.on_unary = answering(hub.Task(id="t"))
    credentials = grpc.ssl_server_credentials([(identity.key, identity.certificate)])
    async with hosting(probe, tls=credentials) as started:
        yield started


@pytest.mark.parametrize("form", ["{}", "https://{}", "grpcs://{}/"])
@pytest.mark.parametrize("kind", ["context", "credentials"])
async def test_a_trusted_host(host: GrpcHost, identity: Identity, form: str, kind: str) -> None:
    tls: Any = grpc.ssl_channel_credentials(identity.certificate)
    if kind == "context":
        tls = ssl.create_default_context(cadata=identity.certificate.decode())
    async with dialling(form.format(host.address), tls=tls) as client:
        assert (await client.get_task(SENT)).id == "t"


@pytest.mark.parametrize("url", ["https://{}", "http://{}"])
async def test_a_host_that_is_not_trusted_or_not_spoken_to_in_tls(host: GrpcHost, url: str) -> None:
    async with dialling(url.format(host.address), connect_timeout=2) as client:
        with pytest.raises(A2AError) as caught:
            await client.get_task(SENT)
    assert caught.value.reason is Reason.UNAVAILABLE
    assert caught.value.metadata["phase"] == "connect"


async def test_trusted_authorities_can_be_files(host: GrpcHost, identity: Identity, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(identity.certificate)
    for url, grpc_tls in (
        (f"https://{host.address}", None),
        (str(host.address), True),
        (f"http://{host.address}", True),
    ):
        async with dialling(url, tls=TlsFiles(str(ca)), grpc_tls=grpc_tls) as client:
            assert (await client.get_task(SENT)).id == "t"


async def test_a_client_certificate_is_shown(identity: Identity, tmp_path: Path) -> None:
    probe = Probe()
    probe.on_unary = answering(hub.Task(id="t"))
    ca, both = tmp_path / "ca.pem", tmp_path / "client.pem"
    ca.write_bytes(identity.certificate)
    both.write_bytes(identity.certificate + identity.key)
    credentials = grpc.ssl_server_credentials(
        [(identity.key, identity.certificate)], identity.certificate, require_client_auth=True
    )
    async with hosting(probe, tls=credentials) as started:
        async with dialling(f"https://{started.address}", tls=TlsFiles(str(ca), str(both))) as client:
            assert (await client.get_task(SENT)).id == "t"
        async with dialling(f"https://{started.address}", tls=TlsFiles(str(ca))) as client:
            with pytest.raises(A2AError) as caught:
                await client.get_task(SENT)
    assert caught.value.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize(
    ("secure", "grpc_tls", "words"),
    [
        (True, True, "certificate is not trusted"),
        (True, None, r"where TLS is wanted \(--grpc-tls"),
        (False, True, "does not speak TLS"),
    ],
)
async def test_a_tls_failure_has_a_clear_text(
    identity: Identity, secure: bool, grpc_tls: bool | None, words: str
) -> None:
    credentials = grpc.ssl_server_credentials([(identity.key, identity.certificate)])
    async with (
        hosting(Probe(), tls=credentials if secure else None) as started,
        dialling(str(started.address), grpc_tls=grpc_tls, connect_timeout=2) as client,
    ):
        with pytest.raises(A2AError, match=words) as caught:
            await client.get_task(SENT)
    assert caught.value.metadata["phase"] == "connect"
    assert str(started.address) in caught.value.message


def test_port_443_means_tls() -> None:
    said = {
        "a:443": True,
        "a:50051": None,
        "http://a:443": False,
        "grpc://a:443": False,
        "https://a": True,
        "dns:a:443": None,
    }
    assert {url: target_of(url).secure for url in said} == said


async def test_certificates_are_always_checked() -> None:
    with pytest.raises(ValueError, match="always checks certificates"):
        async with dialling("grpcs://127.0.0.1:1", tls=TlsFiles(verify=False)):
            pass
