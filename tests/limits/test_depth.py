"""The deepest content comes back over every binding and version; deeper is rejected alike."""

import math
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from a2a_bridge import A2AError, Agent, Reason, Run, connect, interface, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import Server, serve_gateway
from a2a_bridge.cards import Candidate
from a2a_bridge.codec import decoder, encoder, structs
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import LEFT_OUT_PARAMETER, CallContext
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_3, V1_0, by_version
from a2a_bridge.dialects.responses import decode_list, encode_list
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct, Timestamp, Value
from tests.limits.scene import BINDINGS

VERSIONS = ("1.0", "0.3")
_struct, _value, _ = structs.writers(structs.exactly)


def deep(levels: int) -> Struct:
    """A Struct of so many objects within each other, one of which is an artifact's or a message's metadata."""
    tree: Any = 1
    for _ in range(levels):
        tree = {"a": tree}
    made = Struct()
    made.ParseFromString(_struct(tree, 1000).encode("latin-1"))
    return made


def arrays(levels: int) -> Value:
    """So many arrays within each other, which versions with objects only put into one."""
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    made = Value()
    made.ParseFromString(_value(tree, 1000).encode("latin-1"))
    return made


class Keeper:
    """Returns the metadata of the message; "nan": what JSON cannot say; "deep": what is too deep."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        artifact = run.artifact("x", artifact_id="a")
        artifact.artifact.metadata.CopyFrom(run.message.metadata)
        artifact.artifact.parts.extend(run.message.parts[1:])
        if run.text == "nan":
            artifact.artifact.metadata["n"] = math.nan
        if run.text == "deep":
            artifact.artifact.metadata.CopyFrom(deep(31))
        yield artifact
        yield run.status("completed")


KEEPER = Agent(Keeper(), name="Keeper")
EVERYTHING = [interface(kind, version=version) for kind in BINDINGS for version in VERSIONS]


async def callers(stack: AsyncExitStack, server: Server) -> dict[str, Peer]:
    return {
        f"{version} {kind}": await stack.enter_async_context(
            connect(f"http://{server.http}", binding=kind, version=version)
        )
        for version in VERSIONS
        for kind in BINDINGS
    }


def asking(text: str, metadata: Struct | None = None) -> hub.SendMessageRequest:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    if metadata is not None:
        message.metadata.CopyFrom(metadata)
        message.parts.add().data.struct_value.CopyFrom(metadata)
        message.parts.add().data.CopyFrom(arrays(43))
    return hub.SendMessageRequest(message=message)


LISTED = hub.ListTasksRequest(include_artifacts=True)


@pytest.mark.parametrize("upstreams", ["", "1.0 JSONRPC", "1.0 GRPC, 1.0 HTTP+JSON", "0.3 GRPC, 1.0 GRPC"])
async def test_accepted_depth_can_be_encoded_on_every_binding(upstreams: str) -> None:
    given = asking("", deep(30)).message
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(KEEPER, EVERYTHING))
        for version, kind in (name.split() for name in upstreams.split(", ") if name):
            url = str(server.grpc) if kind == "GRPC" else f"http://{server.http}"
            dialect = by_version(version)
            assert dialect is not None
            candidate = Candidate(interface(kind, url), dialect)
            server = await stack.enter_async_context(serve_gateway(server.card, [candidate], EVERYTHING))
        peers = await callers(stack, server)
        ids = {
            (await peer.send_message(asking(name, deep(30)))).task.id: name for name, peer in peers.items()
        }
        for name, peer in peers.items():
            told = [await peer.get_task(hub.GetTaskRequest(id=one)) for one in ids]
            if name.startswith("1.0") and not upstreams.startswith("0.3"):
                context = CallContext()
                listed = await peer.list_tasks(LISTED, context)
                assert LEFT_OUT_PARAMETER not in context.reply
                assert {one.id for one in listed.tasks} == set(ids)
                told += listed.tasks
            for task in told:
                assert task.history[0].metadata == task.artifacts[0].metadata == given.metadata, name
                assert task.history[0].parts[1:] == task.artifacts[0].parts[1:] == given.parts[1:], name


@pytest.mark.parametrize("content", [{"metadata": deep(31)}, {"metadata": deep(33)}, {"data": arrays(44)}])
async def test_deeper_nesting_is_rejected_alike(content: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(KEEPER, EVERYTHING))
        for name, peer in (await callers(stack, server)).items():
            request = asking(name)
            if "data" in content:
                request.message.parts.add(**content)
            else:
                request.message.MergeFrom(hub.Message(**content))
            with pytest.raises(A2AError, match="nested too deeply") as caught:
                await peer.send_message(request)
            assert caught.value.reason is Reason.INVALID_PARAMS, name
            assert next(iter(content)) in caught.value.message, name
        assert not (await (await callers(stack, server))["1.0 GRPC"].list_tasks(LISTED)).tasks


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_numbers_that_json_cannot_express_are_rejected_alike(number: float) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(KEEPER, EVERYTHING))
        for name, peer in (await callers(stack, server)).items():
            for place in ("metadata", "data"):
                request = asking(name)
                free = request.message.metadata
                if place == "data":
                    free = request.message.parts.add().data.struct_value
                free["inner"] = {"n": [1.5, number]}
                with pytest.raises(A2AError, match="which JSON cannot say") as caught:
                    await peer.send_message(request)
                assert caught.value.reason is Reason.INVALID_PARAMS, name
                assert place in caught.value.violations[0].field, name
        assert not (await (await callers(stack, server))["1.0 GRPC"].list_tasks(LISTED)).tasks


@pytest.mark.parametrize("time", [Timestamp(seconds=10**12), Timestamp(nanos=-1)])
async def test_times_that_json_cannot_express_are_rejected_alike(time: Timestamp) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(KEEPER, EVERYTHING))
        for kind in BINDINGS:
            peer = (await callers(stack, server))[f"1.0 {kind}"]
            with pytest.raises(A2AError, match="is a date") as caught:
                await peer.list_tasks(hub.ListTasksRequest(status_timestamp_after=time))
            assert caught.value.reason is Reason.INVALID_PARAMS, kind
            assert caught.value.violations[0].field == "statusTimestampAfter", kind


async def test_bytes_of_other_content_are_no_numbers() -> None:
    """A file and a text with the bytes of an infinite number_value."""
    raw_bytes = b"\x11" + struct.pack("<d", math.inf)
    async with serve(KEEPER, EVERYTHING) as server, connect(f"http://{server.http}", binding="GRPC") as peer:
        request = asking("x")
        request.message.parts.add(raw=raw_bytes, filename="\x11infini\u007f")
        answer = await peer.send_message(request)
    assert answer.task.artifacts[0].parts[1].raw == raw_bytes


async def test_an_agent_that_yields_too_deep_content_fails_its_task() -> None:
    async with serve(KEEPER, [interface("GRPC")]) as server, connect(f"grpc://{server.grpc}") as peer:
        task = (await peer.send("deep")).task
        assert task is not None
        assert task.status.state == hub.TASK_STATE_FAILED
        assert not task.artifacts


@pytest.mark.parametrize("gateway", [False, True])
async def test_a_task_that_cannot_be_encoded_is_left_out_of_lists(
    gateway: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(KEEPER, EVERYTHING))
        if gateway:
            candidate = Candidate(interface("GRPC", str(server.grpc)), V1_0)
            server = await stack.enter_async_context(serve_gateway(server.card, [candidate], EVERYTHING))
        peers = await callers(stack, server)
        ids = [(await peers["1.0 GRPC"].send_message(asking(text))).task.id for text in ("one", "nan", "two")]
        listed = await peers["1.0 GRPC"].list_tasks(LISTED)
        assert {task.id for task in listed.tasks} == set(ids)  # protobuf can say it
        for kind in ("JSONRPC", "HTTP+JSON"):
            context = CallContext()
            listed = await peers[f"1.0 {kind}"].list_tasks(LISTED, context)
            assert {task.id for task in listed.tasks} == {ids[0], ids[2]}
            assert (listed.page_size, listed.total_size) == (2, 3)
            assert context.reply[LEFT_OUT_PARAMETER] == "1"
            with pytest.raises(A2AError, match="not a number"):
                await peers[f"1.0 {kind}"].get_task(hub.GetTaskRequest(id=ids[1]))
        assert ids[1] in caplog.text


def task(number: int) -> hub.Task:
    return hub.Task(id=f"t{number}", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))


@pytest.mark.parametrize(
    ("kind", "version"), [(JSONRPC, V1_0), (HTTP_JSON, V1_0), (HTTP_JSON, V0_3), (GRPC, V1_0)]
)
def test_a_task_that_cannot_be_read_is_left_out_of_an_agents_list(kind: Any, version: Any) -> None:
    row = version.form(kind).row(ops.LIST_TASKS)
    response = hub.ListTasksResponse(tasks=[task(1), task(2), task(3)], page_size=3, total_size=3)
    if kind is GRPC:
        response.tasks[1].metadata.CopyFrom(deep(32))
        wire: Any = response.SerializeToString()
    else:
        wire = row.encode_response(response)
        tasks = wire if type(wire) is list else wire["tasks"]
        tasks[1]["status"]["state"] = "later"
    with pytest.raises(A2AError):
        row.decode_response(wire)
    found, left_out = decode_list(row, wire)
    assert [one.id for one in found.tasks] == ["t1", "t3"]
    assert left_out == 1
    assert (found.page_size, found.total_size) == (2, 3)


def test_bytes_that_protobuf_does_not_read_spoil_one_task_only() -> None:
    row: Any = V1_0.form(GRPC)
    row = row.row(ops.LIST_TASKS)
    good = hub.ListTasksResponse(tasks=[task(1)], total_size=2).SerializeToString()
    found, left_out = decode_list(row, good + b"\n\x02\xff\xff" + good)
    assert ([one.id for one in found.tasks], left_out, found.total_size) == (["t1", "t1"], 1, 2)


def test_a_list_that_can_be_encoded_is_encoded_once() -> None:
    row: Any = V1_0.form(JSONRPC)
    response = hub.ListTasksResponse(tasks=[task(1)], total_size=1)
    wire, left_out = encode_list(row.row(ops.LIST_TASKS), response)
    assert wire == encoder(hub.ListTasksResponse)(response)
    assert left_out == []
    assert decoder(hub.ListTasksResponse)(wire) == response
