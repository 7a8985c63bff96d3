"""Constructors of hub messages and questions to them."""

import inspect
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator
from dataclasses import fields, replace
from enum import IntEnum, StrEnum
from typing import Any, cast, get_type_hints

import pytest

from a2a_bridge.app.peer import Peer
from a2a_bridge.codec import DecodeError, decoder, encoder
from a2a_bridge.codec.unknown import bytes_of
from a2a_bridge.core import messages
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import Call, CallContext, Joined
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    GrpcStatus,
    Reason,
    ReasonFacts,
    Violation,
    internal_error,
    invalid_params,
    task_not_found,
)
from a2a_bridge.core.messages import (
    context_id_of,
    data_part,
    is_interrupted,
    is_terminal,
    message,
    part_of,
    payload_of,
    raw_part,
    read_task_id,
    shortened,
    task_id_of,
    text_of,
    text_part,
    timestamp,
)
from a2a_bridge.core.service import Event, Events
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent
from tests.rejections import rejected


@each(
    ("given", "which"),
    [
        ("x", "text"),
        ("", "text"),
        (b"x", "raw"),
        (b"", "raw"),
        (bytearray(b"x"), "raw"),
        (memoryview(b"x"), "raw"),
        ({}, "data"),
        ([], "data"),
        (0, "data"),
        (None, "data"),
        (False, "data"),
    ],
)
def test_anything_makes_a_part(given: Any, which: str) -> None:
    assert part_of(given).WhichOneof("content") == which


def test_a_part_stays_a_part() -> None:
    part = hub.Part(url="https://e.example/")
    assert part_of(part) is part


def test_parts_with_more() -> None:
    assert text_part("x", media_type="text/markdown").media_type == "text/markdown"
    part = raw_part(b"x", filename="x.bin", media_type="image/png")
    assert (part.raw, part.filename, part.media_type) == (b"x", "x.bin", "image/png")
    assert data_part({"n": 7}, metadata={"a": 1}).metadata["a"] == 1
    assert data_part({"n": 7}).data.struct_value["n"] == 7


class _Colour(StrEnum):
    RED = "red"


class _Size(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (OrderedDict(n=1), {"n": 1}),
        (defaultdict(list, {"n": [1]}), {"n": [1]}),
        ({"n": (1, {"m": ()})}, {"n": [1, {"m": []}]}),
        ((1, "x"), [1, "x"]),
        ({"n": _Colour.RED, "m": _Size.ONE}, {"n": "red", "m": 1}),
        ({"n": Joined(["a", "b"])}, {"n": "a,b"}),
        ({1: "x", None: 2}, {"1": "x", "null": 2}),
    ],
)
def test_what_the_encoder_of_python_accepts_is_json(given: Any, plain: Any) -> None:
    assert data_part(given) == data_part(plain)


_CIRCLE: list[Any] = []
_CIRCLE.append(_CIRCLE)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (object(), ""),
        ({"n": (1, {2})}, "n"),
        ({"n": _Colour.RED, "m": float("nan")}, "m"),
        ({1: object()}, ""),
        ({b"n": 1}, ""),
        ({"n": {b"m": 1}}, ""),
        (_CIRCLE, None),
    ],
)
def test_values_that_are_not_json_make_no_part(given: Any, path: str | None) -> None:
    with pytest.raises(DecodeError) as raised:
        data_part(given)
    assert path is None or raised.value.path == path


def test_a_message() -> None:
    made = message(
        hub.ROLE_AGENT, [text_part("x")], message_id="m", context_id="c", task_id="t", metadata={"n": 7}
    )
    assert (made.role, made.message_id, made.context_id, made.task_id) == (hub.ROLE_AGENT, "m", "c", "t")
    assert made.metadata["n"] == 7
    assert not message(hub.ROLE_USER, [], message_id="m").HasField("metadata")


