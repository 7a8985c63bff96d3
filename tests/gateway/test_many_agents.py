"""Many agents at once, read, tried and called by one process: the work at once has a bound, and what the process
itself holds up is no fault of an agent.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

import pytest

from a2a_bridge import connect, interface
from a2a_bridge.agents import hosted, serve_agents
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import DialOptions, Fetched
from a2a_bridge.bindings.probing import QUESTIONS, Turns, ends_within, within
from a2a_bridge.cards import Resolver
from a2a_bridge.cards.select import Candidate
from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.destinations import Destinations
from tests.agents import EchoAgent
from tests.patience import PATIENCE
from tests.rejections import rejected

#: seconds of a time limit, and a longer time for which other work holds the event loop
LIMIT, HELD = 0.05, 0.3


class Counted:
    """Work that goes on until it is released: how much of it is in progress, and was at most."""

    def __init__(self) -> None:
        self.now = self.most = self.begun = 0
        self.end = asyncio.Event()

    async def work(self) -> None:
        self.now += 1
        self.begun += 1
        self.most = max(self.most, self.now)
        # All that may begin has begun before the first ends.
        for _ in range(20):
            await asyncio.sleep(0)
        self.now -= 1


async def test_turns_are_bounded_by_host_and_in_all() -> None:
    turns, counted = Turns(by_host=3, in_all=7), Counted()
    by_host = {name: Counted() for name in "abcdef"}

    async def one(name: str) -> None:
        async with turns.at(f"http://{name}:80/x"):
            await asyncio.gather(counted.work(), by_host[name].work())

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(one(name) for name in by_host for _ in range(20)))
    assert counted.begun == 120
    assert (counted.most, {one.most for one in by_host.values()}) == (7, {3})
    assert not turns._loops


async def test_who_gives_up_its_turn_leaves_it_to_others() -> None:
    turns = Turns(by_host=1, in_all=1)
    async with asyncio.timeout(PATIENCE):
        async with turns.at("a"):
            waiting = asyncio.create_task(turns.at("b").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with turns.at("b"):
            pass
    assert not turns._loops


async def test_cards_of_one_host_are_read_few_at_a_time() -> None:
    counted = Counted()

    async def fetch(_url: str, _headers: object) -> Fetched:
        await counted.work()
        return Fetched(404, {}, b"")

    async def read(number: int) -> None:
        with rejected(Reason.INVALID_AGENT_RESPONSE):
            await Resolver(fetch).locate(f"http://host/{number}", exact=True)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(read(number) for number in range(100)))
    assert counted.begun >= 100
    assert counted.most == QUESTIONS.by_host


async def test_a_host_with_several_addresses_is_tried_at_all_of_them() -> None:
    tried: list[str] = []
    first_fails = asyncio.Event()

    async def probe(host: str, _port: int) -> str:
        tried.append(host)
        if host == "192.0.2.2":
            return ""
        await first_fails.wait()
        return "no answer in time"

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["192.0.2.1", "192.0.2.2", "192.0.2.3"]

    candidate = Candidate(interface("JSONRPC", "http://elsewhere.example/"), V1_0, resolve=resolve)
    async with asyncio.timeout(PATIENCE):
        (found,) = await Destinations(DialOptions(), probe=probe).check_and_connect([candidate])
    assert (found.silence, sorted(tried)) == ("", ["192.0.2.1", "192.0.2.2", "192.0.2.3"])


async def test_interfaces_at_one_place_need_one_test_connection() -> None:
    tried: list[int] = []

    async def probe(_host: str, port: int) -> str:
        tried.append(port)
        await asyncio.sleep(0)
        return ""

    urls = ["http://127.0.0.1:1/", "http://127.0.0.1:1/v1", "http://127.0.0.1:2/"]
    candidates = [Candidate(interface("JSONRPC", url), V1_0) for url in urls]
    found = await Destinations(DialOptions(), probe=probe).check_and_connect(candidates)
    assert ([one.silence for one in found], sorted(tried)) == (["", "", ""], [1, 2])


async def test_time_in_which_the_loop_was_held_is_not_the_peers() -> None:
    async def answer() -> str:
        for _ in range(5):  # steps of a connection, each of which waits for the loop
            await asyncio.sleep(0)
        return "answer"

    async def silent() -> None:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(within(LIMIT, answer()))
    asyncio.get_running_loop().call_soon(time.sleep, HELD)
    assert await waiting == "answer"
    with pytest.raises(TimeoutError):
        await within(LIMIT, silent())
    ended = asyncio.create_task(silent())
    assert not await ends_within(ended, LIMIT)
    assert not ended.cancelled()
    ended.cancel()


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
async def test_a_process_that_is_busy_while_it_connects_takes_no_other_interface(
    binding: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = DialOptions(connect_patience=LIMIT, connect_timeout=LIMIT)
    async with asyncio.timeout(PATIENCE), serve_agents([hosted("a", EchoAgent(), ServeOptions())]) as server:
        card = server.cards["a"]

        async def ask() -> str:
            async with connect(card, binding=binding, version="1.0", options=options) as peer:
                return (await peer.send("hi")).text

        async def hold(asking: "asyncio.Task[str]") -> None:
            while not asking.done():
                time.sleep(HELD)  # noqa: ASYNC251  other work of this process
                await asyncio.sleep(0)

        asking = asyncio.create_task(ask())
        await asyncio.gather(asking, hold(asking))
    assert asking.result() == "hi"
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
