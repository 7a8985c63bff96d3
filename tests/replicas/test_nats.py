"""How a replica connects to NATS: TLS, credentials, and connections that do not do what they should."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from a2a_bridge.cluster import nats_bus
from a2a_bridge.cluster.bus import BusDownError, Hint
from a2a_bridge.cluster.nats_bus import NatsBus, NatsLogin
from tests.certificates import new_identity
from tests.nats import Accounts, Nats, running
from tests.patience import PATIENCE, until

#: of the tests; none may be in a log
SECRET = "pa:ss/w@rd"  # noqa: S105
ENCODED = "pa%3Ass%2Fw%40rd"


class Listener:
    """The replica behind a bus. silent: does not answer."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.misses = asyncio.Event()

    async def answer(self, request: bytes, /) -> bytes:
        if self.silent:
            await asyncio.Event().wait()
        return b"re: " + request

    def on_hint(self, hint: Hint, /) -> None:
        pass

    def on_gap(self) -> None:
        self.misses.set()


@asynccontextmanager
async def joined(name: str, login: NatsLogin, listener: Listener | None = None) -> AsyncIterator[NatsBus]:
    bus = NatsBus(login, "c")
    listener = listener or Listener()
    await bus.start(name, listener.answer, listener.on_hint, listener.on_gap)
    try:
        yield bus
    finally:
        await bus.close()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def listening(serve: Handler) -> AsyncIterator[str]:
    """The address of a server. At the end its connections are closed."""
    handled = set[asyncio.Task[None]]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handled.add(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*handled)


async def closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def talk(login: NatsLogin) -> None:
    """Two replicas hear each other."""
    async with joined("a", login) as a, joined("b", login):
        assert a.live
        assert await a.request("b", b"hello", PATIENCE) == b"re: hello"


class Tls:
    def __init__(self, folder: Path) -> None:
        self.ca, key = new_identity().written(folder, "server")
        self.wrong_ca, _ = new_identity().written(folder, "other")
        self.arguments = ("--tls", "--tlscert", self.ca, "--tlskey", key)


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path)


async def test_replicas_talk_over_tls_with_a_private_authority(tls: Tls) -> None:
    with running(*tls.arguments) as server:
        for scheme in ("tls", "nats"):
            await talk(NatsLogin((f"{scheme}://127.0.0.1:{server.port}",), ca=tls.ca))


