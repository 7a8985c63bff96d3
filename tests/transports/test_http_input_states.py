"""The states of the input of a connection: what causes each transition, and how long a state may last."""

import asyncio
from collections.abc import AsyncIterator, Callable
from math import inf

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.errors import IllegalStateError
from a2a_bridge_transports._http import protocol
from a2a_bridge_transports._http.host import HostRequest, HttpHost
from a2a_bridge_transports._http.input_states import AHEAD, BODY, HEAD, IGNORED, KEPT, NEW, TRANSITIONS, Input
from a2a_bridge_transports._http.protocol import KEEP_CONNECTION, LINGER, Connection
from tests.transports.http_scene import Pipe, Scripted, hosting

HEAD_BEGIN, HEAD_END, CONTENT = b"POST / HTTP/1.1\r\nHost: x\r\n", b"Content-Length: 3\r\n\r\n", b"abc"
WHOLE = HEAD_BEGIN + HEAD_END + CONTENT
TIMEOUT = 10.0


class Waiting(HostRequest):
    """A request whose handler does not ask for the body. The test answers it."""

    async def answer(self) -> None:
        await asyncio.get_running_loop().create_future()


class Bench:
    """A connection without a network."""

    def __init__(self, host: HttpHost) -> None:
        host.begin = lambda connection: Waiting(host, connection)
        self.connection = Connection(host)
        self.pipe = Pipe()
        self.connection.connection_made(self.pipe)

    @classmethod
    def of(cls, host: HttpHost, state: Input) -> "Bench":
        """One in a state."""
        bench = cls(host)
        reached = {HEAD: HEAD_BEGIN, BODY: HEAD_BEGIN + HEAD_END, AHEAD: WHOLE, KEPT: WHOLE}
        if state in reached:
            bench.take(reached[state])
        if state is KEPT:
            bench.answer()
        elif state is IGNORED:
            bench.take(b"nonsense\r\n\r\n")
        return bench

    def take(self, data: bytes) -> None:
        self.connection.data_received(data)

    def answer(self, *, keep: bool = True) -> None:
        """The request is answered."""
        request = self.connection.request
        assert request is not None
        request.cancel()
        self.connection.on_answered(keep=keep)

    def come_late(self) -> None:
        self.connection.end_late(inf)
        assert self.pipe.closed

    def lose(self) -> None:
        self.connection.connection_lost(None)


Move = tuple[Callable[[Bench], None], float]
_FIRST: dict[Input, Move] = {
    HEAD: (lambda bench: bench.take(HEAD_BEGIN), TIMEOUT),
    BODY: (lambda bench: bench.take(HEAD_BEGIN + HEAD_END + CONTENT[:1]), inf),
    AHEAD: (lambda bench: bench.take(WHOLE), inf),
    IGNORED: (Bench.come_late, inf),
}
#: transition -> what causes it, and how many seconds the state after it may last
MOVES: dict[tuple[Input, Input], Move] = {
    **{(NEW, after): move for after, move in _FIRST.items()},
    **{(KEPT, after): move for after, move in _FIRST.items()},
    (HEAD, BODY): (lambda bench: bench.take(HEAD_END), inf),
    (HEAD, AHEAD): (lambda bench: bench.take(HEAD_END + CONTENT), inf),
    (HEAD, IGNORED): (lambda bench: bench.take(b"nonsense\r\n\r\n"), LINGER),
    (BODY, AHEAD): (lambda bench: bench.take(CONTENT), inf),
    (BODY, IGNORED): (Bench.answer, LINGER),
    (AHEAD, KEPT): (Bench.answer, KEEP_CONNECTION),
    (AHEAD, IGNORED): (lambda bench: bench.answer(keep=False), inf),
    (IGNORED, IGNORED): (Bench.lose, inf),
}


@pytest.fixture
async def own_host() -> AsyncIterator[HttpHost]:
    async with hosting(Scripted(), options=HostOptions(header_timeout=TIMEOUT)) as started:
        yield started


def test_the_tests_have_all_transitions() -> None:
    assert set(TRANSITIONS) == set(Input)
    assert set(MOVES) == {(before, after) for before in Input for after in TRANSITIONS[before]}


@pytest.mark.parametrize(("before", "after"), MOVES, ids=str)
async def test_the_input_goes_from_state_to_state(own_host: HttpHost, before: Input, after: Input) -> None:
    bench = Bench.of(own_host, before)
    one, loop = bench.connection, asyncio.get_running_loop()
    assert one.input is before
    cause, limit = MOVES[before, after]
    # What the first state has left counts for the head of its request.
    began = loop.time() if before is not NEW or after is not HEAD else one.deadline - TIMEOUT
    cause(bench)
    assert one.input is after
    assert one.deadline == inf if limit == inf else began <= one.deadline - limit <= loop.time()
    assert one.is_idle is (after in (KEPT, IGNORED))
    bench.take(b"P")  # what comes now is read, waits or is thrown away
    assert one._ahead == (b"P" if after is AHEAD else b"")
    assert (one.input is IGNORED) is (after is IGNORED)
    bench.lose()


@pytest.mark.parametrize("before", Input)
async def test_other_transitions_of_the_input_are_defects(own_host: HttpHost, before: Input) -> None:
    one = Bench.of(own_host, before).connection
    for after in set(Input) - TRANSITIONS[before]:
        with pytest.raises(IllegalStateError, match=f"from {before} to {after}"):
            one._to(after)
        assert one.input is before
    one.connection_lost(None)


@pytest.mark.parametrize("before", [NEW, KEPT])
async def test_a_head_has_no_more_time_than_a_connection_without_it(
    own_host: HttpHost, monkeypatch: pytest.MonkeyPatch, before: Input
) -> None:
    monkeypatch.setattr(protocol, "KEEP_CONNECTION", TIMEOUT / 2)
    bench = Bench.of(own_host, before)
    deadline = bench.connection.deadline
    bench.take(HEAD_BEGIN[:1])
    bench.take(HEAD_BEGIN[1:])
    assert bench.connection.deadline == deadline
    bench.lose()


async def test_bytes_ahead_have_their_turn_after_the_answer(
    own_host: HttpHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "KEEP_CONNECTION", TIMEOUT / 2)
    bench = Bench.of(own_host, AHEAD)
    one = bench.connection
    bench.take(WHOLE)
    bench.take(HEAD_BEGIN)
    bench.answer()
    assert (one.input, one._ahead, one.is_idle) == (AHEAD, WHOLE + HEAD_BEGIN, False)
    await asyncio.sleep(0)
    assert (one.input, one._ahead) == (AHEAD, HEAD_BEGIN)
    bench.answer()
    await asyncio.sleep(0)
    assert (one.input, one._ahead) == (HEAD, b"")
    assert (
        one.deadline <= asyncio.get_running_loop().time() + TIMEOUT / 2
    )  # as a connection without these bytes
    bench.lose()


@pytest.mark.parametrize("state", [BODY, AHEAD])
async def test_a_request_of_a_connection_that_is_closed_is_answered_to_nobody(
    own_host: HttpHost, state: Input
) -> None:
    bench = Bench.of(own_host, state)
    bench.take(CONTENT + WHOLE)
    bench.connection.close()
    assert bench.connection._ahead == b""
    bench.answer()
    assert (bench.connection.input, bench.connection.is_idle) == (IGNORED, True)
    bench.lose()
