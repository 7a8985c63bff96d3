"""A peer that resumes through a breaking network: no event twice, none lost, limited attempts."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.bindings.binding import DialOptions, HostOptions, find
from a2a_bridge.bindings.following import Following
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import EVENT_PARAMETER, LAST_EVENT_PARAMETER, RESUME_PARAMETER, Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.resume import RESUME_URI, gap_of, offer_resume
from a2a_bridge.core.service import Event
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.middleware.validate import extensions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge_transports._http.asgi import AsgiHost
from tests.rejections import rejected
from tests.resume.cutting import PATIENCE, Cutter
from tests.resume.scene import BINDINGS, OLDER, dialling, read, subscribing, through_a_cutter
from tests.resume.scripted import TASK, Anew, Log, became, begun, chunk, whole
from tests.sites import listening
from tests.transports.grpc_scene import channel, finished
from tests.transports.http_scene import BINDINGS as HTTP_BINDINGS
from tests.transports.http_scene import Answer, ask, frame, hosting, request
from tests.transports.test_http_asgi import browser

bindings = pytest.mark.parametrize("binding", BINDINGS)
#: no waiting in tests
AT_ONCE = Following(attempts=4, first=0.0)
OFFERING = hub.AgentCard(
    capabilities=hub.AgentCapabilities(streaming=True, extensions=[hub.AgentExtension(uri=RESUME_URI)])
)


@asynccontextmanager
async def cut_off(
    log: Any, binding: str, card: hub.AgentCard = OFFERING
) -> AsyncIterator[tuple[Peer, Cutter]]:
    async with asyncio.timeout(PATIENCE), through_a_cutter(log, binding) as (service, cutter):
        yield Peer(service, card), cutter


@asynccontextmanager
async def following(log: Any, binding: str) -> AsyncIterator[tuple[AsyncGenerator[Any, None], Cutter]]:
    async with cut_off(log, binding) as (peer, cutter), aclosing(peer.stream("go", follow=AT_ONCE)) as events:
        yield events, cutter


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_numbers_of_connections_are_no_ids(binding: str) -> None:
    log = Anew(*whole(4)[:3])
    card = hub.AgentCard(name="Numbers", capabilities=hub.AgentCapabilities(streaming=True))
    async with (
        cut_off(log, binding, card) as (peer, cutter),
        aclosing(peer.stream("go", follow=AT_ONCE)) as events,
    ):
        for _ in range(3):
            await anext(events)
        cutter.cut()
        snapshot = await anext(events)
        assert snapshot.task == log.task()
        log.add(became(hub.TASK_STATE_COMPLETED))
        assert [one async for one in events] == log.events[-1:]
    assert LAST_EVENT_PARAMETER not in log.calls[-1].context.parameters


@bindings
async def test_a_stream_that_breaks_after_each_event_is_one_stream(binding: str) -> None:
    log = Log(*whole(4))
    seen = []
    async with cut_off(log, binding) as (peer, cutter):
        cutter.hold_after(1)
        async with aclosing(peer.events(request_of(["go"]), AT_ONCE)) as events:
            async for event in events:
                seen.append((event.id, event.message))
                cutter.cut()
                cutter.hold_after(1)
    assert seen == [(str(number), event) for number, event in enumerate(log.events, 1)]
    assert [one.operation for one in log.calls].count(ops.SEND_STREAMING_MESSAGE) == 1
    assert log.calls[0].context.extensions == (RESUME_URI,)


@bindings
async def test_subscribing_after_an_event(binding: str) -> None:
    log = Log(*whole(2))
    async with cut_off(log, binding) as (peer, _):
        assert [event async for event in peer.subscribe(TASK, after="3")] == log.events[3:]
        assert [event async for event in peer.subscribe(log.task(), after="5")] == []
        with pytest.raises(A2AError) as rejected:
            await anext(peer.subscribe(TASK))
    assert rejected.value.reason is Reason.UNSUPPORTED_OPERATION


@bindings
async def test_a_subscription_is_followed_too_from_its_first_connection_on(binding: str) -> None:
    log = Log(*whole(2))
    async with cut_off(log, binding) as (peer, cutter):
        cutter.hold_after(0)
        reading = asyncio.ensure_future(_all(peer.subscribe(TASK, after="2", follow=AT_ONCE)))
        await cutter.held()
        cutter.cut()
        assert await reading == log.events[2:]


@bindings
async def test_dropped_events_are_replaced_by_a_snapshot(binding: str) -> None:
    log = Log(*whole(4)[:3])
    async with following(log, binding) as (events, cutter):
        assert await anext(events) == log.events[0]
        cutter.hold_after(0)
        cutter.cut()
        log.add(*whole(4)[3:])
        log.kept = 5
        rest = [event async for event in events]
    snapshot = next(event for event in rest if gap_of(event))
    assert snapshot.task.artifacts == log.task().artifacts
    assert rest[-1] in (snapshot, log.events[-1])


@bindings
async def test_an_agent_without_ids_gives_snapshots(binding: str) -> None:
    log = Log(*whole(2)[:3], numbered=False)
    async with following(log, binding) as (events, cutter):
        for expected in log.events[:]:
            assert await anext(events) == expected
        cutter.cut()
        snapshot = await anext(events)
        assert snapshot.task == log.task()
        log.add(chunk("more"), became(hub.TASK_STATE_COMPLETED))
        assert [event async for event in events] == log.events[3:]


@bindings
async def test_the_end_of_an_unwatched_task_is_sent(binding: str) -> None:
    log = Log(*whole(2)[:3], numbered=False)
    async with following(log, binding) as (events, cutter):
        for _ in log.events[:]:
            await anext(events)
        log.events.append(became(hub.TASK_STATE_COMPLETED))  # there is no notification
        cutter.cut()
        (end,) = [event async for event in events]
    assert end.task.status.state == hub.TASK_STATE_COMPLETED


async def test_attempts_that_bring_nothing_are_bounded() -> None:
    down = A2AError(Reason.UNAVAILABLE, "down", blame=Blame.PEER)
    probe = Probe()
    tried = 0

    async def once_and_never_again(call: Any) -> AsyncGenerator[Any, None]:
        nonlocal tried
        tried += 1
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            yield Event(begun(), "1")
        raise down

    probe.on_stream = once_and_never_again
    with pytest.raises(A2AError) as failed:
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert failed.value is down
    assert tried == 1 + AT_ONCE.attempts


def sending_each_time(*events: Any) -> Probe:
    probe = Probe()
    probe.on_stream = yielding(*events)
    return probe


async def test_snapshots_alone_are_no_progress() -> None:
    probe = sending_each_time(begun(), A2AError(Reason.UNAVAILABLE, "down", blame=Blame.PEER))
    with pytest.raises(A2AError, match="down"):
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert len(probe.calls) == 1 + AT_ONCE.attempts


async def test_a_stream_that_ends_early_is_resumed_once() -> None:
    """A proxy that ends long responses without an error has this effect."""
    events = whole(2)
    log = Log(*events)
    ends = iter([2, 0])

    async def short(call: Any) -> AsyncGenerator[Any, None]:
        left = next(ends, 99)
        async with aclosing(log.stream(call)) as stream:
            async for event in stream:
                yield event
                left -= 1
                if not left:
                    return

    probe = Probe()
    probe.on_stream = short
    assert await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE)) == events


async def test_a_task_at_rest_is_not_followed() -> None:
    probe = sending_each_time(begun(), became(hub.TASK_STATE_INPUT_REQUIRED))
    assert len(await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))) == 2
    assert len(probe.calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        A2AError(Reason.INTERNAL_ERROR, blame=Blame.PEER),
        A2AError(Reason.DEADLINE_EXCEEDED, blame=Blame.PEER),
        A2AError(Reason.UNAVAILABLE, "the client was closed", blame=Blame.SELF),
    ],
    ids=lambda error: error.name,
)
async def test_errors_other_than_an_outage_end_it(error: A2AError) -> None:
    probe = sending_each_time(begun(), error)
    with pytest.raises(A2AError) as raised:
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert (raised.value, len(probe.calls)) == (error, 1)


async def test_a_message_without_an_answer_is_not_sent_again() -> None:
    probe = sending_each_time(A2AError(Reason.UNAVAILABLE, blame=Blame.PEER))
    with pytest.raises(A2AError):
        await _all(Peer(probe, OFFERING).stream("go", follow=AT_ONCE))
    assert len(probe.calls) == 1


def test_waits_grow_and_are_bounded() -> None:
    following = Following(first=1.0, most=8.0)
    for attempt, longest in [(1, 1.0), (2, 2.0), (4, 8.0), (5000, 8.0)]:
        waits = [following.wait(attempt) for _ in range(50)]
        assert longest / 2 <= min(waits) <= max(waits) <= longest
        assert len(set(waits)) > 1
    assert (following.wait(1, 4.0), following.wait(1, 3600.0)) == (4.0, 8.0)


async def _all(events: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]


# --- The ids of events on each wire, and answers about resuming from services without ids ---

SUBSCRIBE = "/lf.a2a.v1.A2AService/SubscribeToTask"
http = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


def subscription(binding: str, **headers: str) -> bytes:
    if binding == "JSONRPC":
        return request("POST", "/", frame("SubscribeToTask", {"id": TASK}), **headers)
    return request("GET", f"/tasks/{TASK}:subscribe", **headers)


def fields(body: bytes) -> list[list[str]]:
    """The names of the fields of each event, in order; an id with its value."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [line.split(": ", 1) for line in block.split("\n")]
        found.append([f"id={value}" if name == "id" else name for name, value in lines])
    return found


