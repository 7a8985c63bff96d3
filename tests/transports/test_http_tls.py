"""Both HTTP bindings over TLS."""

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, TlsFiles, http_fetch
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import answering
from a2a_bridge_transports._http import protocol
from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    PATIENCE,
    Scripted,
    dialling,
    hosting,
    reply,
    request,
    update,
    wire,
)

PEM = Path(__file__).with_name("http_tls.pem")
both = pytest.mark.parametrize("kind", list(BINDINGS))


def serving() -> HostOptions:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return HostOptions(tls=context, header_timeout=0.3)


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@both
@pytest.mark.parametrize(
    ("scheme", "serves_tls", "tls"),
    [
        ("https://", True, trusting()),
        ("http://", True, trusting()),
        ("", True, trusting()),
        ("https://", False, False),
        ("https://", True, TlsFiles(ca=str(PEM))),
        ("https://", True, TlsFiles(verify=False)),
    ],
)
async def test_the_options_decide_on_tls(kind: str, scheme: str, serves_tls: bool, tls: Any) -> None:
    async with (
        hosting(Scripted(), options=serving() if serves_tls else HostOptions()) as host,
        dialling(f"{scheme}{host.address}", kind, DialOptions(tls=tls)) as near,
    ):
        assert (await Client(near).get_task(hub.GetTaskRequest(id="7"))).id == "7"


