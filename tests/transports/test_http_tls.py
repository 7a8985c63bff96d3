"""Both HTTP bindings over TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings import DialOptions, HostOptions, ListenAddress, http_fetch
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_scene import BINDINGS, PATIENCE, Scripted, dialling, hosting

PEM = Path(__file__).with_name("http_tls.pem")
both = pytest.mark.parametrize("kind", list(BINDINGS))


def serving() -> HostOptions:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return HostOptions(tls=context, header_timeout=0.3)


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@both
@pytest.mark.parametrize("scheme", ["https://", "http://", ""])
async def test_a_context_means_tls(kind: str, scheme: str) -> None:
    async with (
        hosting(Scripted(), options=serving()) as host,
        dialling(f"{scheme}{host.address}", kind, DialOptions(tls=trusting())) as near,
    ):
        assert (await Client(near).get_task(hub.GetTaskRequest(id="7"))).id == "7"


@both
@pytest.mark.parametrize(("scheme", "tls"), [("https://", None), ("http://", True), ("", True)])
async def test_strangers_are_not_trusted(kind: str, scheme: str, tls: Any) -> None:
    service = Scripted()
    async with (
        hosting(service, options=serving()) as host,
        dialling(f"{scheme}{host.address}", kind, DialOptions(tls=tls)) as near,
    ):
        with pytest.raises(A2AError) as caught:
            await Client(near).get_task(hub.GetTaskRequest(id="7"))
    assert (caught.value.reason, caught.value.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")
    assert not service.calls


@both
async def test_tls_can_be_refused(kind: str) -> None:
    async with (
        hosting(Scripted()) as host,
        dialling(f"https://{host.address}", kind, DialOptions(tls=False)) as near,
    ):
        assert (await Client(near).get_task(hub.GetTaskRequest(id="7"))).id == "7"


def test_what_is_no_tls_is_not_taken_for_none() -> None:
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