@http
async def test_server_sent_events_have_ids(binding: str) -> None:
    async with hosting(Log(*whole(1))) as host:
        answer = await ask(host, subscription(binding, Last_Event_ID="1"))
    assert fields(answer.body) == [["id=2", "data"], ["id=3", "data"], ["id=4", "data"]]
    assert not {EVENT_PARAMETER, RESUME_PARAMETER} & set(answer.headers)


@http
async def test_an_event_without_an_id_has_no_such_line(binding: str) -> None:
    probe = Probe()
    probe.on_stream = yielding(Event(begun(), "41"), Event(begun()), Event(begun(), "run_1-42"))
    async with hosting(probe) as host:
        answer = await ask(host, subscription(binding))
    assert fields(answer.body) == [["id=41", "data"], ["data"], ["id=run_1-42", "data"]]


@http
async def test_a_gap_is_a_header_too(binding: str) -> None:
    async with hosting(Log(*whole(1), kept=2)) as host:
        answer = await ask(host, subscription(binding, Last_Event_ID="1"))
    assert answer.headers[RESUME_PARAMETER] == "gap"
    ((identified, _),) = fields(answer.body)
    assert identified == "id=4"
    tree = json.loads(answer.body.split(b"data: ")[1])
    task = tree.get("result", tree)["task"]
    assert task["metadata"][RESUME_URI] == {"gap": True, "after": "1", "id": "4"}


