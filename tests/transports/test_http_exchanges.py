"""What an agent may do wrong on a connection, in any pieces; and that no call gets bytes of another."""

from random import Random

import pytest

from a2a_bridge.testing.each import each
from tests.transports.exchange_scene import GOOD, SHAPES, Outcome, Pipe, connection_to, exchanged, head, plain

#: bodies of up to this length are cut at each byte
CUT = 600


def test_the_table_has_enough_shapes() -> None:
    assert len({name for name, *_ in SHAPES}) == len(SHAPES) > 60


@each("name, data, ends, kind, body, kept", SHAPES)
async def test_an_agent_that_does_something_odd(
    name: str, data: bytes, ends: bool, kind: str, body: bytes, kept: bool
) -> None:
    """The outcome does not depend on the pieces in which the response comes."""
    cuts = [[data]]
    if len(data) <= CUT:
        cuts += [[data[:at], data[at:]] for at in range(1, len(data))]
        cuts.append([data[at : at + 1] for at in range(len(data))])
    else:
        cuts += [[data[:at], data[at:]] for at in range(97, len(data), len(data) // 7)]
    for pieces in cuts:
        connection = connection_to(Pipe())
        # A loss while the response is not complete is part of the shapes only where they say so.
        found = await exchanged(connection, [*filter(None, pieces), *([b""] if ends else [])], then_end=False)
        expected = Outcome(kind, found.status if kind == GOOD else 0, body, kept)
        assert found == expected, (name, pieces[0][-20:])
        connection.connection_lost(None)


@each("late", [plain(b"another's"), b"\r\n", b"H", head("408 Request Timeout"), b"\x16"])
async def test_what_comes_between_calls_is_for_no_call(late: bytes) -> None:
    connection = connection_to(Pipe())
    assert (await exchanged(connection, [plain()])).kept
    connection.data_received(late)
    assert not connection.is_connected()
    assert connection.should_close


#: what mutations put into a response
TOKENS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"0",
    b"0\r\n\r\n",
    b":",
    b" ",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"Content-Length: 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Content-Encoding: gzip\r\n",
    b"\xff",
]
SEEDS = [data for _, data, _, kind, _, _ in SHAPES if kind == GOOD]


def mutated(random: Random) -> bytes:
    data = bytearray(random.choice(SEEDS))
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at:at] = random.choice(TOKENS)
            case 1:
                del data[at : at + random.choice([1, 2, 10])]
            case 2:
                data[at : at + 1] = bytes([random.randrange(256)])
            case _:
                other = random.choice(SEEDS)
                data[at:] = other[random.randrange(len(other)) :]
    return bytes(data)


@pytest.mark.parametrize("part", range(4))
async def test_mutated_responses_are_for_their_own_call_only(part: int) -> None:
    """20,000 responses. Of each, all bytes come before the next call begins; the next call gets its own response,
    or another connection.
    """
    random = Random(part)
    kinds = set()
    for number in range(5000):
        data = mutated(random)
        connection = connection_to(Pipe())
        places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 1, 5])))
        pieces = [
            data[start:end]
            for start, end in zip([0, *places], [*places, len(data)], strict=True)
            if start < end
        ]
        late = pieces.pop() if len(pieces) > 1 and random.random() < 0.3 else b""
        first = await exchanged(connection, pieces)
        kinds.add((first.kind, first.kept))
        assert first.kept <= (first.kind != "malformed")
        if late and first.kept:
            connection.data_received(late)
        if connection.is_connected() and not connection.should_close:
            own = b"the next %d" % number
            second = await exchanged(connection, [plain(own)])
            assert (second.kind, second.body) == (GOOD, own), (data, pieces)
        connection.connection_lost(None)
    assert len(kinds) >= 5