@both
@pytest.mark.parametrize(("scheme", "tls"), [("https://", None), ("http://", True), ("", True)])
async def test_unknown_proxies_are_not_trusted(kind: str, scheme: str, tls: Any) -> None:
    service = Scripted()
    async with (
        hosting(service, options=serving()) as host,
        dialling(f"{scheme}{host.address}", kind, DialOptions(tls=tls)) as near,
    ):
        with pytest.raises(A2AError) as caught:
            await Client(near).get_task(hub.GetTaskRequest(id="7"))
    assert (caught.value.reason, caught.value.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
    assert not service.calls


def test_invalid_tls_options_are_not_ignored() -> None:
    with pytest.raises(TypeError):
        HttpHost(ListenAddress(), HostOptions(tls="cert.pem"))


async def test_documents_know_the_scheme() -> None:
    async with hosting(Scripted(), options=serving()) as host:
        host.publish("/card.json", lambda base: json.dumps(base).encode())
        async with http_fetch(DialOptions(tls=trusting())) as fetch:
            fetched = await fetch(f"https://{host.address}/card.json", {})
        assert json.loads(fetched.body) == f"https://{host.address}"


async def test_a_handshake_that_never_comes_is_cut_off() -> None:
    async with hosting(Scripted(), options=serving()) as host:
        reader, writer = await asyncio.open_connection(host.address.host, host.address.port)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()


async def test_a_handshake_that_ends_after_draining_is_too_late() -> None:
    late = socket.socket()
    try:
        async with hosting(Scripted(), options=replace(serving(), header_timeout=PATIENCE)) as host:
            address = (host.address.host, host.address.port)
            async with asyncio.timeout(PATIENCE):
                late.setblocking(False)
                await asyncio.get_running_loop().sock_connect(late, address)
                # A later connection is accepted after it.
                async with wire(host, ssl=trusting()):
                    pass
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(
                sock=late, ssl=trusting(), server_hostname=address[0]
            )
            assert await reader.read() == b""
            assert not host.connections
            writer.close()
    finally:
        late.close()


async def test_a_client_certificate_is_shown() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    context.load_verify_locations(PEM)
    context.verify_mode = ssl.CERT_REQUIRED
    known, unknown = TlsFiles(str(PEM), str(PEM)), TlsFiles(str(PEM))
    async with hosting(Scripted(), options=HostOptions(tls=context)) as host:
        async with dialling(f"https://{host.address}", "JSONRPC", DialOptions(tls=known)) as near:
            assert (await Client(near).get_task(hub.GetTaskRequest(id="7"))).id == "7"
        async with dialling(f"https://{host.address}", "JSONRPC", DialOptions(tls=unknown)) as near:
            with pytest.raises(A2AError) as caught:
                await Client(near).get_task(hub.GetTaskRequest(id="7"))
    assert caught.value.reason is Reason.UNAVAILABLE


@both
@pytest.mark.parametrize(
    ("scheme", "options", "files", "words"),
    [
        ("https", HostOptions(), None, "does not speak TLS; its URL may begin with http://"),
        ("https", serving(), None, "certificate of 127.0.0.1:.* is not trusted: self-signed certificate"),
        ("http", serving(), None, r"where TLS is wanted \(https://\)"),
    ],
)
async def test_a_tls_failure_has_a_clear_text(
    kind: str, scheme: str, options: HostOptions, files: TlsFiles | None, words: str
) -> None:
    async with (
        hosting(Scripted(), options=options) as host,
        dialling(f"{scheme}://{host.address}", kind, DialOptions(tls=files)) as near,
    ):
        with pytest.raises(A2AError, match=words) as caught:
            await Client(near).get_task(hub.GetTaskRequest(id="7"))
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_files_that_cannot_be_used_are_rejected(tmp_path: Path) -> None:
    for files in (TlsFiles(ca=str(tmp_path / "none.pem")), TlsFiles(certificate=__file__)):
        with pytest.raises(ValueError, match="files for TLS cannot be used"):
            async with dialling("https://127.0.0.1:1", "JSONRPC", DialOptions(tls=files)):
                pass


async def connected(
    host: HttpHost, path: str, body: str = "", receive_buffer: int = 0, **headers: str
) -> ssl.SSLSocket:
    """A client that reads nothing by itself, after it has sent a request."""

    def connect() -> ssl.SSLSocket:
        opened = socket.socket()
        opened.settimeout(PATIENCE)
        if receive_buffer:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        opened.connect((host.address.host, host.address.port))
        secured = trusting().wrap_socket(opened, server_hostname="localhost")
        secured.sendall(request("POST" if body else "GET", path, body, **headers))
        return secured

    return await asyncio.to_thread(connect)


async def test_draining_ends_with_an_idle_client_that_does_not_answer_the_end() -> None:
    async with hosting(Scripted(), options=replace(serving(), drain_window=0.0)) as host:
        with await connected(host, "/livez") as client:
            assert b" 200 " in await asyncio.to_thread(client.recv, 4096)
            (connection,) = host.connections
            connection.close()
            connection.close()
            async with asyncio.timeout(PATIENCE):
                await host.drain(0.2)
                while host.connections:  # noqa: ASYNC110  a set has no event
                    await asyncio.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell how much the client has read")
async def test_a_client_that_reads_slowly_is_not_cut_off() -> None:
    async def large(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        for size in (8_000_000, 2_000_000):
            yield update("x" * size)

    async with hosting(Scripted(on_stream=large), options=serving()) as host:
        with await connected(host, "/message:stream", json.dumps({"message": MESSAGE}), 4096) as client:
            async with asyncio.timeout(PATIENCE):
                while not any(one.is_full for one in host.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            (connection,) = host.connections
            transport = connection.transport
            assert transport is not None
            late = asyncio.get_running_loop().time() + 100 * protocol.UNREAD
            waiting = transport.get_write_buffer_size()
            for _ in range(3):
                for _ in range(20):
                    assert await asyncio.to_thread(client.recv, 16_384)
                connection.end_late(late)
                assert transport.get_write_buffer_size() == waiting  # which shows nothing of it
                assert connection.transport is not None
                assert not transport.is_closing()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell how much the client has read")
async def test_a_closed_connection_waits_for_a_slow_reader_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of asyncio: the sweep has to decide.
    monkeypatch.setattr(asyncio.constants, "SSL_SHUTDOWN_TIMEOUT", 0.01)
    body = json.dumps({"message": MESSAGE})
    async with hosting(Scripted(on_unary=answering(reply("x" * 8_000_000))), options=serving()) as host:
        with await connected(host, "/message:send", body, 4096, Connection="close") as client:
            async with asyncio.timeout(PATIENCE):
                while not any(one.transport and one.transport.is_closing() for one in host.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            (connection,) = host.connections
            assert connection.transport is not None
            late = asyncio.get_running_loop().time() + 100 * protocol.UNREAD
            for _ in range(3):
                for _ in range(20):
                    assert await asyncio.to_thread(client.recv, 16_384)
                connection.end_late(late)
                await asyncio.sleep(0.02)
                assert connection.transport is not None
            async with asyncio.timeout(PATIENCE):
                while host.connections:  # the client reads nothing any more
                    connection.end_late(late)
                    await asyncio.sleep(0.001)


async def test_a_closed_connection_does_not_wait_for_ever_for_its_client() -> None:
    async with hosting(Scripted(), options=serving()) as host:
        with await connected(host, "/livez") as client:
            assert b" 200 " in await asyncio.to_thread(client.recv, 4096)
            (connection,) = host.connections
            connection.close()
            late = asyncio.get_running_loop().time() + 100 * protocol.UNREAD
            async with asyncio.timeout(PATIENCE):
                while host.connections:  # the client does not close its own side
                    connection.end_late(late)
                    await asyncio.sleep(0.001)
