"""The bus on NATS core.

Rules:
1. Three kinds of subject: `a2a.CLUSTER.r.REPLICA` for requests, `a2a.CLUSTER.t.HASH` for the events of a
   task, `a2a.CLUSTER.hint` for hints.
2. Nothing is sent while the connection is lost: the client would send it later, when nobody waits for it.
3. A request that gets no response although the server answers may be due to a lost inbox of the client
   (nats.py, issue 667): then this replica asks itself, and connects anew if it hears nothing.
4. The client reconnects for ever. After a reconnection everything counts as missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from a2a_bridge.cluster.bus import BusDownError, BusListener, Hint, NobodyError
from a2a_bridge.cluster.nats_login import NatsLogin, cause

log = logging.getLogger("a2a_bridge.hosting.cluster")

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
        self._listener: BusListener | None = None
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
        """See Bus."""
        return self._client is not None and bool(self._client.is_connected)

    async def start(self, me: str, listener: BusListener, /) -> None:
        """See Bus."""
        self._me, self._listener = me, listener
        try:
            await self._connect()
        except BusDownError:
            self._doubted = self._work(self._connect_later)

    def rename(self, me: str, /) -> None:
        """See Bus."""
        self._me = me
        if self._client is not None:
            self._work(self._listen_as, me)

    async def request(self, replica: str, data: bytes, seconds: float, /) -> bytes:
        """See Bus."""
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
        """See Bus."""
        if self.live:
            self._work(self._client.publish, f"{self._prefix}.t.{topic}", data)

    def subscribe(self, topic: str, handler: Callable[[bytes], None], /) -> Callable[[], None]:
        """See Bus."""
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
                self._work(self._stop_reading, read)

        return leave

    def hint(self, hint: Hint, /) -> None:
        """See Bus."""
        if not self._hints:
            asyncio.get_running_loop().call_later(_COALESCED, self._give_hints)
        self._hints.add(hint)

    async def close(self) -> None:
        """See Bus."""
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
            # The ping of the first one overtakes subscriptions that the client has not sent yet.
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

    async def _stop_reading(self, read: _Topic) -> None:
        if read.subscription is not None:
            await read.subscription.unsubscribe()

    async def _failed(self, error: Exception) -> None:
        log.debug("NATS: %s", type(error).__name__)
        if not self.live:
            self._tell(cause(error))
        elif "permissions" in str(error).lower() and "permissions" not in self._told:
            self._told.add("permissions")
            log.warning("the account at NATS lacks rights, so replicas do not hear each other: %s", error)
        if isinstance(error, self._errors.SlowConsumerError) and self._listener is not None:
            self._listener.on_gap()

    def _tell(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            log.warning("NATS cannot be reached: %s; this replica polls until it can", why)

    async def _lost(self) -> None:
        if not self._closed:
            log.warning(
                "the connection to NATS is lost; calls to other replicas wait, and this replica polls"
            )
            if self._listener is not None:
                self._listener.on_gap()

    async def _back(self) -> None:
        log.warning("the connection to NATS works again")
        self._told.clear()
        if self._listener is not None:
            self._listener.on_gap()

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
        # In a task: the next request must not wait for this one.
        self._work(self._answer, message)

    async def _answer(self, message: Any) -> None:
        if message.data == _ARE_YOU_THERE:
            await message.respond(b"")
        elif self._listener is not None:
            answer = await self._listener.answer(message.data)
            if self.live:
                await message.respond(answer)

    async def _heard_hint(self, message: Any) -> None:
        kind, sender = message.data[:1], message.data[1:].decode()
        if sender == self._me or self._listener is None:
            return
        with suppress(ValueError):  # of a newer release
            self._listener.on_hint(Hint(kind))

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
            # The connection has been lost meanwhile; after the next one everything counts as missed.
            log.debug("NATS: %s", type(error).__name__)


class _Topic:
    """A topic that is read."""

    __slots__ = ("handlers", "subscription")

    def __init__(self) -> None:
        self.handlers: list[Callable[[bytes], None]] = []
        self.subscription: Any = None
