"""The compiler of tables of JSON members: when it compiles, and its functions in tracebacks."""

import linecache
from typing import Any

import aiohttp
import pytest

from a2a_bridge import interface
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.codec import DecodeError, dumps, loads
from a2a_bridge.codec.plan import Source
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params, missing_members_error
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.service import reject, reject_stream
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V0_1, V0_2_5, V0_3, V1_0, Dialect, Row
from a2a_bridge.dialects.annotation import (
    CLOSING,
    FINAL,
    SNAPSHOT,
    annotate_final,
    finality,
    read_final,
    synthesise,
    synthetic_kind,
    without_final,
)
from a2a_bridge.dialects.dialect import renaming
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.pair import compile_pair
from a2a_bridge.dialects.shape import _COMPILERS, inline, table_of, unit
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import a2a_v1
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct, Value
from a2a_bridge.testing.each import each
from a2a_bridge.testing.service_contract import invoke
from tests.sites import listening


def artifact() -> Any:
    members = Member("artifactId", always=True), Member("name"), Member("extensions")
    return inline(hub.Artifact, *members, elsewhere=("parts", "description", "metadata"))


def test_a_table_is_compiled_on_its_first_call_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_lines = Source.compile
    monkeypatch.setattr(
        Source, "compile", lambda self, title: (compiled.append(title), compile_lines(self, title))[1]
    )
    shape = artifact()
    assert not compiled
    assert shape.encode(hub.Artifact(artifact_id="a")) == {"artifactId": "a"}
    _COMPILERS[shape].compile()  # like a thread that waited for another one
    assert shape.write({"artifactId": "a"}) == "\n\1a"
    assert len(compiled) == 1


def test_a_canonical_tree_comes_back_and_wrong_members_are_named() -> None:
    shape = artifact()
    tree = {"artifactId": "é", "name": "n", "extensions": ["urn:x"]}
    assert shape.encode(shape.decode(tree)) == tree
    assert shape.decode({"artifactId": "a", "name": None, "later": 1}) == hub.Artifact(artifact_id="a")
    with pytest.raises(DecodeError, match="name: expected a string, got a number"):
        shape.decode({"artifactId": "a", "name": 1})


def test_tracebacks_show_the_lines_of_compiled_functions() -> None:
    shape = artifact()
    with pytest.raises(AttributeError) as caught:
        shape.encode(None)
    frame = caught.traceback[-1]
    line = linecache.getline(str(frame.frame.code.raw.co_filename), frame.lineno + 1)
    assert "message.artifact_id" in line


def test_generators_see_the_members_of_a_table() -> None:
    members, kind = table_of(artifact())
    assert ([one.name for one in members], kind) == (["artifactId", "name", "extensions"], "")


CANCEL = Member("id", always=True), Member("metadata")


def test_a_member_of_the_hub_without_a_place_is_rejected() -> None:
    missing = r"CancelTaskRequest has no place for tenant: .*lacks=.*elsewhere="
    with pytest.raises(TypeError, match=missing):
        unit(hub.CancelTaskRequest, *CANCEL)
    with pytest.raises(TypeError, match=missing):
        inline(hub.CancelTaskRequest, *CANCEL)
    with pytest.raises(TypeError, match=r"Message has no place for reference_task_ids: .*lacks="):
        compile_pair(v0.Message, hub.Message, rename={"content": "parts"})
    with pytest.raises(TypeError, match="has no member tenants"):
        unit(hub.CancelTaskRequest, *CANCEL, lacks=("tenant",), elsewhere=("tenants",))
    with pytest.raises(TypeError, match="cannot keep message"):
        unit(
            hub.SendMessageRequest,
            Member("metadata"),
            lacks=("message", "tenant"),
            elsewhere=("configuration",),
        )


def test_members_that_the_version_lacks_are_kept_in_the_metadata() -> None:
    shape = unit(
        hub.Artifact,
        Member("artifactId", always=True),
        Member("metadata"),
        lacks=("name", "extensions"),
        elsewhere=("parts", "description"),
    )
    assert shape.encode(hub.Artifact(artifact_id="a")) == {"artifactId": "a"}
    whole = hub.Artifact(artifact_id="a", name="é", extensions=["urn:x", "urn:y"])
    whole.metadata.update({"k": 1})
    tree = shape.encode(whole)
    assert (tree.keys(), tree["metadata"].keys()) == ({"artifactId", "metadata"}, {"k", KEY})
    assert shape.decode(tree) == whole

    forged = {"artifactId": "a", "metadata": {KEY: '{"hub":{"name":[1]}}'}}
    assert not shape.decode(forged).name


