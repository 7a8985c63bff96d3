"""What a process remembers under keys that strangers choose has a bound in bytes."""

from __future__ import annotations

import io

import pytest
from opentelemetry.sdk.trace import TracerProvider

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.callers import Scope
from a2a_bridge.gateway.identity_names import IdentityTable, Name
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.middleware import spans
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.testing.probe import Probe
from a2a_bridge_tools.client.recording import calls_of, lines_of

MIB = 1 << 20
SCOPE = Scope("", "ann")


async def test_ids_of_sent_messages_and_their_responses_count_in_the_account() -> None:
    store = MemoryStore(max_memory=8 * MIB)
    assert await store.sends.reserve(SCOPE, "first", b"digest", "t") is None
    await store.sends.store_response(SCOPE, "first", b"x" * MIB)
    assert MIB < store.memory.used < 1.1 * MIB
    for number in range(20):
        assert await store.sends.reserve(SCOPE, f"{number} " + "x" * MIB, b"digest", "t") is None
        assert store.memory.used <= 8 * MIB
    assert store.memory.rejection() is None
    known = await store.sends.reserve(SCOPE, "19 " + "x" * MIB, b"digest", "t")
    assert known is not None
    assert await store.sends.reserve(SCOPE, "first", b"digest", "t") is None  # it was evicted
    used = store.memory.used
    await store.sends.forget(SCOPE, "19 " + "x" * MIB)
    assert store.memory.used < used - MIB


def test_names_of_callers_count_by_their_length() -> None:
    memory = MemoryAccount(8 * MIB)
    table = IdentityTable(Tasks(memory))
    for number in range(8):
        table.keep(SCOPE, Name(f"{number} " + "x" * MIB, f"t{number}", "s" * MIB))
        assert memory.used <= 8 * MIB
    assert [number for number in range(8) if table.find(SCOPE, f"{number} " + "x" * MIB)] == [5, 6, 7]


@pytest.mark.parametrize(("length", "known"), [(10, True), (MIB, False)])
async def test_spans_of_tasks_with_long_ids_are_not_remembered(length: int, known: bool) -> None:
    agent, task_id = Probe(), "x" * length

    async def answer(_: object) -> hub.SendMessageResponse:
        return hub.SendMessageResponse(task=hub.Task(id=task_id))

    agent.on_unary = answer
    traced = spans.Traced(agent, TracerProvider().get_tracer("test"))
    trace = {"traceparent": f"00-{1:032x}-{1:016x}-01", "tracestate": "a=" + "x" * 200}
    await traced.unary(Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), CallContext(parameters=trace)))
    found = spans._messages.pop(task_id, None)
    assert (found is not None) is known
    assert found is None or (found.trace_id, len(found.trace_state)) == (1, 0)


def test_lines_of_a_record_are_read_one_after_another() -> None:
    file = io.BytesIO(b'{"at": 1}\n' * 3 + b'{"at": "' + b"x" * MIB + b'"}\n')
    lines = lines_of(file, 1000)
    assert next(lines) == b'{"at": 1}\n'
    assert file.tell() == 10
    with pytest.raises(ValueError, match="line 4 is no line of a record: it has more than 1000 bytes"):
        calls_of(lines)