async def test_a_certificate_of_another_authority_is_one_clear_line(
    tls: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    with running(*tls.arguments) as server:
        login = NatsLogin((f"tls://u:{ENCODED}@127.0.0.1:{server.port}",), ca=tls.wrong_ca)
        async with joined("a", login) as bus:
            assert not bus.live
            with pytest.raises(BusDownError):
                await bus.request("b", b"hello", 1)
    assert told(caplog) == [unreachable("its certificate is not trusted: self-signed certificate")]


@pytest.mark.parametrize("named", [True, False])
async def test_a_server_without_tls_gets_no_credentials(
    tls: Tls, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The client would continue without TLS."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps({"auth_required": True, "max_payload": 1024}).encode() + b"\r\n")
        while data := await reader.read(4096):
            heard.extend(data)
        await closed(writer)

    async with listening(serve) as address:
        scheme, ca = ("tls", "") if named else ("nats", tls.ca)
        login = NatsLogin((f"{scheme}://u:{ENCODED}@{address}",), ca=ca)
        async with joined("a", login) as bus:
            assert not bus.live
    assert not heard
    assert told(caplog) == [unreachable("it does not require TLS")]


@pytest.mark.parametrize(
    ("flags", "user", "wrong"),
    [
        (("--user", "u", "--pass", SECRET), f"u:{ENCODED}@", f"u:{ENCODED}x@"),
        (("--auth", SECRET), f"{ENCODED}@", f"{ENCODED}x@"),
        (("--user", "u", "--pass", SECRET), f"u:{ENCODED}@", ""),
    ],
)
async def test_names_and_tokens_stand_in_the_address(
    flags: tuple[str, ...], user: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running(*flags) as server:
        await talk(NatsLogin((f"nats://{user}127.0.0.1:{server.port}",)))
        assert not told(caplog)
        async with joined("a", NatsLogin((f"nats://{wrong}127.0.0.1:{server.port}",))) as bus:
            assert not bus.live
            # Once the server knows it, the replica is there without a restart.
            server.kill()
            server.arguments = ()
            server.start()
            await until(lambda: told(caplog)[-1] == "the connection to NATS works again")
            assert bus.live
    assert told(caplog)[0] == unreachable("it rejects the credentials")


async def test_a_credentials_file_is_read_for_each_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accounts = Accounts(tmp_path)
    path = tmp_path / "user.creds"
    with running("-c", str(accounts.settings)) as server:
        await talk(NatsLogin((server.url,), accounts.user(path)))
        login = NatsLogin((server.url,), accounts.user(path, known=False))
        async with joined("a", login) as bus:
            assert not bus.live
            assert told(caplog) == [unreachable("it rejects the credentials")]
            path.write_text("nothing")
            await until(lambda: len(told(caplog)) == 2)
            assert told(caplog)[1] == unreachable(f"{path} has no NATS user JWT and NKEY seed")
            accounts.user(path)
            await until(lambda: bus.live)


async def test_a_user_without_rights_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = tmp_path / "rights.conf"
    settings.write_text(
        'authorization { users = [ { user: u, password: p, permissions: { subscribe: "_INBOX.>" } } ] }'
    )
    with running("-c", str(settings)) as server:
        async with joined("a", NatsLogin((f"nats://u:p@127.0.0.1:{server.port}",))):
            await until(lambda: told(caplog))
    (line,) = told(caplog)
    assert line.startswith("the account at NATS lacks rights, so replicas do not hear each other: ")
    assert 'permissions violation for subscription to "a2a.c.' in line


class Deaf:
    """A way to NATS that drops messages for inboxes. dropping: only on connections made before."""

    def __init__(self, server: Nats) -> None:
        self._nats = server
        self.connections = 0
        self.dropping = True

    async def serve(self, near: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        drops = self.dropping
        far, far_writer = await asyncio.open_connection("127.0.0.1", self._nats.port)
        upward = asyncio.create_task(_copy(near, far_writer))
        with suppress(OSError, EOFError):
            while line := await far.readline():
                operation, _, rest = line.partition(b" ")
                if operation in (b"MSG", b"HMSG"):
                    line += await far.readexactly(int(line.split()[-1]) + 2)
                if not (drops and operation in (b"MSG", b"HMSG") and rest.startswith(b"_INBOX.")):
                    near_writer.write(line)
        upward.cancel()
        await closed(near_writer, far_writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
    writer.close()


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_bus, "_SELF", 0.2)


@pytest.mark.usefixtures("brief")
async def test_a_replica_that_hears_no_responses_connects_anew(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    deaf = Deaf(nats)
    async with listening(deaf.serve) as address:
        login = NatsLogin((f"nats://{address}",))
        listener = Listener()
        async with joined("a", login, listener) as a, joined("b", NatsLogin((nats.url,))):
            assert a.live
            deaf.dropping = False
            with pytest.raises(TimeoutError):
                await a.request("b", b"hello", 0.2)
            # `live` comes first: the new connection still has to read all subjects.
            await until(lambda: told(caplog)[-1:] == ["the connection to NATS works again"])
            assert deaf.connections == 2
            assert await a.request("b", b"hello", PATIENCE) == b"re: hello"
            assert listener.misses.is_set()
    assert told(caplog) == [
        "this replica does not hear its own requests over NATS; it connects anew",
        "the connection to NATS is lost; calls to other replicas wait, and this replica polls",
        "the connection to NATS works again",
    ]


@pytest.mark.usefixtures("brief")
async def test_a_slow_replica_is_no_reason_to_connect_anew(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    deaf = Deaf(nats)
    deaf.dropping = False
    async with listening(deaf.serve) as address:
        login = NatsLogin((f"nats://{address}",))
        async with joined("a", login) as a, joined("b", NatsLogin((nats.url,)), Listener(silent=True)):
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await a.request("b", b"hello", 0.1)
                await until(lambda: a._doubted is not None and a._doubted.done())
            assert await a.request("a", b"hello", PATIENCE) == b"re: hello"
    assert deaf.connections == 1
    assert not told(caplog)


def unreachable(why: str) -> str:
    return f"NATS cannot be reached: {why}; this replica polls until it can"


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines for operators. No secret is in any line."""
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if one.name.startswith("a2a_bridge")]
    for _, line in lines:
        assert SECRET not in line
        assert ENCODED not in line
    return [line for level, line in lines if level != "DEBUG"]
