"""The ids of events on each wire, and answers about resuming from services without ids."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, find
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import EVENT_PARAMETER, RESUME_PARAMETER, Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI, offer_resume
from a2a_bridge.core.service import Event
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.middleware.validate import extensions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge_transports._http.asgi import AsgiHost
from tests.rejections import rejected
from tests.resume.scene import BINDINGS, OLDER, dialling, read, subscribing
from tests.resume.scripted import TASK, Log, begun, whole
from tests.sites import listening
from tests.transports.grpc_scene import channel, finished
from tests.transports.http_scene import BINDINGS as HTTP_BINDINGS
from tests.transports.http_scene import Answer, ask, frame, hosting, request
from tests.transports.test_http_asgi import browser

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
