"""One certificate for HTTP and gRPC: new files, bad files, dates, client certificates."""

import asyncio
import logging
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h2.connection
import pytest

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import Server
from a2a_bridge.auth import ApiKeys, Authentication, ClientCertificates, KeyFile
from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, TlsFiles
from a2a_bridge.bindings.server_tls import CHECK_INTERVAL, ServerTls, TlsFileError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.certificates import Identity, new_identity
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
VERSIONS = ("1.0", "0.3", "0.2.5")


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)

    def check_again(self) -> None:
        self.seconds += CHECK_INTERVAL


class Naming:
    """Answers with the name of the caller."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        principal = run.context.principal
        yield run.reply(principal.name if principal is not None else "nobody")


def served(options: ServeOptions) -> Any:
    return serve(Agent(Naming(), name="names"), options=options)


def dialling(server: Server, binding: str, files: TlsFiles) -> Any:
    address = server.grpc if binding == "GRPC" else server.http
    options = DialOptions(tls=files, connect_timeout=PATIENCE)
    return connect(interface(binding, f"https://{address}"), options=options)


async def answer(server: Server, binding: str, files: TlsFiles) -> str:
    async with dialling(server, binding, files) as peer:
        text: str = (await peer.send("hi")).text
        return text


async def failure(server: Server, binding: str, files: TlsFiles) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await answer(server, binding, files)
    return caught.value


def replaced(folder: Path, name: str, identity: Identity) -> tuple[str, str]:
    """Writes other files in the place of those of a name, each at once, as tools for certificates do."""
    for source, target in zip(identity.written(folder, "new"), (f"{name}.pem", f"{name}.key"), strict=True):
        Path(source).replace(folder / target)
    return str(folder / f"{name}.pem"), str(folder / f"{name}.key")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_finds_tls_in_the_card(tmp_path: Path, binding: str, version: str) -> None:
    certificate, key = new_identity().written(tmp_path, "server")
    options = DialOptions(tls=TlsFiles(certificate))
    async with served(ServeOptions(tls=ServerTls(certificate, key))) as server:
        assert server.secure
        url = f"https://{server.http}"
        async with connect(url, binding=binding, version=version, options=options) as peer:
            assert (await peer.send("hi")).text == "nobody"
        async with connect(server.card, binding=binding, version=version, options=options) as peer:
            assert (await peer.send("hi")).text == "nobody"
        # A card of 1.0 alone has no place that says that a gRPC port speaks TLS.
        told = replace(options, grpc_tls=True if version == "1.0" else None)
        narrow = f"{url}/.well-known/agent-card.json?version={version}"
        async with connect(narrow, binding=binding, options=told) as peer:
            assert (await peer.send("hi")).text == "nobody"


async def test_the_older_members_apart(tmp_path: Path) -> None:
    """HostOptions.tls takes the same object; grpc_tls has priority over `tls`."""
    certificate, key = new_identity().written(tmp_path, "server")
    tls = ServerTls(certificate, key)
    async with served(ServeOptions(host=HostOptions(tls=tls))) as server:
        for binding in BINDINGS:
            assert await answer(server, binding, TlsFiles(certificate)) == "nobody"
    other = object()
    assert ServeOptions(tls=tls, grpc_tls=other).host_of("grpc").tls is other
    assert ServeOptions(tls=tls, grpc_tls=other).host_of("http").tls is tls
    with pytest.raises(ValueError, match="needs TLS"):
        async with serve(Agent(Naming(), name="n"), [interface("JSONRPC", "https://127.0.0.1:0")]):
            pass


async def test_new_files_are_for_new_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    old, new = new_identity(), new_identity()
    certificate, key = old.written(tmp_path, "server")
    before, after = tmp_path / "before.pem", tmp_path / "after.pem"
    before.write_bytes(old.certificate)
    after.write_bytes(new.certificate)
    trusting_old, trusting_new = TlsFiles(str(before)), TlsFiles(str(after))
    caplog.set_level(logging.INFO, "a2a_bridge.tls")
    async with served(ServeOptions(tls=ServerTls(certificate, key, clock=clock))) as server:
        for binding in BINDINGS:
            async with dialling(server, binding, trusting_old) as open_before:
                assert (await open_before.send("hi")).text == "nobody"
                replaced(tmp_path, "server", new)
                assert await answer(server, binding, trusting_old) == "nobody"  # not looked at yet
                clock.check_again()
                assert await answer(server, binding, trusting_new) == "nobody"
                assert (await failure(server, binding, trusting_old)).reason is Reason.UNAVAILABLE
                assert (await open_before.send("hi")).text == "nobody"
            replaced(tmp_path, "server", old)
            clock.check_again()
            assert await answer(server, binding, trusting_old) == "nobody"
    assert caplog.text.count("new connections get the certificate") == 2 * len(BINDINGS)


def test_bad_files_keep_the_good_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    certificate, key = new_identity(ends=100).written(tmp_path, "server")
    tls = ServerTls(certificate, key, clock=clock, now=clock.now)
    good = tls.current()
    other = new_identity(ends=100)

    def after(changes: dict[str, bytes]) -> bool:
        """Whether the files are used after a change; they are looked at three times."""
        for path, content in changes.items():
            Path(path).write_bytes(content)
        for _ in range(3):
            clock.check_again()
            used = tls.current()
        return used is not good

    assert not after({certificate: other.certificate})
    assert not after({key: b"nonsense"})
    assert not after({key: b""})
    Path(key).unlink()
    assert not after({})
    expired = new_identity(begins=-2, ends=-1)
    assert not after({certificate: expired.certificate, key: expired.key})
    texts = [record.message for record in caplog.records]
    assert len(texts) == 5
    for text, words in zip(
        texts,
        ("is not the key of", "holds no private key", "is empty", "No such file", "has expired on"),
        strict=True,
    ):
        assert "the certificate in use stays: " in text
        assert words in text
    assert after({certificate: other.certificate, key: other.key})


def test_a_certificate_that_was_made_early_is_used_in_time(tmp_path: Path) -> None:
    clock = Clock()
    certificate, key = new_identity(ends=100).written(tmp_path, "server")
    tls = ServerTls(certificate, key, clock=clock, now=clock.now)
    early = new_identity(begins=1, ends=100)
    replaced(tmp_path, "server", early)
    clock.check_again()
    assert tls.current().certificate != early.certificate
    clock.seconds += 24 * 3600
    assert tls.current().certificate == early.certificate


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [(-3, -2, "has expired on"), (1, 2, "is not valid before"), (-1, 13, "expires on"), (-1, 15, "")],
)
def test_dates_are_reported_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, begins: float, ends: float, words: str
) -> None:
    clock = Clock()
    certificate, key = new_identity(begins=begins, ends=ends).written(tmp_path, "server")
    tls = ServerTls(certificate, key, clock=clock, now=clock.now)
    for _ in range(3):
        clock.check_again()
        tls.current()
    if not words:
        assert not caplog.records
        clock.seconds += 36 * 3600
        tls.current()
        words = "expires on"
    assert [words in record.message for record in caplog.records] == [True]
    clock.seconds += 24 * 3600
    tls.current()
    assert len(caplog.records) == 2


SELF = new_identity()


@pytest.mark.parametrize(
    ("certificate", "key", "authorities", "part", "words"),
    [
        (None, SELF.key, b"", "certificate", "cannot be read: No such file"),
        (b"", SELF.key, b"", "certificate", "is empty"),
        (b"\x30\x82\x01", SELF.key, b"", "certificate", "holds no certificate as PEM"),
        (SELF.certificate, None, b"", "key", "cannot be read: No such file"),
        (SELF.certificate, SELF.certificate, b"", "key", "holds no private key as PEM"),
        (SELF.certificate, new_identity().key, b"", "key", "is not the key of the certificate in"),
        (SELF.certificate, SELF.key, b"text", "client_ca", "holds no certificate as PEM"),
        (SELF.certificate, SELF.key, None, "client_ca", "cannot be read: No such file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path,
    certificate: bytes | None,
    key: bytes | None,
    authorities: bytes | None,
    part: str,
    words: str,
) -> None:
    paths = {"certificate": certificate, "key": key, "client_ca": authorities}
    for name, content in paths.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    given = [str(tmp_path / name) if paths[name] != b"" or name == "certificate" else "" for name in paths]
    with pytest.raises(TlsFileError, match=words) as caught:
        ServerTls(*given)
    assert caught.value.part == part
    assert str(tmp_path / part) in str(caught.value)


def test_a_key_with_a_password_is_rejected_without_a_question(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    certificate, key = SELF.written(tmp_path, "server")
    loaded = serialization.load_pem_private_key(SELF.key, None)
    Path(key).write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsFileError, match="is encrypted"):
        ServerTls(certificate, key)


@asynccontextmanager
async def asking(folder: Path, reqs: Any, caller: Identity) -> AsyncIterator[tuple[Server, str]]:
    """A server that identifies callers by their certificates, and the authority of its own."""
    certificate, key = new_identity().written(folder, "server")
    authority, _ = caller.written(folder, "authority")
    tls = ServerTls(certificate, key, authority, cert_reqs=reqs)
    options = ServeOptions(tls=tls, authentication=Authentication([ClientCertificates()]))
    async with served(options) as server:
        yield server, certificate


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_caller_is_the_one_of_the_certificate(tmp_path: Path, binding: str) -> None:
    caller = new_identity(uri="spiffe://example/ann")
    mine, stranger = caller.written(tmp_path, "mine"), new_identity().written(tmp_path, "stranger")
    async with asking(tmp_path, "required", caller) as (server, ca):
        assert await answer(server, binding, TlsFiles(ca, *mine)) == "spiffe://example/ann"
        for rejected in (TlsFiles(ca), TlsFiles(ca, *stranger)):
            error = await failure(server, binding, rejected)
            assert error.reason is Reason.UNAVAILABLE
            assert "it wants a client certificate (--cert)" in error.message


async def test_optional_certificates_are_for_http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caller = new_identity()
    mine, stranger = caller.written(tmp_path, "mine"), new_identity().written(tmp_path, "stranger")
    async with asking(tmp_path, "optional", caller) as (server, ca):
        assert "CN=a2a-bridge test" in await answer(server, "JSONRPC", TlsFiles(ca, *mine))
        assert (await failure(server, "JSONRPC", TlsFiles(ca))).reason is Reason.UNAUTHENTICATED
        assert (await failure(server, "JSONRPC", TlsFiles(ca, *stranger))).reason is Reason.UNAVAILABLE
        # It fails closed: a caller over gRPC is not asked, and so not known.
        assert (await failure(server, "GRPC", TlsFiles(ca, *mine))).reason is Reason.UNAUTHENTICATED
    assert "gRPC cannot ask for optional client certificates" in caplog.text


async def test_a_new_authority_ends_the_trust_in_the_old_one(tmp_path: Path) -> None:
    clock = Clock()
    certificate, key = new_identity().written(tmp_path, "server")
    first, second = new_identity(), new_identity()
    mine = first.written(tmp_path, "mine"), second.written(tmp_path, "other")
    authority, _ = first.written(tmp_path, "authority")
    tls = ServerTls(certificate, key, authority, clock=clock)
    async with served(ServeOptions(tls=tls)) as server:
        context = ssl.create_default_context(cafile=certificate)
        context.load_cert_chain(*mine[0])
        assert server.http is not None
        where = (server.http.host, server.http.port)
        session = await asyncio.to_thread(shaken, where, context, None)
        replaced(tmp_path, "authority", second)
        clock.check_again()
        for binding in BINDINGS:
            assert await answer(server, binding, TlsFiles(certificate, *mine[1])) == "nobody"
            assert (
                await failure(server, binding, TlsFiles(certificate, *mine[0]))
            ).reason is Reason.UNAVAILABLE
        # A session that was made before is not resumed.
        with pytest.raises(OSError):
            await asyncio.to_thread(shaken, where, context, session)


def shaken(where: tuple[str, int], context: ssl.SSLContext, session: Any) -> Any:
    """Makes a connection with TLS 1.2, whose handshake ends with the check, and returns its session."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(where, timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=where[0], session=session) as secured,
    ):
        return secured.session