# --- The annotations of the bridge in metadata: final events, per version, and generated events ---

OLDER = [dialect for dialect in KNOWN if dialect.final_events]
FINAL_STATES = TERMINAL | {hub.TASK_STATE_INPUT_REQUIRED}


def update(state: Any = hub.TASK_STATE_WORKING) -> hub.TaskStatusUpdateEvent:
    return hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))


@each("dialect", KNOWN)
@each("state", hub.TaskState.values())
def test_the_state_decides_whether_an_event_is_final(dialect: Dialect, state: Any) -> None:
    expected = state in FINAL_STATES or (dialect.version == "0.2.5" and state == hub.TASK_STATE_UNSPECIFIED)
    assert finality(dialect)(update(state)) is expected


@each(("dialect", "binding"), [(one, kind.name) for one in OLDER for kind in one.forms])
@each("state", hub.TaskState.values())
def test_final_is_the_value_on_the_wire(dialect: Dialect, binding: str, state: Any) -> None:
    form = next(form for kind, form in dialect.forms.items() if kind.name == binding)
    row = next(row for row in form.rows if row.streaming)
    wire = row.encode_response(hub.StreamResponse(status_update=update(state)))
    if isinstance(wire, bytes):
        final = a2a_v1.StreamResponse.FromString(wire).status_update.final
    else:
        final = wire.get("statusUpdate", wire).get("final", False)
    assert finality(dialect, binding)(update(state)) is final


@each("dialect", OLDER)
@each("said", [True, False])
@each("state", [hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED])
def test_an_explicit_value_has_priority(dialect: Dialect, said: bool, state: Any) -> None:
    event = update(state)
    annotate_final(event, said)
    assert read_final(event) is said
    assert finality(dialect)(event) is said


def test_no_annotation_by_default_and_non_booleans_are_ignored() -> None:
    event = update()
    assert read_final(event) is None
    assert without_final(event) is event
    event.metadata["own"] = 1
    assert read_final(event) is None
    event.metadata[FINAL] = "yes"
    assert read_final(event) is None


@pytest.mark.parametrize("own", [{}, {"own": 1.0}])
def test_the_note_can_be_taken_off(own: dict[str, Any]) -> None:
    event = update()
    event.metadata.update(own)
    before = hub.TaskStatusUpdateEvent()
    before.CopyFrom(event)
    if not own:
        before.ClearField("metadata")
    annotate_final(event, True)
    assert without_final(event) == before
    assert read_final(event) is True  # a copy, since events have several readers


@pytest.mark.parametrize("message", [update(), hub.Task()])
@pytest.mark.parametrize("what", [CLOSING, SNAPSHOT])
def test_generated_events_are_marked(message: Any, what: str) -> None:
    made = type(message)()
    made.CopyFrom(message)
    assert synthetic_kind(made) == ""
    made.metadata["own"] = "x"
    assert synthetic_kind(made) == ""
    synthesise(made, what)
    assert (synthetic_kind(made), made.metadata["own"]) == (what, "x")


@pytest.mark.parametrize("dialect", OLDER, ids=repr)
def test_the_mark_is_ordinary_metadata_on_every_wire(dialect: Dialect) -> None:
    for form in dialect.forms.values():
        row = next(row for row in form.rows if row.streaming)
        event = update()
        annotate_final(event, True)
        synthesise(event, CLOSING)
        back = row.decode_response(row.encode_response(hub.StreamResponse(status_update=event)))
        assert synthetic_kind(back.status_update) == CLOSING
        assert read_final(back.status_update) is True


# Errors name members as the caller's version does, and as the hub does for applications, on every binding.