def test_the_text_of_things() -> None:
    parts = [text_part("a"), raw_part(b"x"), text_part("b")]
    task = hub.Task(status=hub.TaskStatus(message=hub.Message(parts=[text_part("status")])))
    assert text_of(parts) == text_of(hub.Message(parts=parts)) == text_of(hub.Artifact(parts=parts)) == "ab"
    assert text_of(task) == "status"
    task.artifacts.add(parts=parts)
    task.artifacts.add(parts=[text_part("c")])
    assert text_of(task) == "abc"
    assert text_of(hub.Task()) == ""


def test_a_shortened_task_keeps_what_is_not_known_of_it() -> None:
    """A field of protobuf, a member of JSON, and those within its messages."""
    tree = {
        "id": "t",
        "contextId": "c",
        "history": [{"messageId": name, "role": "ROLE_USER", "parts": []} for name in "ab"],
    }
    task = decoder(hub.Task, keeps=True)(
        {**tree, "status": {"state": "TASK_STATE_WORKING", "mood": 1}, "colour": {"x": 1}}
    )
    field = b"\x82\x7d\x01z"
    task.MergeFromString(field)
    for limit in (0, 1, 2):
        made = shortened(task, limit)
        assert len(made.history) == limit
        found = encoder(hub.Task, keeps=True)(made)
        assert (found["colour"], found["status"]["mood"]) == ({"x": 1}, 1)
        assert bytes_of(made) == field


@pytest.mark.parametrize("nanoseconds", [0, 1, 1_700_000_000_123_456_789, -1])
def test_timestamps_are_exact(nanoseconds: int) -> None:
    made = timestamp(nanoseconds)
    assert made.ToNanoseconds() == nanoseconds
    assert 0 <= made.nanos < 10**9


def test_states_have_a_kind() -> None:
    names = {name: (is_terminal(number), is_interrupted(number)) for name, number in hub.TaskState.items()}
    assert names == {
        "TASK_STATE_UNSPECIFIED": (False, False),
        "TASK_STATE_SUBMITTED": (False, False),
        "TASK_STATE_WORKING": (False, False),
        "TASK_STATE_COMPLETED": (True, False),
        "TASK_STATE_FAILED": (True, False),
        "TASK_STATE_CANCELED": (True, False),
        "TASK_STATE_REJECTED": (True, False),
        "TASK_STATE_INPUT_REQUIRED": (False, True),
        "TASK_STATE_AUTH_REQUIRED": (False, True),
    }
    assert {hub.TASK_STATE_SUBMITTED, hub.TASK_STATE_WORKING} == messages.RUNNING


@each(
    ("response", "task_id"),
    [
        (hub.SendMessageResponse(task=hub.Task(id="t")), "t"),
        (hub.SendMessageResponse(message=hub.Message(task_id="")), ""),
        (hub.SendMessageResponse(), ""),
        (hub.StreamResponse(task=hub.Task(id="t")), "t"),
        (hub.StreamResponse(message=hub.Message(task_id="t")), "t"),
        (hub.StreamResponse(status_update=hub.TaskStatusUpdateEvent(task_id="t")), "t"),
        (hub.StreamResponse(artifact_update=hub.TaskArtifactUpdateEvent(task_id="t")), "t"),
        (hub.StreamResponse(), ""),
    ],
)
def test_responses_have_a_task_id_and_a_kind(response: Any, task_id: str) -> None:
    assert task_id_of(response) == task_id
    which = response.WhichOneof("payload")
    assert payload_of(response) == (None if which is None else getattr(response, which))
    assert context_id_of(response) == ""


def test_a_task_is_its_own_payload_and_other_responses_have_none() -> None:
    task = hub.Task(id="t", context_id="c")
    assert (payload_of(task), task_id_of(task), context_id_of(task)) == (task, "t", "c")
    config = hub.TaskPushNotificationConfig(task_id="t")
    assert (payload_of(config), task_id_of(config), context_id_of(config)) == (None, "", "")