async def test_old_versions_of_tls_are_rejected(tmp_path: Path) -> None:
    certificate, key = new_identity().written(tmp_path, "server")
    tls = ServerTls(certificate, key)
    assert tls.current().context.minimum_version is ssl.TLSVersion.TLSv1_2
    async with served(ServeOptions(tls=tls)) as server:
        assert server.http is not None
        context = ssl.create_default_context(cafile=certificate)
        context.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection(server.http.host, server.http.port, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (new_identity(begins=-3, ends=-2), "has expired"),
        (new_identity(begins=1, ends=2), "is not valid yet"),
        (new_identity(address="127.0.0.9"), "is for other names than this host's"),
        (None, "is not trusted: self.signed certificate; --cacert names the authority"),
    ],
)
async def test_clients_say_what_is_wrong(
    tmp_path: Path, binding: str, shown: Identity | None, words: str
) -> None:
    certificate, key = (shown or new_identity()).written(tmp_path, "server")
    authority = certificate if shown else new_identity().written(tmp_path, "other")[0]
    async with served(ServeOptions(tls=ServerTls(certificate, key))) as server:
        error = await failure(server, binding, TlsFiles(authority))
    assert error.reason is Reason.UNAVAILABLE
    assert error.metadata["phase"] == "connect"
    assert re.search(words, error.message), error.message