INLINE = "configuration.taskPushNotificationConfig"
FORMS = [(V1_0, JSONRPC), (V1_0, GRPC), (V0_1, JSONRPC)] + [
    (dialect, kind) for dialect in (V0_3, V0_2_5) for kind in (JSONRPC, HTTP_JSON, GRPC)
]
every_form = pytest.mark.parametrize(
    ("dialect", "kind"), FORMS, ids=lambda one: str(getattr(one, "version", getattr(one, "name", "")))
)
#: operation, path in the hub → paths in the shape of JSON-RPC, in a2a.v1, and in 0.1
PATHS = [
    (ops.SEND_MESSAGE, "message.parts", "message.parts", "message.content", "message.parts"),
    (
        ops.SEND_STREAMING_MESSAGE,
        "message.parts[2]",
        "message.parts[2]",
        "message.content[2]",
        "message.parts[2]",
    ),
    (
        ops.SEND_MESSAGE,
        "message.parts[0].data.city",
        "message.parts[0].data.city",
        "message.content[0].data.data.city",
        "message.parts[0].data.city",
    ),
    (
        ops.SEND_MESSAGE,
        f"{INLINE}.url",
        "configuration.pushNotificationConfig.url",
        "configuration.pushNotification.url",
        "pushNotification.url",
    ),
    (
        ops.SEND_MESSAGE,
        f"{INLINE}.authentication.scheme",
        "configuration.pushNotificationConfig.authentication.schemes",
        "configuration.pushNotification.authentication.schemes",
        "pushNotification.authentication.schemes",
    ),
    (ops.SEND_MESSAGE, "message.contextId", "message.contextId", "message.contextId", "sessionId"),
    (
        ops.CREATE_PUSH_CONFIG,
        "authentication.credentials",
        "pushNotificationConfig.authentication.credentials",
        "config.pushNotificationConfig.authentication.credentials",
        "pushNotificationConfig.authentication.credentials",
    ),
    (ops.GET_TASK, "historyLength", "historyLength", "historyLength", "historyLength"),
]


class Rejecting:
    """A service that rejects every call with one error."""

    def __init__(self, error: A2AError) -> None:
        self._error = error

    def unary(self, _: Any, /) -> Any:
        return reject(self._error)

    def stream(self, _: Any, /) -> Any:
        return reject_stream(self._error)


async def told(error: A2AError, dialect: Any, kind: Any, operation: Any) -> A2AError:
    """The error as a caller of a version receives it."""
    request = operation.request()
    if isinstance(request, hub.SendMessageRequest):
        request.message.message_id, request.message.task_id = "m", "t"
        request.message.role = hub.ROLE_USER
        request.message.parts.add(text="hi")
    elif isinstance(request, hub.TaskPushNotificationConfig):
        request.task_id, request.id, request.url = "t", "v0.1", "https://hook.example/"
    else:
        request.id = "t"
    async with listening(Rejecting(error), kind.name, [dialect], path="/") as address:
        target = interface(
            kind.name, str(address) if kind.name == "GRPC" else f"http://{address}/", version=dialect.version
        )
        async with find(kind.name).dial(target, dialect, DialOptions()) as service:
            with pytest.raises(A2AError) as caught:
                await invoke(service, operation, request)
    return caught.value


