"""What a gateway remembers of tasks counts in its memory account, and has limits of its own."""

import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from a2a_bridge import interface
from a2a_bridge.app.gateway import RemotePlan, gateway_app
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.auth import Authentication, ProxyHeader
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.memory import ENTRY, MemoryAccount, Table, Tables, size_of
from a2a_bridge.cards.select import Candidate, select
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Principal
from a2a_bridge.core.callers import Scope
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.legacy import adapt_dial
from a2a_bridge.gateway.ownership import Owned, Owners
from a2a_bridge.gateway.polyfill import add_polyfill
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import Probe
from tests.gateway.test_gateway import card

MIB = 1 << 20
LIMIT = 8 * MIB


@asynccontextmanager
async def large_contexts(candidate: Candidate, options: DialOptions) -> AsyncIterator[Any]:
    """An agent whose contexts have names of a megabyte."""
    probe = Probe()

    async def answer(call: Call[Any, Any]) -> Any:
        number = call.request.message.message_id
        task = hub.Task(id=f"t{number}", context_id=f"{number} " + "x" * MIB)
        task.status.state = hub.TASK_STATE_WORKING
        probe.calls.clear()
        return hub.SendMessageResponse(task=task)

    async def events(call: Call[Any, Any]) -> Any:
        yield hub.StreamResponse(task=(await answer(call)).task)

    probe.on_unary, probe.on_stream = answer, events
    yield probe


@each("streams", [False, True])
@each("version", ["1.0", "0.3", "0.1"])
@each("knows_callers", [False, True])
async def test_large_names_of_an_agent_stay_below_the_limit(
    version: str, knows_callers: bool, streams: bool
) -> None:
    there = card(supported_interfaces=[interface("JSONRPC", "http://a", version=version)])
    method = ProxyHeader("x-user", ("127.0.0.1",))
    options = ServeOptions(
        store_options=StoreOptions(max_memory=LIMIT),
        authentication=None if knows_callers else Authentication([method]),
        upstream=UpstreamOptions(endpoints=("http://b",), affinity=True),
    )
    tasks = Tasks()
    dialling = add_polyfill(tasks.separate, dial=adapt_dial(large_contexts, tasks.separate))
    candidates = select(there, known=["JSONRPC"])
    context = CallContext(principal=None if knows_callers else Principal("ann"))
    plan = RemotePlan(there, candidates, options, DialOptions(), dialling, tasks)
    async with gateway_app(plan) as app:
        tracemalloc.start()
        try:
            for number in range(40):
                message = hub.Message(message_id=str(number), parts=[hub.Part(text="x")])
                request = hub.SendMessageRequest(message=message)
                if streams:
                    call: Any = Call(ops.SEND_STREAMING_MESSAGE, request, context)
                    async with aclosing(app.service.stream(call)) as events:
                        await anext(events)
                else:
                    await app.service.unary(Call(ops.SEND_MESSAGE, request, context))
                assert app.memory.used <= LIMIT
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert app.memory.used > MIB
        assert held < 2 * LIMIT


def test_the_largest_table_loses_its_oldest_entries() -> None:
    memory = MemoryAccount(10_000)
    tables = Tables.of(memory)
    assert Tables.of(memory) is tables
    dropped: list[str] = []
    small: Table[str, int] = Table(100, tables)
    large: Table[str, int] = Table(100, tables, on_drop=lambda key, _: dropped.append(key))
    small.put("s", 1, 1000)
    for name in "abcdefgh":
        large.put(name, 1, 1000)
    assert memory.used == tables.idle == 9000
    assert large.get("a") == 1  # used now
    memory.add(3000)
    assert dropped == ["b", "c"]
    assert (len(small), memory.used) == (1, 10_000)
    del large
    gc.collect()
    assert memory.used == 4000
    small.pop("s")
    assert (memory.used, tables.idle) == (3000, 0)


def test_a_table_has_limits_of_its_own() -> None:
    table: Table[str, int] = Table(3, most_bytes=1000)
    for number, name in enumerate("abcd"):
        table.put(name, number, 100)
    assert list(table) == ["b", "c", "d"]
    table.put("b", 5, 900)  # another size
    assert (list(table), table.size) == (["d", "b"], 1000)
    table.put("e", 6, 2000)  # alone it stays
    assert (list(table), table.get("e"), table.pop("x")) == (["e"], 6, None)


def test_lists_forget_the_tasks_that_the_table_drops() -> None:
    tasks = Tasks(MemoryAccount(20 * (ENTRY + 400)), now=lambda: 1)
    for number in range(100):
        tasks.note(Scope("", f"o{number % 3}"), f"t{number}", "c")
    kept = [known.id for name in ("o0", "o1", "o2") for known in tasks.list_of(Scope("", name))]
    assert 10 < len(kept) == len(tasks) < 40
    assert "t99" in kept


async def test_owners_lose_their_oldest_records() -> None:
    memory = MemoryAccount(50 * MIB)
    owners = Owners(Tasks(memory))
    for number in range(100):
        await owners.claim("task", f"t{number}", Owned(Scope("", "ann"), f"{number}" + "x" * MIB))
    assert await owners.of("task", "t0", Scope()) is None
    assert await owners.of("task", "t99", Scope()) is not None
    assert memory.used < 50 * MIB


def test_sizes_are_those_of_the_texts() -> None:
    assert size_of(Scope("", "a"), "x" * 1000) > 1000
    assert size_of("t", "é" * 1000, "\u20ac" * 1000) > 3000
