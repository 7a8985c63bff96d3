"""Slow and leaving readers of a hosted agent's streams, over real sockets. Contents are tested elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.service import messages_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.raw import RawHttp, rpc
from tests.equivalence.scenarios import unique
from tests.equivalence.stack import BINDINGS, Stack, stack
from tests.equivalence.talk import PATIENCE, Talk, sending
from tests.strategies import json_values, messages

bindings = pytest.mark.parametrize("binding", BINDINGS)
#: one chunk; more of them than a log of the bus and the sockets' buffers can hold
CHUNK = "x" * 16_384
CHUNKS = 1200


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack() as running:
        yield running


def chunk_texts(events: list[hub.StreamResponse]) -> list[str]:
    return [
        event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")
    ]


@bindings
async def test_a_slow_subscriber_gets_everything_and_delays_no_other(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    script = ("open", f"hold {gate}", f"flood {CHUNKS} {CHUNK}", "done")
    async with asyncio.timeout(3 * PATIENCE):
        sent = await client.send_message(sending(*script, immediately=True))
        slow = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=sent.task.id))
        async with aclosing(slow):
            seen = [await anext(slow)]
            await client.send_message(sending(f"free {gate}", "say freed"))
            # While it does not read, the agent's other callers are served.
            for _ in range(50):
                answer = await client.send_message(sending("say hello"))
                assert answer.message.parts[0].text == "hello"
            seen += [event async for event in slow]
    assert len(chunk_texts(seen)) == CHUNKS
    assert seen[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_who_leaves_a_stream_leaves_the_task_alone(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    async with asyncio.timeout(PATIENCE):
        stream = client.send_streaming_message(sending("open", "work", f"hold {gate}", "chunk a", "done"))
        first = await anext(stream)
        watcher = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=first.task.id))
        async with aclosing(watcher):
            await anext(watcher)
            await stream.aclose()
            await client.send_message(sending(f"free {gate}", "say freed"))
            rest = [event async for event in watcher]
    assert chunk_texts(rest) == ["a"]
    assert rest[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_who_stops_waiting_for_a_task_leaves_it_alone(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate, context_id = unique("gate"), unique("context")
    async with asyncio.timeout(PATIENCE):
        waiting = asyncio.create_task(
            client.send_message(
                sending("open", f"free {gate}", f"hold {gate}-2", "done", context_id=context_id)
            )
        )
        # The task exists once it has opened the first gate.
        await client.send_message(sending(f"hold {gate}", "say go"))
        waiting.cancel()
        await asyncio.wait({waiting})
        (task,) = (await client.list_tasks(hub.ListTasksRequest(context_id=context_id))).tasks
        watcher = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task.id))
        async with aclosing(watcher):
            await anext(watcher)
            await client.send_message(sending(f"free {gate}-2", "say freed"))
            rest = [event async for event in watcher]
    assert rest[-1].status_update.status.state == hub.TASK_STATE_COMPLETED


@bindings
async def test_many_subscribers_see_the_same(running: Stack, binding: str) -> None:
    client = Client(running.ways[binding])
    gate = unique("gate")
    script = ("open", f"hold {gate}", "flood 300 y", "done")
    async with asyncio.timeout(2 * PATIENCE):
        sent = await client.send_message(sending(*script, immediately=True))
        request = hub.SubscribeToTaskRequest(id=sent.task.id)
        streams = [Client(running.ways[way]).subscribe_to_task(request) for way in BINDINGS * 3]
        for stream in streams:
            await anext(stream)
        await client.send_message(sending(f"free {gate}", "say freed"))
        seen = await asyncio.gather(*(_rest(stream) for stream in streams))
    assert len(seen[0]) == 301
    assert all(one == seen[0] for one in seen)


async def _rest(stream: AsyncIterator[hub.StreamResponse]) -> list[hub.StreamResponse]:
    return [event async for event in stream]


# --- For generated requests, the bindings agree: on echoes, on errors, on streams. Seeds are fixed ---

examples = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    # The server is shared by all examples of a test on purpose.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

UNARY = [
    operation
    for operation in ops.ALL
    if isinstance(operation, ops.Unary) and operation is not ops.GET_EXTENDED_AGENT_CARD
]
STEPS = (
    "open",
    "work",
    "work hard",
    "chunk x",
    "last y",
    "data z",
    "ask what",
    "ask again",
    "auth who",
    "done",
    "fail",
    "reject",
    "cancel",
    "say hello",
    "echo",
    "crash",
    "raise UNSUPPORTED_OPERATION no",
    "raise INVALID_AGENT_RESPONSE bad",
)


async def outcomes(running: Stack, operation: Any, request: Any) -> dict[str, Any]:
    """The answers of every binding to a request."""
    found = {}
    for binding in BINDINGS:
        talk = Talk(Client(running.ways[binding]))
        call: Call[Any, Any] = Call(operation, request, CallContext())
        if isinstance(operation, ops.Unary):
            await talk.ask("answer", running.ways[binding].unary(call))
        else:
            await talk.watch("event", messages_of(running.ways[binding].stream(call)))
        found[binding] = talk.lines
    return found


@examples
@given(message=messages(hub.Message, complete=True))
async def test_an_echo_equals_its_message(running: Stack, message: hub.Message) -> None:
    message.ClearField("task_id")
    request = hub.SendMessageRequest(message=message)
    for binding in BINDINGS:
        answer = (await Client(running.ways[binding]).send_message(request)).message
        assert answer.parts == message.parts, binding
        assert answer.metadata == message.metadata, binding
        assert answer.HasField("metadata") == message.HasField("metadata"), binding
        assert answer.extensions == message.extensions, binding
        assert answer.reference_task_ids == message.reference_task_ids, binding
        if message.context_id:
            assert answer.context_id == message.context_id, binding


@pytest.mark.parametrize("operation", UNARY, ids=lambda operation: operation.name)
@examples
@given(data=st.data())
async def test_any_request_has_the_same_outcome(running: Stack, operation: Any, data: st.DataObject) -> None:
    request = data.draw(messages(operation.request, complete=data.draw(st.booleans())))
    if not _expressible(request):
        return
    found = await outcomes(running, operation, request)
    assert (found["JSONRPC"], found["HTTP+JSON"]) == (found["GRPC"], found["GRPC"])


def _expressible(request: Any) -> bool:
    """Whether every binding can say a request.

    HTTP+JSON: an id or a tenant in the path must be a whole segment. gRPC: a page size of 0 is an unset one,
    because clients send it for theirs.
    """
    if isinstance(request, hub.ListTasksRequest) and request.HasField("page_size") and not request.page_size:
        return False
    in_path = [getattr(request, name) for name in ("id", "task_id") if hasattr(request, name)]
    if isinstance(request, hub.TaskPushNotificationConfig):
        in_path = [request.task_id]
    return all(in_path)


@examples
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
async def test_any_run_gives_the_same_stream(running: Stack, steps: list[str]) -> None:
    found = await outcomes(running, ops.SEND_STREAMING_MESSAGE, sending(*steps))
    assert found["JSONRPC"] == found["HTTP+JSON"] == found["GRPC"]
    answers = await outcomes(running, ops.SEND_MESSAGE, sending(*steps))
    assert answers["JSONRPC"] == answers["HTTP+JSON"] == answers["GRPC"]


@examples
@given(
    params=json_values().filter(lambda tree: tree is not None)  # no params are no body, which is `{}`
    | st.fixed_dictionaries({"message": json_values()})
    | st.fixed_dictionaries(
        {
            "message": st.dictionaries(
                st.sampled_from(["messageId", "message_id", "role", "parts", "metadata", "contextId", "x"]),
                json_values()
                | st.lists(st.dictionaries(st.sampled_from(["text", "raw", "url", "data"]), json_values())),
            )
        }
    )
)
async def test_any_json_is_rejected_or_taken_alike(running: Stack, params: Any) -> None:
    http = RawHttp(running.http)
    try:
        jsonrpc = await http.jsonrpc(rpc("SendMessage", params))
        rest = await http.rest("POST", "/message:send", dumps(params))
    finally:
        await http.close()
    if jsonrpc.error is None or rest.error is None:
        assert jsonrpc.error is rest.error is None
        return
    assert jsonrpc.error.reason in (Reason.INVALID_PARAMS, Reason.TASK_NOT_FOUND)
    assert rest.error.reason is jsonrpc.error.reason
    assert [one.field for one in rest.error.violations] == [one.field for one in jsonrpc.error.violations]
