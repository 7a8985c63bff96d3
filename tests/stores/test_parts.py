"""The small parts of the database stores: rows of the log, texts, the cache of ended tasks."""

import asyncio
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions
from a2a_bridge.stores.ports import Scope, Stored
from a2a_bridge.stores.readers import TerminalTaskCache
from a2a_bridge.stores.records import Place, TaskChange, TaskRow
from a2a_bridge.stores.row_format import Segment, checksum_of, original, pack, storable, unpack
from a2a_bridge.stores.sql.store import open_sql_store
from a2a_bridge.testing.store_scene import ELSEWHERE, HERE, WORKING, ids, made, pages
from tests.patience import PATIENCE
from tests.push.test_fair_queue import Clock


def event(text: str) -> hub.StreamResponse:
    response = hub.StreamResponse()
    response.artifact_update.artifact.parts.add(text=text)
    return response


@given(
    st.lists(st.sampled_from([0, 1, 100, 107, 108, 109, 110, 127, 128, 129, 16_500, 70_000]), max_size=12),
    st.integers(1, 2**40),
    st.integers(0, 14),
)
def test_events_come_back_from_their_rows(sizes: list[int], first: int, skipped: int) -> None:
    events = [event("x" * size) for size in sizes]
    rows = pack("t", first, [one.SerializeToString() for one in events])
    assert [row.first for row in rows] == [first, *(row.last + 1 for row in rows[:-1])][: len(rows)]
    assert sum(row.last - row.first + 1 for row in rows) == len(events)
    after = first - 1 + skipped
    assert [one for row in rows for one in unpack("t", row, after)] == events[skipped:]


def test_rows_are_no_larger_than_they_have_to_be() -> None:
    rows = pack("t", 1, [b"x" * 1000] * 1000)
    assert len(rows) == 4
    assert all(len(row.data) < 300_000 for row in rows)
    assert len(pack("t", 1, [b""] * 1025)) == 3
    assert len(pack("t", 1, [b"x" * 10**6] * 2)) == 2
    assert pack("t", 7, []) == []


def test_rows_have_the_form_of_a_protobuf_message() -> None:
    """A message with a repeated member of number 1, such as this one."""
    task = made("t")
    (row,) = pack("t", 1, [task.SerializeToString()] * 3)
    assert list(hub.ListTasksResponse.FromString(row.data).tasks) == [task] * 3
    assert row == Segment(1, 3, row.data, checksum_of(("t", "1", "3"), row.data))


@given(st.text(alphabet="ab01\0\x1b"), st.text(alphabet="ab01\0\x1b"))
def test_texts_come_back_and_stay_apart(one: str, other: str) -> None:
    assert "\0" not in storable(one)
    assert original(storable(one)) == one
    assert (storable(one) == storable(other)) == (one == other)


def test_ended_tasks_at_hand() -> None:
    ended, task = TerminalTaskCache(10_000), made("t")
    ended.put(HERE, "t", task.SerializeToString(), 3, 7)
    assert ended.get(HERE, "t") == Stored(task, 3, 7)
    for scope in ELSEWHERE:
        assert ended.get(scope, "t") is None
    first = ended.get(HERE, "t")
    assert first is not None
    first.task.context_id = "changed"
    assert ended.get(HERE, "t") == Stored(task, 3, 7)
    ended.drop("t")
    ended.drop("t")
    assert ended.get(HERE, "t") is None


def test_ended_tasks_that_may_be_gone_are_not_at_hand() -> None:
    clock = Clock()
    ended = TerminalTaskCache(10_000, 60.0, wall=clock)
    for number in range(2):
        ended.put(HERE, f"t{number}", made("t").SerializeToString(), 1, 1, clock() - number)
    clock.time += 60.0
    assert ended.get(HERE, "t0") is not None
    assert ended.get(HERE, "t1") is None
    clock.time += 1.0
    assert ended.get(HERE, "t0") is None
    assert not ended._entries
    assert ended.idle == 0


def test_the_least_recently_read_tasks_are_evicted_first() -> None:
    ended = TerminalTaskCache(10_000)
    for number in range(9):
        ended.put(Scope(), str(number), b"", 1, 1)
        assert ended.get(Scope(), "0") is not None
    ended.put(Scope(), "large", bytes(5000), 1, 1)
    assert ended.get(Scope(), "large") is None
    for number in range(100, 120):
        ended.put(Scope(), str(number), bytes(500), 1, 1)
        assert ended.get(Scope(), "0") is not None
    assert ended.get(Scope(), "1") is None


def test_the_cache_is_bounded() -> None:
    most = 1 << 20
    ended = TerminalTaskCache(most)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(20_000):
            ended.put(HERE, f"task-{number:036}", bytes(300), 1, 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < most * 1.5


async def test_a_body_too_large_for_any_database_does_not_block_others(url: str) -> None:
    async with open_sql_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        place, me = Place("c", WORKING, 0), store.me()
        # The system gives memory when it is used, and this is not.
        bodies = {"bad": bytes(1 << 31), "good": hub.Task(id="good").SerializeToString()}
        changes = [
            TaskChange(TaskRow(HERE, name, place, 1, 0, 0, me, body, None), (), None, by=me)
            for name, body in bodies.items()
        ]
        async with asyncio.timeout(PATIENCE):
            rejected, stored = await store.records.write(changes)
        assert isinstance(rejected, A2AError)
        assert rejected.reason is Reason.INTERNAL_ERROR
        assert stored is None
        assert ids(await pages(store)) == ["good"]