@every_form
@pytest.mark.parametrize(
    ("operation", "path", "of_kind", "of_proto", "of_0_1"), PATHS, ids=[one[1] for one in PATHS]
)
async def test_a_member_has_the_name_of_the_version_on_the_wire_only(
    dialect: Any,
    kind: Any,
    operation: Any,
    path: str,
    of_kind: str,
    of_proto: str,
    of_0_1: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = await told(invalid_params(path, "is wrong"), dialect, kind, operation)
    assert ([one.field for one in error.violations], error.message) == ([path], f"{path}: is wrong")
    monkeypatch.setattr(Row, "decode_names", lambda _, error: error)
    error = await told(invalid_params(path, "is wrong"), dialect, kind, operation)
    older = of_kind if kind is JSONRPC else of_proto
    expected = path if dialect is V1_0 else of_0_1 if dialect is V0_1 else older
    assert [one.field for one in error.violations] == [expected]
    assert error.message == f"{expected}: is wrong"


async def test_callers_of_http_json_in_the_shape_of_json_rpc_get_its_names() -> None:
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": []}
    error = missing_members_error(["message.parts", f"{INLINE}.url"])
    async with (
        listening(Rejecting(error), "HTTP+JSON", [V0_3], path="/") as address,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://{address}/v1/message:send"
        async with session.post(url, json={"message": message}) as answer:
            body = await answer.json()
    assert body["message"] == "message.parts, configuration.pushNotificationConfig.url: required"


def test_an_error_that_several_callers_get_is_not_changed() -> None:
    error = missing_members_error(["message.messageId", "message.parts"])
    renamed = renaming((r"^message\.parts\b", "message.content"))(error)
    assert renamed.message == "message.messageId, message.content: required"
    assert [one.field for one in renamed.violations] == ["message.messageId", "message.content"]
    assert error.message == "message.messageId, message.parts: required"
    assert renaming(("^x$", "y"))(error) is error


# --- Values that peers write in their own way: null without a kind (Java), whole numbers with a fraction ---
def kindless() -> Struct:
    struct = Struct()
    struct.fields["a"].SetInParent()
    struct.fields["b"].list_value.values.add()
    struct.fields["b"].list_value.values.add().struct_value.fields["c"].SetInParent()
    struct.fields["d"].number_value = 1
    return struct


FILLED = {"a": None, "b": [None, {"c": None}], "d": 1}


def filled() -> Struct:
    struct = Struct()
    struct.update(FILLED)
    return struct


def _row(version: Any, kind: Any, operation: Any) -> Any:
    return version.form(kind).row(operation)


def test_null_without_a_kind_is_null_in_1_0() -> None:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, metadata=kindless())
    message.parts.add().data.SetInParent()
    message.parts.add().data.struct_value.CopyFrom(kindless())
    request = _row(V1_0, GRPC, ops.SEND_MESSAGE).decode_request(
        hub.SendMessageRequest(message=message, metadata=kindless()).SerializeToString()
    )
    answer = _row(V1_0, GRPC, ops.SEND_MESSAGE).decode_response(
        hub.SendMessageResponse(message=message).SerializeToString()
    )
    assert request.metadata == filled()
    for read in (request.message, answer.message):
        assert read.metadata == read.parts[1].data.struct_value == filled()
        assert read.parts[0].data == Value(null_value=0)


@pytest.mark.parametrize("odd", [False, True])
def test_null_without_a_kind_is_null_in_0_3(odd: bool) -> None:
    task = v0.Task(id="t", context_id="c", metadata=kindless())
    task.status.state = v0.TASK_STATE_WORKING
    task.artifacts.add(artifact_id="a").parts.add().data.data.CopyFrom(kindless())
    wire = task.SerializeToString() + (b"\xa0\x06\x01" if odd else b"")
    read = _row(V0_3, GRPC, ops.GET_TASK).decode_response(wire)
    assert read.metadata.fields["a"] == Value(null_value=0)
    assert read.metadata.fields["b"] == filled().fields["b"]
    assert read.artifacts[0].parts[0].data.struct_value == filled()


@each("kind", [JSONRPC, HTTP_JSON])
@each(
    ("encoded", "written"),
    [
        ("1.0", "1"),
        ("1E2", "100"),
        ("9007199254740992.0", "9007199254740992"),
        ("1.8446744073709550e19", "18446744073709549568"),
    ],
)
def test_whole_numbers_leave_nothing_beside_the_answer_and_are_written_as_such(
    kind: Any, encoded: str, written: str
) -> None:
    state = '"TASK_STATE_COMPLETED"' if kind is HTTP_JSON else '"completed"'
    tag = "" if kind is HTTP_JSON else '"kind":"task",'
    text = f'{{{tag}"id":"t","contextId":"c","status":{{"state":{state}}},"metadata":{{"n":{encoded}}}}}'
    task = _row(V0_3, kind, ops.GET_TASK).decode_response(loads(text.encode()))
    assert list(task.metadata.fields) == ["n"]
    for version in (V1_0, V0_3):
        assert f'"metadata":{{"n":{written}}}'.encode() in dumps(
            _row(version, kind, ops.GET_TASK).encode_response(task)
        )


# --- A response that holds none of the members it must hold one of is rejected, on every binding ---
@each("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK])
@each(
    ("kind", "wire"),
    [
        (JSONRPC, {}),
        (JSONRPC, {"unknown": {"id": "t"}}),
        (HTTP_JSON, {}),
        (HTTP_JSON, {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (GRPC, b""),
        (GRPC, b"\xa2\x06\x01x"),
    ],
)
def test_an_empty_response_blames_the_peer(operation: Any, kind: Any, wire: Any) -> None:
    form: Any = V1_0.form(kind)
    with pytest.raises(A2AError) as caught:
        form.row(operation).decode_response(wire)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


@pytest.mark.parametrize("kind", [JSONRPC, HTTP_JSON, GRPC])
def test_a_response_with_a_member_passes(kind: Any) -> None:
    form: Any = V1_0.form(kind)
    row = form.row(ops.SEND_MESSAGE)
    response = hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    assert row.decode_response(row.encode_response(response)) == response


@pytest.mark.parametrize("kind", [JSONRPC, HTTP_JSON, GRPC])
def test_an_empty_page_of_tasks_is_a_response(kind: Any) -> None:
    form: Any = V1_0.form(kind)
    row = form.row(ops.LIST_TASKS)
    assert row.decode_response(row.encode_response(hub.ListTasksResponse())) == hub.ListTasksResponse()
