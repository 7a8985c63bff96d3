"""The bus on NATS core, and its login: TLS, and what proves who connects.

Rules of the bus:
1. Three kinds of subject: `a2a.CLUSTER.r.REPLICA` for requests, `a2a.CLUSTER.t.HASH` for the events of a
   task, `a2a.CLUSTER.hint` for hints.
2. Nothing is sent while the connection is lost: the client would send it later, when nobody waits for it.
3. A request that gets no response although the server answers may be due to a lost inbox of the client
   (nats.py, issue 667): then this replica asks itself, and connects anew if it hears nothing.
4. The client reconnects for ever. After a reconnection everything counts as missed.

Rules of the login:
1. `tls://` and a named authority mean TLS: a server without it gets no credentials and no messages. The
   client itself would continue without TLS.
2. A credentials file is read for each connection, so it can be replaced.
3. A user and a password, or a token, stand in the address, percent-encoded, and are sent to every server.
4. Texts about failures have no secrets.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from a2a_bridge.cluster.bus import BusDownError, Hint, NobodyError
from a2a_bridge.core.extras import load

log = logging.getLogger("a2a_bridge.hosting.cluster")

#: the parts of a credentials file
_JWT = re.compile(r"-BEGIN NATS USER JWT-+\s+(\S+)\s+-+END")
_SEED = re.compile(r"-BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END")
#: of an encoded seed: bytes before the key, of the key, and of the checksum
_PREFIX, _KEY, _SUM = 2, 32, 2


class NatsLogin:
    """servers: `nats://` or `tls://` addresses. credentials: the path of a file with a JWT and a key; empty
    for none. ca: the path of the certificates to trust; empty for the system's certificates. Raises
    ValueError for files and addresses that cannot be used, and MissingExtraError.
    """

    def __init__(self, servers: tuple[str, ...], credentials: str = "", ca: str = "") -> None:
        self._nats = load("nats", "cluster")
        self.errors = load("nats.errors", "cluster")
        self._servers = list(servers)
        self._parts = [split_server(one) for one in servers]
        self._credentials = credentials
        self._tls: ssl.SSLContext | None = None
        if ca or any(one.scheme == "tls" for one in self._parts):
            try:
                self._tls = ssl.create_default_context(cafile=ca or None)
            except OSError as error:
                raise ValueError(f"{ca} has no certificates to trust: {error.strerror}") from None
        if credentials:
            self._ed25519 = load("cryptography.hazmat.primitives.asymmetric.ed25519", "cluster")
            try:
                _read(credentials)
            except OSError as error:
                raise ValueError(f"{credentials} cannot be read: {error.strerror}") from None

    def client(self) -> Any:
        secure = self._tls is not None
        transport = load("nats.aio.transport", "cluster")

        class Transport(transport.TcpTransport):  # type: ignore[name-defined,misc]
            def __bool__(self) -> bool:
                return True  # else the client replaces it

            async def wait_closed(self) -> None:
                # It would wait for a server that reads nothing, and after a failed handshake for ever.
                if self._io_writer is not None:
                    self._io_writer.transport.abort()

        class Client(self._nats.NATS):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self._transport = Transport()

            def _connect_command(self) -> Any:
                if secure and not self._server_info.get("tls_required"):
                    raise ConnectionError("it does not require TLS")
                return super()._connect_command()

        return Client()

    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"servers": self._servers}
        if self._tls is not None:
            arguments["tls"] = self._tls
        if self._credentials:
            return arguments | {"user_jwt_cb": self._jwt, "signature_cb": self._sign}
        named = next((one for one in self._parts if one.username), None)
        if named is None or named.username is None:
            return arguments
        if named.password is None:
            return arguments | {"token": unquote(named.username)}
        return arguments | {"user": unquote(named.username), "password": unquote(named.password)}

    def _jwt(self) -> bytes:
        return _readable(self._credentials)[0]

    def _sign(self, nonce: str) -> bytes:
        key = self._ed25519.Ed25519PrivateKey.from_private_bytes(_readable(self._credentials)[1])
        return base64.b64encode(key.sign(nonce.encode()))


def split_server(address: str) -> SplitResult:
    """The parts of an address. Raises ValueError with a text that has no part of it."""
    with suppress(ValueError):  # its text could have a part of the password
        parts = urlsplit(address)
        if parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0:
            return parts
    raise ValueError("not an address like nats://HOST:4222 or tls://HOST:4222")


def cause(error: BaseException) -> str:
    """Why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no response"
    if re.search("authori|authenti", str(error), re.IGNORECASE):
        return "it rejects the credentials"
    text = error.strerror if isinstance(error, OSError) else ""
    return text or str(error) or type(error).__name__


