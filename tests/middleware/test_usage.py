"""usage(): counts by caller and operation, with the last time; bounded, and safe to print."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.call import CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import Usage, usage
from a2a_bridge.middleware.usage import OTHERS, counts_of
from a2a_bridge.testing.probe import Probe, answering, holding, yielding
from tests.middleware.scene import TASK, ask, get, subscribe

OLD = Origin("JSONRPC", "0.3")
NEW = Origin("GRPC", "1.0")
#: a count in documents that were written before there were profiles
ROW: dict[str, Any] = {
    "client": "a",
    "principal": "",
    "binding": "JSONRPC",
    "version": "0.3",
    "operation": "GetTask",
    "calls": 1,
    "errors": 0,
    "first": 1.0,
    "last": 2.0,
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def probe() -> Probe:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK, TASK)
    return probe


def caller(agent: str, origin: Origin = OLD, principal: str = "") -> CallContext:
    return CallContext(
        parameters={"user-agent": agent} if agent else {},
        origin=origin,
        principal=Principal(principal) if principal else None,
    )


def rows(table: Usage) -> set[tuple[Any, ...]]:
    return {(*one.key, one.calls, one.errors) for one in table}


async def test_calls_are_counted_by_caller_cell_and_operation(probe: Probe) -> None:
    table = Usage(clock=Clock())
    service = usage(table)(probe)
    for context in (
        caller("a/1"),
        caller("a/1"),
        caller("a/1", NEW),
        caller("a/1", principal="ann"),
        caller(""),
    ):
        await ask(service, get(context))
    await ask(service, subscribe(caller("a/1")))
    assert rows(table) == {
        ("a/1", "", "JSONRPC", "0.3", "GetTask", "", 2, 0),
        ("a/1", "", "GRPC", "1.0", "GetTask", "", 1, 0),
        ("a/1", "ann", "JSONRPC", "0.3", "GetTask", "", 1, 0),
        ("", "", "JSONRPC", "0.3", "GetTask", "", 1, 0),
        ("a/1", "", "JSONRPC", "0.3", "SubscribeToTask", "", 1, 0),
    }
    first = next(one for one in table if one.calls == 2)
    assert (first.first, first.last) == (1001.0, 1002.0)


async def test_callers_are_counted_by_their_peer_profile(probe: Probe) -> None:
    table = Usage()
    service = usage(table)(probe)
    for agent in ("grpc-go/1.70.0", "grpc-go/1.71.0", "Java-http-client/21", "something/1"):
        await ask(service, get(caller(agent)))
    assert {(one.profile, one.client) for one in table} == {
        ("a2a-go-0.3", "grpc-go/1.70.0"),
        ("a2a-go-0.3", "grpc-go/1.71.0"),
        ("a2a-java-0.3", "Java-http-client/21"),
        ("", "something/1"),
    }
    again = Usage()
    again.restore(loads(dumps(table.document())))  # type: ignore[arg-type]
    assert {one.key for one in again} == {one.key for one in table}


async def test_failures_are_counted_and_passed_on(probe: Probe) -> None:
    async def fail(_call: Any) -> Any:
        raise A2AError(Reason.TASK_NOT_FOUND)

    async def fail_late(_call: Any) -> Any:
        yield TASK
        raise A2AError(Reason.INTERNAL_ERROR)

    probe.on_unary, probe.on_stream = fail, fail_late
    table = Usage()
    service = usage(table)(probe)
    for call in (get(caller("a")), subscribe(caller("a"))):
        with pytest.raises(A2AError):
            await ask(service, call)
    assert {one.errors for one in table} == {1}
    assert len(list(table)) == 2


async def test_a_caller_that_hangs_up_on_a_stream_has_not_failed(probe: Probe) -> None:
    table = Usage()
    async with aclosing(usage(table)(probe).stream(subscribe(caller("a")))) as events:
        assert (await anext(events)).message == TASK
    assert [(one.calls, one.errors) for one in table] == [(1, 0)]


async def test_neither_has_one_that_hangs_up_while_it_waits_for_an_event(probe: Probe) -> None:
    probe.on_stream = holding(TASK)
    table = Usage()
    async with aclosing(usage(table)(probe).stream(subscribe(caller("a")))) as events:
        await anext(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # so that it waits
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [(one.calls, one.errors) for one in table] == [(1, 0)]


async def test_names_beyond_the_limit_are_counted_together(probe: Probe) -> None:
    table = Usage(limit=3)
    service = usage(table)(probe)
    for number in range(50):
        await ask(service, get(caller(f"agent-{number}")))
    assert {one.client: one.calls for one in table} == {"agent-0": 1, "agent-1": 1, "agent-2": 1, OTHERS: 47}


async def test_names_are_cut_and_made_printable(probe: Probe) -> None:
    table = Usage()
    service = usage(table)(probe)
    await ask(service, get(caller("x" * 500)))
    await ask(service, get(caller("evil\x1b[2J\n")))
    names = {one.client for one in table}
    assert all(name.isprintable() and len(name) <= 121 for name in names)
    assert any(name.startswith("evil") for name in names)


async def test_counts_survive_as_a_document(probe: Probe) -> None:
    clock = Clock()
    before = Usage(clock=clock)
    service = usage(before)(probe)
    await ask(service, get(caller("a")))
    document = loads(dumps(before.document()))
    after = Usage(clock=clock)
    await ask(usage(after)(probe), get(caller("a")))
    assert isinstance(document, dict)
    after.restore(document)
    assert [(one.calls, one.first, one.last) for one in after] == [(2, 1001.0, 1003.0)]


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "format"),
        ([], "format"),
        ({"format": 1, "usage": {}}, "usage"),
        ({"format": 1, "usage": [{"client": 7}]}, r"usage\[0\].client"),
        ({"format": 1, "usage": [7]}, r"usage\[0\].client"),
        ({"format": 1, "usage": [{**ROW, "profile": 7}]}, r"usage\[0\].profile"),
    ],
)
def test_an_invalid_usage_document_is_rejected(document: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        counts_of(document)


def test_a_document_cannot_write_on_a_terminal_either() -> None:
    table = Usage()
    row = {**ROW, "client": "a\x1b[2J\nb", "binding": "\x1b"}
    table.restore({"format": 1, "now": 3.0, "usage": [row]})
    [count] = table
    assert (count.client, count.binding) == ("a�[2J�b", "�")
