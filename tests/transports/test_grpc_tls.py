"""gRPC over TLS, with an authority made for the occasion."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_bridge.bindings.binding import TlsFiles
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge_transports.grpc import GrpcHost
from a2a_bridge_transports.grpc.wire import target_of
from tests.certificates import Identity, new_identity
from tests.transports.grpc_scene import dialling, hosting

REQUEST = hub.GetTaskRequest(id="t")


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
        assert (await client.get_task(REQUEST)).id == "t"


@pytest.mark.parametrize("url", ["https://{}", "http://{}"])
async def test_a_host_that_is_not_trusted_or_not_spoken_to_in_tls(host: GrpcHost, url: str) -> None:
    async with dialling(url.format(host.address), connect_timeout=2) as client:
        with pytest.raises(A2AError) as caught:
            await client.get_task(REQUEST)
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
            assert (await client.get_task(REQUEST)).id == "t"


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
            assert (await client.get_task(REQUEST)).id == "t"
        async with dialling(f"https://{started.address}", tls=TlsFiles(str(ca))) as client:
            with pytest.raises(A2AError) as caught:
                await client.get_task(REQUEST)
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
            await client.get_task(REQUEST)
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