def _read(path: str) -> tuple[bytes, bytes]:
    """The JWT and the private key of a credentials file. Raises OSError, ValueError."""
    text = Path(path).read_text(errors="replace")
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise ValueError(f"{path} has no NATS user JWT and NKEY seed")
    try:
        data = base64.b32decode(seed[1] + "=" * (-len(seed[1]) % 8))
    except binascii.Error:
        data = b""
    key, checksum = data[_PREFIX:-_SUM], data[-_SUM:]
    if len(key) != _KEY or binascii.crc_hqx(data[:-_SUM], 0) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{path} has an NKEY seed that is damaged")
    return jwt[1].encode(), key


def _readable(path: str) -> tuple[bytes, bytes]:
    """The same while the client connects, which expects OSError only."""
    try:
        return _read(path)
    except ValueError as error:
        raise ConnectionError(str(error)) from None


#: seconds between two pings, and how many may be unanswered: so a silent server is noticed
_PING, _UNANSWERED = 1, 2
#: seconds for connecting, and between two attempts
_CONNECT, _AGAIN = 2, 0.2
#: seconds during which equal hints are one message
_COALESCED = 0.05
#: seconds for the question to this replica itself
_SELF = 2.0
#: bytes and messages of one subscription that may wait
_WAITING_BYTES, _WAITING = 64 << 20, 65536
#: bytes of the largest message of a server that was not reached yet: the default of NATS
_PAYLOAD = 1 << 20
#: seconds between two attempts at the start, at most
_LATE = 5.0
#: a request to this replica itself
_ARE_YOU_THERE = b"?"