@http
async def test_an_id_that_is_none_never_reaches_the_wire(
    binding: str, caplog: pytest.LogCaptureFixture
) -> None:
    probe = Probe()
    probe.on_stream = yielding(Event(begun(), "1\ndata: forged"))
    async with hosting(probe) as host:
        answer = await ask(host, subscription(binding))
    assert answer.reason == "INTERNAL_ERROR"
    assert b"forged" not in answer.body
    assert "cannot be the id of an event" in caplog.text


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_an_asgi_application_reports_the_same(binding: str) -> None:
    app = AsgiHost(HostOptions())
    HTTP_BINDINGS[binding].mount(app, "", Log(*whole(1)), [V1_0])
    headers = {"A2A-Version": "1.0", "Last-Event-ID": "2"}
    async with browser(app) as client:
        if binding == "JSONRPC":
            body = json.loads(frame("SubscribeToTask", {"id": TASK}))
            answer = await client.post("/", json=body, headers=headers)
        else:
            answer = await client.get(f"/tasks/{TASK}:subscribe", headers=headers)
    assert fields(answer.content) == [["id=3", "data"], ["id=4", "data"]]


@asynccontextmanager
async def subscribed(service: Any, *metadata: tuple[str, str]) -> AsyncIterator[Any]:
    async with listening(service, "GRPC") as address, channel(address) as raw:
        wire = hub.SubscribeToTaskRequest(id=TASK).SerializeToString()
        yield raw.unary_stream(SUBSCRIBE)(wire, metadata=metadata)


async def test_grpc_sends_the_first_id_before_the_first_message() -> None:
    async with subscribed(Log(*whole(1)), ("last-event-id", "1")) as rpc:
        assert len(await finished(rpc)) == 3
        said = dict(await rpc.initial_metadata())
    assert said[EVENT_PARAMETER] == "2"
    assert RESUME_PARAMETER not in said


