"""Connections to agents over sockets: kept ones that the agent closes, early answers, halves; and aiohttp's part."""

import asyncio
import inspect
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from a2a_bridge.bindings.binding import DialOptions, Fetched
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge_transports._http.agent_connection import LARGE_BODY, Connection, Exchange
from a2a_bridge_transports._http.connector import Connector
from a2a_bridge_transports._http.origin import Origin
from a2a_bridge_transports._http.session import Exchanger, open_exchanger
from tests.patience import PATIENCE, until
from tests.transports.exchange_scene import head, plain


class Agent:
    """Takes connections and answers on them, step by step, and calls itself."""

    def __init__(self, listener: socket.socket, exchanger: Exchanger) -> None:
        self._listener = listener
        self._exchanger = exchanger
        self._url = URL(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        self.accepted: list[socket.socket] = []

    def call(self, body: bytes = b"{}") -> asyncio.Task[Fetched]:
        """A call that begins with the next turn of the loop."""
        return asyncio.create_task(self._exchanger.call("POST", self._url, {}, body, None))

    async def accept(self) -> socket.socket:
        opened, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self.accepted.append(opened)
        return opened

    async def read(self, opened: socket.socket, until: bytes = b"{}") -> None:
        """Reads a request up to these bytes."""
        found = b""
        while not found.endswith(until):
            piece = await asyncio.get_running_loop().sock_recv(opened, 1)
            assert piece
            found += piece

    async def exchange(self) -> socket.socket:
        """One call on a new connection, which is kept."""
        call, opened = self.call(), await self.accept()
        await self.read(opened)
        opened.sendall(plain(b"first"))
        assert (await call).body == b"first"
        return opened

    async def answer(self, call: asyncio.Task[Fetched]) -> bytes:
        """The body that a call gets over a new connection."""
        opened = await self.accept()
        await self.read(opened)
        opened.sendall(plain(b"second"))
        return (await call).body


@asynccontextmanager
async def agent() -> AsyncIterator[Agent]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with asyncio.timeout(PATIENCE), open_exchanger(DialOptions()) as exchanger:
            found = Agent(listener, exchanger)
            try:
                yield found
            finally:
                for one in found.accepted:
                    one.close()


async def broken(call: asyncio.Task[Fetched]) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await call
    assert (caught.value.reason, caught.value.metadata["phase"]) == (Reason.UNAVAILABLE, "call")
    return caught.value


async def _closed_before() -> None:
    async with agent() as one:
        kept = await one.exchange()
        kept.close()
        call = one.call()  # before the loop has heard of the end
        assert await one.answer(call) == b"second"
        assert len(one.accepted) == 2


async def _closed_between(monkeypatch: pytest.MonkeyPatch) -> None:
    async with agent() as one:
        kept = await one.exchange()

        def close(self: Connection) -> bool:
            if not self.is_fresh:
                kept.close()
            return True

        monkeypatch.setattr(Connection, "is_quiet", close)
        assert await one.answer(one.call()) == b"second"
        assert len(one.accepted) == 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_kept_connection_that_the_agent_has_closed_loses_no_call(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed before the call looks at it; closed between that look and the request."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_closed_before())
        runner.run(_closed_between(monkeypatch))


async def test_a_request_that_the_agent_has_read_is_not_sent_again() -> None:
    async with agent() as one:
        kept, call = await one.exchange(), one.call()
        await one.read(kept)
        kept.close()
        await broken(call)
        assert len(one.accepted) == 1


async def test_a_request_that_the_system_of_the_agent_has_taken_is_not_sent_again() -> None:
    async with agent() as one:
        kept, call = await one.exchange(), one.call()
        await until(lambda: select_readable(kept))
        kept.close()  # the agent has read nothing of it, but nobody can know
        await broken(call)
        assert len(one.accepted) == 1


def select_readable(opened: socket.socket) -> bool:
    try:
        return bool(opened.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_a_request_is_sent_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "_is_untouched", lambda _: True)
    async with agent() as one:
        call = one.call()
        for _ in range(2):
            opened = await one.accept()
            await one.read(opened)
            opened.close()
        await broken(call)
        assert len(one.accepted) == 2


async def test_half_an_answer_is_no_reason_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "_is_untouched", lambda _: True)
    async with agent() as one:
        call, opened = one.call(), await one.accept()
        await one.read(opened)
        opened.sendall(b"H")
        opened.close()
        await broken(call)
        assert len(one.accepted) == 1


# --- answers before the end of a request ---
LARGE = b"x" * 16 * LARGE_BODY


@pytest.mark.parametrize("closes", [False, True])
async def test_an_answer_before_the_end_of_the_request_counts(closes: bool) -> None:
    async with agent() as one:
        call, opened = one.call(LARGE), await one.accept()
        await one.read(opened, b"\r\n\r\n")
        opened.sendall(head("100 Continue") + plain(b"no", "413 Too Large"))
        if closes:
            opened.shutdown(socket.SHUT_WR)
        assert (await call).status == 413
        rest = 0
        while True:  # what was on its way; the connection does not stay open
            try:
                piece = await asyncio.get_running_loop().sock_recv(opened, 1 << 20)
            except ConnectionResetError:
                break
            if not piece:
                break
            rest += len(piece)
        assert rest < len(LARGE)
        assert await one.answer(one.call()) == b"second"


async def test_an_agent_that_closes_its_half_without_an_answer_is_not_waited_for() -> None:
    async with agent() as one:
        call, opened = one.call(LARGE), await one.accept()
        await one.read(opened, b"\r\n\r\n")
        opened.shutdown(socket.SHUT_WR)  # it reads nothing either, so that the request stays here
        await broken(call)


async def test_a_large_request_arrives_whole() -> None:
    async with agent() as one:
        call, opened = one.call(LARGE), await one.accept()
        await one.read(opened, b"\r\n\r\n")
        left = len(LARGE)
        while left:
            left -= len(await asyncio.get_running_loop().sock_recv(opened, 1 << 20))
        opened.sendall(plain(b"all"))
        assert (await call).body == b"all"
        second = one.call()
        await one.read(opened)
        opened.sendall(plain(b"again"))
        assert (await second).body == b"again"
        assert len(one.accepted) == 1


async def test_an_answer_that_comes_before_the_request_is_none() -> None:
    async with agent() as one:
        call, opened = one.call(), await one.accept()
        await one.read(opened)
        opened.sendall(plain(b"first") + plain(b"for nobody"))
        assert (await call).body == b"first"
        assert await one.answer(one.call()) == b"second"


async def test_an_answer_that_waits_in_the_system_before_the_request_is_none() -> None:
    async with agent() as one:
        kept = await one.exchange()
        kept.sendall(plain(b"for nobody"))
        call = one.call()  # before the loop has read it
        assert await one.answer(call) == b"second"
        assert len(one.accepted) == 2


async def test_heads_of_requests_hold_what_they_say() -> None:
    url = URL("http://user:pass@example.com:81/a?b=c", encoded=True)
    origin = Origin(url, None, asyncio.get_running_loop())
    text = origin.head("POST", url, {"Accept": "x", "user-agent": "y", "A": "é"}, b"12").decode()
    first, *lines = text.split("\r\n")
    assert first == "POST /a?b=c HTTP/1.1"
    assert sorted(lines) == [
        "",
        "",
        "A: é",
        "Accept-Encoding: gzip, deflate",
        "Accept: x",
        "Authorization: Basic dXNlcjpwYXNz",
        "Content-Length: 2",
        "Host: example.com:81",
        "user-agent: y",
    ]
    assert b"Content-Length: 0\r\n" in origin.head("DELETE", url, {}, None)
    assert b"Content-Length" not in origin.head("GET", url, {}, None)
    for headers in ({"A": "b\r\nC: d"}, {"A": "b\nC"}, {"A\r\nB": "c"}, {"A": "\0"}, {"A": "\udc80"}):
        with pytest.raises(ValueError, match="header"):
            origin.head("GET", url, headers, None)
    for name in ("content-length", "Transfer-Encoding"):
        with pytest.raises(ValueError, match="frame"):
            origin.head("GET", url, {name: "1"}, None)


# --- what is used of aiohttp beside its public interface ---
def test_the_parts_of_aiohttp_that_are_used_are_as_they_were() -> None:
    found: dict[Any, list[str]] = {
        ResponseHandler.__init__: ["self", "loop"],
        aiohttp.TCPConnector.connect: ["self", "req", "traces", "timeout"],
        aiohttp.TCPConnector._create_connection: ["self", "req", "traces", "timeout"],
        aiohttp.TCPConnector._release: ["self", "key", "protocol", "should_close"],
    }
    for function, names in found.items():
        assert list(inspect.signature(function).parameters) == names, function
    assert isinstance(aiohttp.ClientRequest.connection_key, property)
    assert isinstance(ResponseHandler.should_close, property)
    assert isinstance(aiohttp.connector.Connection.protocol, property)


async def test_aiohttp_makes_and_keeps_connections_for_a_request_that_is_never_sent() -> None:
    async with agent() as one:
        await one.exchange()
        connector = one._exchanger._connector
        assert isinstance(connector, Connector)
        [(key, [(kept, _)])] = connector._conns.items()
        assert isinstance(kept, Connection)
        plain_request = aiohttp.ClientRequest("POST", one._url, loop=asyncio.get_running_loop())
        assert key == plain_request.connection_key
        assert kept._tail == b""
        assert not kept.should_close
        # Data outside of an exchange is kept apart, and ends the use of the connection.
        kept.data_received(b"late")
        assert (kept._tail, kept.should_close, kept.is_connected()) == (b"late", True, False)
        kept._tail = b""
        assert connector._acquired == set()
        origin = one._exchanger._origin(one._url)
        assert await connector.lend(origin, None) is kept
        assert (connector._acquired, connector._conns) == ({kept}, {})
        connector.give_back(kept)
        assert (connector._acquired, [*connector._conns]) == (set(), [key])
        assert connector.take(origin) is kept
        assert (connector._acquired, [*connector._conns.values()]) == ({kept}, [deque()])
        assert connector.take(origin) is None
        made = await connector.lend(origin, None)
        assert connector._acquired == {kept, made}
        made.is_clean = False  # as after a response that was not read
        connector.give_back(made)
        connector.give_back(kept)
        assert (made.transport, connector._acquired, [*connector._conns]) == (None, set(), [key])


async def test_a_kept_connection_that_has_ended_or_is_too_old_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with agent() as one:
        await one.exchange()
        connector, origin = one._exchanger._connector, one._exchanger._origin(one._url)
        [[(kept, since)]] = connector._conns.values()
        with monkeypatch.context() as patched:
            patched.setattr("a2a_bridge_transports._http.connector.monotonic", lambda: since + 60)
            assert connector.take(origin) is None
        kept.abort()
        assert connector.take(origin) is None
        await one.exchange()
        [[(other, _)]] = connector._conns.values()
        assert other is not kept