class NatsBus:
    """Implements Bus. cluster: the name in the subjects."""

    pushes = True

    def __init__(self, login: NatsLogin, cluster: str) -> None:
        self._login = login
        self._prefix = f"a2a.{cluster}"
        self._errors = login.errors
        #: the failures that were logged since there was a connection
        self._told: set[str] = set()
        self._client: Any = None
        self._me = ""
        #: of the replica, from `start` on
        self._reply: Callable[[bytes], Awaitable[bytes]]
        self._on_hint: Callable[[Hint], None]
        self._on_gap: Callable[[], None]
        #: topics that are read, by subject
        self._topics: dict[str, _Topic] = {}
        self._own: Any = None
        self._answering: set[asyncio.Task[Any]] = set()
        self._hints: set[Hint] = set()
        self._doubted: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def most(self) -> int:
        """See Bus. Subjects and reply addresses do not count."""
        return _PAYLOAD if self._client is None else int(self._client.max_payload)

    @property
    def live(self) -> bool:
        return self._client is not None and bool(self._client.is_connected)

    async def start(
        self,
        me: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        on_hint: Callable[[Hint], None],
        on_gap: Callable[[], None],
        /,
    ) -> None:
        self._me, self._reply, self._on_hint, self._on_gap = me, answer, on_hint, on_gap
        try:
            await self._connect()
        except BusDownError:
            self._doubted = self._work(self._connect_later)

    def rename(self, me: str, /) -> None:
        self._me = me
        if self._client is not None:
            self._work(self._listen_as, me)

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        if not self.live:
            raise BusDownError
        try:
            message = await self._client.request(f"{self._prefix}.r.{replica}", data, timeout=seconds)
        except self._errors.NoRespondersError:
            raise NobodyError from None
        except (TimeoutError, self._errors.TimeoutError):
            self._doubt()
            raise TimeoutError from None
        except (self._errors.Error, OSError) as error:
            log.debug("a request over NATS failed: %s", type(error).__name__)
            raise BusDownError from None
        return bytes(message.data)

    def publish(self, topic: str, data: bytes, /) -> None:
        if self.live:
            self._work(self._client.publish, f"{self._prefix}.t.{topic}", data)

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:
        subject = f"{self._prefix}.t.{topic}"
        read = self._topics.get(subject)
        if read is None:
            read = self._topics[subject] = _Topic()
            self._work(self._read, subject, read)
        read.handlers.append(handler)

        def leave() -> None:
            read.handlers.remove(handler)
            if not read.handlers and self._topics.get(subject) is read:
                del self._topics[subject]
                if read.subscription is not None:
                    self._work(read.subscription.unsubscribe)

        return leave

    def hint(self, hint: Hint, /) -> None:
        if not self._hints:
            asyncio.get_running_loop().call_later(_COALESCED, self._give_hints)
        self._hints.add(hint)

    async def close(self) -> None:
        self._closed = True
        for one in list(self._answering):
            one.cancel()
        if self._answering:
            await asyncio.wait(self._answering)
        if self._client is not None:
            await self._client.close()

    # ------------------------------------------------------------------ the connection

    async def _connect(self) -> None:
        client = self._login.client()

        async def gone() -> None:
            await self._gone(client)

        try:
            await client.connect(
                name="a2a-bridge",
                error_cb=self._failed,
                disconnected_cb=self._lost,
                reconnected_cb=self._back,
                closed_cb=gone,
                ping_interval=_PING,
                max_outstanding_pings=_UNANSWERED,
                connect_timeout=_CONNECT,
                reconnect_time_wait=_AGAIN,
                max_reconnect_attempts=1,
                **self._login.arguments(),
            )
        except (self._errors.Error, OSError) as error:
            if not self._told:  # else this error says only that no server is left
                self._tell(cause(error))
            raise BusDownError from None
        # The client takes the limit for the first connection, too.
        client.options["max_reconnect_attempts"] = -1
        self._client = client
        self._own = None
        await self._listen_as(self._me)
        await client.subscribe(f"{self._prefix}.hint", cb=self._heard_hint)
        for subject, read in list(self._topics.items()):
            await self._read(subject, read)
        with suppress(self._errors.Error, TimeoutError):
            # The ping of the first flush overtakes subscriptions that the client has not sent yet.
            for _ in range(2):
                await client.flush(_CONNECT)

    async def _listen_as(self, me: str) -> None:
        before, client = self._own, self._client
        self._own = await client.subscribe(f"{self._prefix}.r.{me}", cb=self._asked)
        if before is not None:
            await before.unsubscribe()

    async def _read(self, subject: str, read: _Topic) -> None:
        async def heard(message: Any) -> None:
            for handler in tuple(read.handlers):
                handler(message.data)

        if self._client is None:
            return  # read once there is a connection
        read.subscription = await self._client.subscribe(
            subject, cb=heard, pending_msgs_limit=_WAITING, pending_bytes_limit=_WAITING_BYTES
        )
        if not read.handlers:
            await read.subscription.unsubscribe()

    async def _failed(self, error: Exception) -> None:
        log.debug("NATS: %s", type(error).__name__)
        if not self.live:
            self._tell(cause(error))
        elif "permissions" in str(error).lower() and "permissions" not in self._told:
            self._told.add("permissions")
            log.warning("the account at NATS lacks rights, so replicas do not hear each other: %s", error)
        if isinstance(error, self._errors.SlowConsumerError):
            self._on_gap()

    def _tell(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            log.warning("NATS cannot be reached: %s; this replica polls until it can", why)

    async def _lost(self) -> None:
        if not self._closed:
            log.warning(
                "the connection to NATS is lost; calls to other replicas wait, and this replica polls"
            )
            self._on_gap()

    async def _back(self) -> None:
        log.warning("the connection to NATS works again")
        self._told.clear()
        self._on_gap()

    async def _gone(self, client: Any) -> None:
        """The client gave up, such as after an error of authorization."""
        if client is self._client and not self._closed:
            self._client = None
            self._doubted = self._work(self._connect_later)

    def _doubt(self) -> None:
        if self._doubted is None or self._doubted.done():
            self._doubted = self._work(self._ask_self)

    async def _ask_self(self) -> None:
        client = self._client
        if not self.live:
            return
        subject = f"{self._prefix}.r.{self._me}"
        try:
            await client.request(subject, _ARE_YOU_THERE, timeout=_SELF)
        except (TimeoutError, self._errors.Error):
            if client is not self._client or not self.live or self._closed:
                return
            log.warning("this replica does not hear its own requests over NATS; it connects anew")
            self._client = None
            with suppress(self._errors.Error, OSError):
                await client.close()
            await self._connect_later()

    async def _connect_later(self) -> None:
        pause = _AGAIN
        while not self._closed:
            try:
                await self._connect()
            except BusDownError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATE)
            else:
                await self._back()
                return

    # ------------------------------------------------------------------ messages

    async def _asked(self, message: Any) -> None:
        # In a task: the next request must not wait for this request.
        self._work(self._answer, message)

    async def _answer(self, message: Any) -> None:
        if message.data == _ARE_YOU_THERE:
            await message.respond(b"")
            return
        answer = await self._reply(message.data)
        if self.live:
            await message.respond(answer)

    async def _heard_hint(self, message: Any) -> None:
        kind, sender = message.data[:1], message.data[1:].decode()
        if sender == self._me:
            return
        with suppress(ValueError):  # of a newer release
            self._on_hint(Hint(kind))

    def _give_hints(self) -> None:
        hints, self._hints = self._hints, set()
        if self.live:
            for one in hints:
                self._work(self._client.publish, f"{self._prefix}.hint", one.value + self._me.encode())

    def _work(self, function: Callable[..., Awaitable[object]], *arguments: object) -> asyncio.Task[None]:
        task = asyncio.create_task(self._try(function, *arguments))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return task

    async def _try(self, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        # The coroutine is made here: `close` may cancel this task before it begins.
        try:
            await function(*arguments)
        except (self._errors.Error, OSError) as error:
            # The connection has been lost meanwhile; after the next connection everything counts as missed.
            log.debug("NATS: %s", type(error).__name__)


@dataclass(slots=True, eq=False)
class _Topic:
    """A topic that is read."""

    handlers: list[Callable[[bytes], None]] = field(default_factory=list)
    subscription: Any = None