async def test_grpc_sends_a_gap_in_the_metadata() -> None:
    async with subscribed(Log(*whole(1), kept=2), ("last-event-id", "1")) as rpc:
        assert len(await finished(rpc)) == 1
        said = dict(await rpc.initial_metadata())
    assert (said[EVENT_PARAMETER], said[RESUME_PARAMETER]) == ("4", "gap")


async def test_grpc_sends_no_metadata_without_ids() -> None:
    probe = Probe()
    probe.on_stream = yielding(begun())
    async with subscribed(probe) as rpc:
        assert len(await finished(rpc)) == 1
        assert EVENT_PARAMETER not in dict(await rpc.initial_metadata())


async def test_an_error_after_ids_has_none_in_its_trailers() -> None:
    probe = Probe()
    probe.on_stream = yielding(Event(begun(), "1"), A2AError(Reason.UNAVAILABLE, retry_after=2.0))
    async with subscribed(probe) as rpc:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await finished(rpc)
    assert EVENT_PARAMETER not in dict(failed.value.trailing_metadata())


def versions(binding: str) -> list[Dialect]:
    return [one for one in (V1_0, *OLDER) if one.form(find(binding).kind) is not None]


cells = pytest.mark.parametrize(
    ("binding", "dialect"),
    [
        pytest.param(binding, dialect, id=f"{binding}-{dialect.version}")
        for binding in BINDINGS
        for dialect in versions(binding)
    ],
)


@cells
@pytest.mark.parametrize("after", ["a b", "1,2", "x" * 65])
async def test_invalid_ids_are_rejected_alike(binding: str, dialect: Dialect, after: str) -> None:
    """Sent as a constant parameter, which our client side does not check."""
    log = Log(*whole(2))
    options = DialOptions(parameters={"last-event-id": after})
    async with (
        listening(log, binding, [dialect]) as address,
        dialling(address, binding, dialect, options) as service,
    ):
        with rejected(Reason.INVALID_PARAMS, "Last-Event-ID") as caught:
            await read(service, subscribing(TASK))
    assert caught.value.message.startswith("Last-Event-ID: ")
    assert log.calls == []


@http
@pytest.mark.parametrize("after", [b"1\x0b", b"\xc3\xa9", b"1\t2", b'"1"'])
async def test_odd_bytes_are_rejected_on_http(binding: str, after: bytes) -> None:
    asked = subscription(binding).replace(b"\r\nHost", b"\r\nLast-Event-ID: " + after + b"\r\nHost", 1)
    async with hosting(Log(*whole(2))) as host:
        answer = await ask(host, asked)
    assert b"Last-Event-ID" in answer.body or answer.reason == "INVALID_REQUEST"
    assert b'"task"' not in answer.body


@http
async def test_a_further_header_is_no_way_around(binding: str) -> None:
    twice = subscription(binding, Last_Event_ID="1").replace(b"\r\n\r\n", b"\r\nLast-Event-ID: 2\r\n\r\n", 1)
    async with hosting(Log(*whole(2))) as host:
        answer = await ask(host, twice)
    assert answer.reason == "INVALID_PARAMS"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_our_client_sends_nothing_that_can_be_no_id(binding: str) -> None:
    log = Log(*whole(2))
    async with listening(log, binding) as address, dialling(address, binding) as service:
        with rejected(Reason.INVALID_PARAMS):
            await read(service, subscribing(TASK, "a\r\nb"))
    assert log.calls == []


@pytest.mark.parametrize("binding", BINDINGS)
async def test_other_calls_do_not_send_last_event_id(binding: str) -> None:
    """A gateway would otherwise forward a caller's header to agents with other numbers."""
    probe = Probe()
    probe.on_unary = answering(begun().task)
    async with listening(probe, binding) as address, dialling(address, binding) as service:
        context = subscribing(TASK, "7").context
        await service.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id=TASK), context))
    assert probe.last.context.parameters.get("last-event-id") is None


@http
async def test_a_caller_that_declares_the_extension_sees_that_it_is_active(binding: str) -> None:
    card = hub.AgentCard(capabilities=hub.AgentCapabilities(streaming=True))
    service = extensions(offer_resume(card))(Log(*whole(1)))
    async with hosting(service) as host:
        asked = subscription(binding, Last_Event_ID="1", A2A_Extensions=RESUME_URI)
        answer: Answer = await ask(host, asked)
    assert answer.headers["a2a-extensions"] == RESUME_URI
    assert [one[0] for one in fields(answer.body)] == ["id=2", "id=3", "id=4"]
