"""A gRPC host under clients that misuse HTTP/2: streams reset at once, too many streams, too many
connections.
"""

import asyncio
import struct
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.core.call import Call
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge.testing.samples import minimal
from tests.patience import PATIENCE
from tests.transports.grpc_scene import SERVICE, channel, hosting, rejected

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