@pytest.mark.parametrize(
    ("request_", "task_id"),
    [
        (hub.SendMessageRequest(message=hub.Message(task_id="t")), "t"),
        (hub.GetTaskRequest(id="t"), "t"),
        (hub.CancelTaskRequest(id="t"), "t"),
        (hub.SubscribeToTaskRequest(id="t"), "t"),
        (hub.GetTaskPushNotificationConfigRequest(task_id="t", id="c"), "t"),
        (hub.ListTasksRequest(context_id="c"), ""),
    ],
)
def test_requests_name_a_task(request_: Any, task_id: str) -> None:
    assert read_task_id(request_) == task_id


# --- The eleven operations are those of the descriptor, and the two faces of a service have all of them ---

RPCS = hub.DESCRIPTOR.services_by_name["A2AService"].methods
NAMES = [operation.name for operation in ops.ALL]


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def methods(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_all_are_the_rpcs_in_their_order() -> None:
    assert [rpc.name for rpc in RPCS] == NAMES
    assert len(NAMES) == len(set(NAMES)) == 11


@each(("operation", "rpc"), list(zip(ops.ALL, RPCS, strict=True)))
def test_each_has_the_messages_and_the_manner_of_its_rpc(
    operation: ops.Operation[Any, Any], rpc: Any
) -> None:
    assert operation.request.DESCRIPTOR is rpc.input_type
    assert operation.response.DESCRIPTOR is rpc.output_type
    assert isinstance(operation, ops.Streaming if rpc.server_streaming else ops.Unary)
    assert operation.name in repr(operation)


def test_operations_are_values_with_an_identity() -> None:
    twin = replace(ops.GET_TASK)
    assert twin != ops.GET_TASK
    assert {ops.GET_TASK: 1}.get(twin) is None


METHODS = [one.method for one in ops.ALL]


def test_every_operation_has_its_method_everywhere() -> None:
    assert [snake(name) for name in NAMES] == METHODS
    assert methods(Client) == set(METHODS)


@each("operation", ops.ALL)
def test_methods_have_the_types_of_their_operation(operation: ops.Operation[Any, Any]) -> None:
    method = getattr(Engine(EchoAgent()), operation.method)
    request, context, given = get_type_hints(method).values()
    assert request is operation.request
    assert context is CallContext
    if isinstance(operation, ops.Streaming):
        assert operation.response is hub.StreamResponse
        assert given == Events
        assert not inspect.iscoroutinefunction(method)
    else:
        assert given is operation.response
        assert inspect.iscoroutinefunction(method)


def test_the_engine_is_a_service_of_all_of_them() -> None:
    engine = Engine(EchoAgent())
    assert all(callable(getattr(engine, name)) for name in METHODS)


def test_every_operation_of_the_clients_says_what_it_does() -> None:
    for cls in (Client, Peer):
        own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
        assert [name for name, value in own.items() if not value.__doc__] == []
    assert vars(Client).keys() >= set(METHODS)


class Recorder:
    """An agent that has every method and tells which one was called."""

    def __getattr__(self, name: str) -> Any:
        def streaming(request: Any, context: CallContext) -> Any:
            async def events() -> AsyncGenerator[Any, None]:
                yield Event(cast("Any", (name, request, context)))

            return events()

        async def unary(request: Any, context: CallContext) -> Any:
            return name, request, context

        stream = name in ("send_streaming_message", "subscribe_to_task")
        return streaming if stream else unary


@each("operation", ops.ALL)
@each("given", [True, False])
async def test_two_and_eleven_methods_are_one(operation: ops.Operation[Any, Any], given: bool) -> None:
    client = Client(service_of(Recorder()))
    request, context = operation.request(), CallContext(tenant="t")
    answer = getattr(client, operation.method)(request, *([context] if given else []))
    name, seen, preserved = await (anext(answer) if isinstance(operation, ops.Streaming) else answer)
    assert (name, seen) == (operation.method, request)
    assert preserved is context if given else preserved.tenant == ""


async def test_the_extended_card_may_be_asked_for_without_a_request() -> None:
    name, request, _ = await Client(service_of(Recorder())).get_extended_agent_card()
    assert (name, request) == ("get_extended_agent_card", hub.GetExtendedAgentCardRequest())


async def test_an_operation_of_a_later_version_is_unsupported() -> None:
    unknown = replace(ops.GET_TASK, name="Teleport")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await service_of(Recorder()).unary(Call(unknown, hub.GetTaskRequest(), CallContext()))


class OnlyTasks:
    async def get_task(self, request: hub.GetTaskRequest, _: CallContext, /) -> hub.Task:
        return hub.Task(id=request.id)


class Bare:
    """It has no method."""


@each("agent", [OnlyTasks, Bare])
@each("operation", [one for one in ops.ALL if one is not ops.GET_TASK])
async def test_an_operation_that_the_agent_lacks_is_unsupported(
    operation: ops.Operation[Any, Any], agent: Any
) -> None:
    service = service_of(agent())
    call: Call[Any, Any] = Call(operation, operation.request(), CallContext())
    answer = anext(service.stream(call)) if isinstance(operation, ops.Streaming) else service.unary(call)
    with rejected(Reason.UNSUPPORTED_OPERATION) as caught:
        await answer
    assert caught.value.metadata == {"operation": operation.name}
    if agent is OnlyTasks:
        assert (await Client(service).get_task(hub.GetTaskRequest(id="t"))).id == "t"


# --- The table of reasons, pinned number by number, and the content of an error ---

#: the specification's table, 1.0.1 section 5.4, the error of the draft of 1.1, and the JSON-RPC errors: reason, JSON-RPC, gRPC, HTTP
SPECIFIED = """
TASK_NOT_FOUND                      -32001  NOT_FOUND            404
TASK_NOT_CANCELABLE                 -32002  FAILED_PRECONDITION  400
PUSH_NOTIFICATION_NOT_SUPPORTED     -32003  FAILED_PRECONDITION  400
UNSUPPORTED_OPERATION               -32004  FAILED_PRECONDITION  400
CONTENT_TYPE_NOT_SUPPORTED          -32005  INVALID_ARGUMENT     400
INVALID_AGENT_RESPONSE              -32006  INTERNAL             500
EXTENDED_AGENT_CARD_NOT_CONFIGURED  -32007  FAILED_PRECONDITION  400
EXTENSION_SUPPORT_REQUIRED          -32008  FAILED_PRECONDITION  400
VERSION_NOT_SUPPORTED               -32009  FAILED_PRECONDITION  400
TASK_GENERATION_MISMATCH            -32010  ABORTED              409
PARSE_ERROR                         -32700  INVALID_ARGUMENT     400
INVALID_REQUEST                     -32600  INVALID_ARGUMENT     400
METHOD_NOT_FOUND                    -32601  UNIMPLEMENTED        404
INVALID_PARAMS                      -32602  INVALID_ARGUMENT     400
INTERNAL_ERROR                      -32603  INTERNAL             500
"""

#: reasons of intermediaries; the specification leaves the JSON-RPC number free
HTTP_LEVEL = """
REQUEST_TOO_LARGE   -32600  RESOURCE_EXHAUSTED  413
RESOURCE_EXHAUSTED  -32603  RESOURCE_EXHAUSTED  429
UNAUTHENTICATED     -32603  UNAUTHENTICATED     401
PERMISSION_DENIED   -32603  PERMISSION_DENIED   403
DEADLINE_EXCEEDED   -32603  DEADLINE_EXCEEDED   504
CANCELLED           -32603  CANCELLED           499
UNAVAILABLE         -32603  UNAVAILABLE         503
DATA_LOSS           -32603  DATA_LOSS           500
"""


def table(text: str) -> list[tuple[str, int, str, int]]:
    rows = [line.split() for line in text.strip().splitlines()]
    return [(name, int(code), grpc, int(http)) for name, code, grpc, http in rows]


@each(("name", "code", "grpc", "http"), table(SPECIFIED) + table(HTTP_LEVEL))
def test_each_reason_has_its_three_numbers(name: str, code: int, grpc: str, http: int) -> None:
    reason = Reason[name]
    assert (reason.code, reason.grpc.name, reason.http) == (code, grpc, http)
    assert reason.text


def test_no_reason_is_missing_or_too_many() -> None:
    assert [row[0] for row in table(SPECIFIED) + table(HTTP_LEVEL)] == [reason.name for reason in Reason]
    late = {"DEADLINE_EXCEEDED", "CANCELLED", "UNAVAILABLE", "DATA_LOSS"}
    assert {reason.name for reason in Reason if reason.level == "http"} == {
        row[0] for row in table(HTTP_LEVEL)
    } - late
    assert {reason.name for reason in Reason if reason.level == "call"} == late


@each("fact", [one.name for one in fields(ReasonFacts)])
def test_a_reason_without_a_fact_is_an_error_that_names_it(fact: str) -> None:
    facts = vars(Reason.UNAVAILABLE.value)
    with pytest.raises(TypeError, match=fact):
        ReasonFacts(**{name: value for name, value in facts.items() if name != fact})


@each("fact", ["method", "reads", "about_task", "group"])
def test_an_operation_without_a_fact_is_an_error_that_names_it(fact: str) -> None:
    facts = {name: getattr(ops.GET_TASK, name) for name in ("method", "reads", "about_task", "group")}
    with pytest.raises(TypeError, match=fact):
        ops.Unary(
            "GetTask", hub.GetTaskRequest, hub.Task, **{name: facts[name] for name in facts if name != fact}
        )


def test_texts_tell_the_protocols_errors_apart() -> None:
    texts = [reason.text.lower() for reason in Reason if reason.level == "a2a"]
    assert all(one not in other for one in texts for other in texts if one is not other)


def test_grpc_statuses_are_the_canonical_ones() -> None:
    assert [status.value for status in GrpcStatus] == list(range(17))
    assert (GrpcStatus.NOT_FOUND, GrpcStatus.UNAUTHENTICATED) == (5, 16)


def test_an_error_has_defaults_from_its_reason() -> None:
    error = A2AError(Reason.TASK_NOT_FOUND)
    assert (error.message, error.code, error.name, error.blame) == (
        "Task not found",
        -32001,
        "TASK_NOT_FOUND",
        Blame.CALLER,
    )
    assert (error.violations, error.metadata, error.details, error.retry_after) == ((), {}, (), None)
    assert str(error) == "Task not found"
    assert "TASK_NOT_FOUND" in repr(error)


def test_an_error_keeps_the_details_of_a_peer() -> None:
    error = A2AError(Reason.INTERNAL_ERROR, "x", code=-32050, name="A2A_32050", blame=Blame.PEER)
    assert (error.code, error.name, error.message) == (-32050, "A2A_32050", "x")


def test_an_error_copies_its_arguments() -> None:
    metadata = {"a": "b"}
    error = A2AError(Reason.INTERNAL_ERROR, metadata=metadata)
    metadata["c"] = "d"
    assert error.metadata == {"a": "b"}


def test_short_ways_to_make_errors() -> None:
    wrong = invalid_params("message.parts[0].text", "is too long")
    assert (wrong.reason, wrong.violations) == (
        Reason.INVALID_PARAMS,
        (Violation("message.parts[0].text", "is too long"),),
    )
    assert "message.parts[0].text" in wrong.message
    assert invalid_params("", "whole").message == "whole"
    assert task_not_found("t").metadata == {"taskId": "t"}
    assert (internal_error().reason, internal_error().blame) == (Reason.INTERNAL_ERROR, Blame.SELF)