def test_without_cryptography_dates_are_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def absent(module: str, extra: str) -> Any:
        raise MissingExtraError(module, extra)

    monkeypatch.setattr("a2a_bridge.bindings.server_tls.load", absent)
    clock = Clock()
    certificate, key = new_identity(ends=100).written(tmp_path, "server")
    tls = ServerTls(certificate, key, clock=clock, now=clock.now)
    expired = new_identity(begins=-2, ends=-1)
    replaced(tmp_path, "server", expired)
    clock.check_again()
    assert tls.current().certificate == expired.certificate
    assert tls.current().valid is None
    assert not caplog.records


@pytest.mark.parametrize("given", [{"cert_reqs": "none"}, {"certificate": ""}])
def test_other_values_are_rejected(tmp_path: Path, given: dict[str, Any]) -> None:
    certificate, key = SELF.written(tmp_path, "server")
    with pytest.raises(ValueError, match=r"is required or optional|needs a certificate"):
        ServerTls(**{"certificate": certificate, "key": key, **given})


class Holding(Naming):
    """Works until it is cancelled."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        if run.text == "hold":
            yield run.status("working")
            await asyncio.Event().wait()
        async for event in super().execute(run):
            yield event


#: a day and an hour: later than the end of a certificate of a test
LATE = 25 * 3600


@pytest.mark.parametrize("identifies", [True, False])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_certificate_counts_until_its_date(tmp_path: Path, binding: str, identifies: bool) -> None:
    """On an open connection, and on one that resumes a session of TLS."""
    clock, (mine, key) = Clock(), (caller := new_identity()).written(tmp_path, "mine")
    certificate, own = new_identity().written(tmp_path, "server")
    methods: list[Any] = [ClientCertificates(identifies=identifies, now=lambda: time.time() + clock.seconds)]
    parameters: dict[str, str] = {}
    if not identifies:  # another method does
        file = KeyFile(tmp_path / "keys.json")
        parameters = {"x-api-key": file.create("ann").text}
        methods.insert(0, ApiKeys(file))
    tls = ServerTls(certificate, own, caller.written(tmp_path, "authority")[0])
    options = ServeOptions(tls=tls, authentication=Authentication(methods), grace=0)
    dialled = DialOptions(tls=TlsFiles(certificate, mine, key), parameters=parameters)
    async with serve(Agent(Holding(), name="holds"), options=options) as server:
        address = f"https://{server.grpc if binding == 'GRPC' else server.http}"
        async with (
            asyncio.timeout(PATIENCE),
            connect(interface(binding, address), options=dialled) as peer,
            aclosing(peer.stream("hold")) as events,
        ):
            await anext(events)
            clock.seconds = LATE
            with pytest.raises(A2AError) as ended:
                async for _ in events:
                    pass
            with pytest.raises(A2AError, match="certificate has expired") as rejected:
                await peer.send("hi")
            assert ended.value.reason is rejected.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("binding", ["HTTP+JSON", "GRPC"])
async def test_a_resumed_session_renews_no_certificate(
    tmp_path: Path, binding: str, version: ssl.TLSVersion
) -> None:
    clock, (mine, key) = Clock(), (caller := new_identity()).written(tmp_path, "mine")
    certificate, own = new_identity().written(tmp_path, "server")
    tls = ServerTls(certificate, own, caller.written(tmp_path, "authority")[0])
    methods = [ClientCertificates(now=lambda: time.time() + clock.seconds)]
    options = ServeOptions(tls=tls, authentication=Authentication(methods))
    context = ssl.create_default_context(cafile=certificate)
    context.load_cert_chain(mine, key)
    context.minimum_version = context.maximum_version = version
    is_http = binding != "GRPC"
    context.set_alpn_protocols(["http/1.1" if is_http else "h2"])

    def called(address: ListenAddress, session: ssl.SSLSession | None) -> tuple[str, bool, ssl.SSLSession]:
        """The status of a call, whether its connection resumed a session, and its own session."""
        with (
            socket.create_connection((address.host, address.port), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as opened,
        ):
            status = (get_task if is_http else grpc_get_task)(opened)
            assert opened.session is not None
            return status, bool(opened.session_reused), opened.session

    async with served(options) as server:
        address = server.http if is_http else server.grpc
        first, was_resumed, session = await asyncio.to_thread(called, address, None)
        known, is_resumed, session = await asyncio.to_thread(called, address, session)
        clock.seconds = LATE
        last, still_resumed, _ = await asyncio.to_thread(called, address, session)
    assert (was_resumed, is_resumed, still_resumed) == (False, True, True)
    assert first == known == ("404" if is_http else "5")
    assert last == ("401" if is_http else "16")


def get_task(opened: ssl.SSLSocket) -> str:
    """The HTTP status of an unknown task."""
    opened.sendall(b"GET /tasks/none HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n")
    return opened.makefile("rb").readline().split()[1].decode()


def grpc_get_task(opened: ssl.SSLSocket) -> str:
    """The gRPC status of an unknown task."""
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    path = "/lf.a2a.v1.A2AService/GetTask"
    headers = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path),
        (":authority", "x"),
        ("te", "trailers"),
    ]
    connection.send_headers(1, [*headers, ("content-type", "application/grpc")])
    body = hub.GetTaskRequest(id="none").SerializeToString()
    connection.send_data(1, b"\0" + len(body).to_bytes(4, "big") + body, end_stream=True)
    opened.sendall(connection.data_to_send())
    while part := opened.recv(65536):
        for event in connection.receive_data(part):
            found = dict(getattr(event, "headers", None) or ())
            if b"grpc-status" in found:
                return found[b"grpc-status"].decode()
        opened.sendall(connection.data_to_send())
    raise AssertionError("no status")
