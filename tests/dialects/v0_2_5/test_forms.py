"""0.2.5 over its bindings: names of the proto, errors, and the properties of the dialect."""

from typing import Any

from a2a_bridge import A2AError, Reason, codec
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import annotation, unmapped, v0_3
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC
from a2a_bridge.dialects.v0_2_5 import DIALECT, forms
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from a2a_bridge.testing.each import each

NEWER = v0_3.DIALECT
SAID = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hi")])
TASK = hub.Task(
    id="t",
    context_id="c",
    status=hub.TaskStatus(state=hub.TASK_STATE_WORKING, message=SAID),
    history=[SAID],
)
UPDATE = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=TASK.status)

ANSWERS: list[tuple[Any, Any, str]] = [
    (ops.SEND_MESSAGE, hub.SendMessageResponse(message=SAID), "msg"),
    (ops.SEND_MESSAGE, hub.SendMessageResponse(task=TASK), "task.status.update"),
    (ops.SEND_STREAMING_MESSAGE, hub.StreamResponse(message=SAID), "msg"),
    (ops.SEND_STREAMING_MESSAGE, hub.StreamResponse(status_update=UPDATE), "statusUpdate.status.update"),
    (ops.SUBSCRIBE_TO_TASK, hub.StreamResponse(task=TASK), "task.status.update"),
    (ops.GET_TASK, TASK, "status.update"),
    (ops.CANCEL_TASK, TASK, "status.update"),
]


def at(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree[name]
    return tree


@each("form", [forms.HTTP_JSON_FORM, *(newer[HTTP_JSON] for newer in forms.BY_FILES.values())])
@each(("operation", "message", "path"), ANSWERS)
def test_answers_have_the_names_of_0_2_5(form: Any, operation: Any, message: Any, path: str) -> None:
    row = form.row(operation)
    tree = row.encode_response(message)
    newer = NEWER.form(HTTP_JSON).row(operation)
    parent, _, name = path.rpartition(".")
    inside = at(tree, parent) if parent else tree
    assert name in inside
    assert "message" not in inside
    assert row.decode_response(tree) == message
    assert unmapped.strip_copy(newer.decode_response(tree)) == message
    usual = newer.encode_response(message)
    assert usual != tree
    assert unmapped.strip_copy(row.decode_response(usual)) == message
    assert row.encode_response(row.decode_response(usual)) == tree
    assert newer.encode_response(row.decode_response(tree)) == usual


def test_requests_have_the_names_of_0_2_5() -> None:
    request = hub.SendMessageRequest(message=SAID)
    for operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
        row = DIALECT.form(HTTP_JSON).row(operation)
        tree = row.encode_request(request)
        assert "request" in tree
        assert "message" not in tree
        assert row.decode_request(tree) == request
        newer = NEWER.form(HTTP_JSON).row(operation)
        assert unmapped.strip_copy(newer.decode_request(tree)) == request
        usual = newer.encode_request(request)
        assert row.encode_request(row.decode_request(usual)) == tree


def test_listed_tasks_have_the_names_of_0_2_5() -> None:
    tree = DIALECT.form(HTTP_JSON).row(ops.LIST_TASKS).encode_response(hub.ListTasksResponse(tasks=[TASK]))
    assert "update" in tree[0]["status"]


def test_who_asks_in_the_shape_of_json_rpc_is_answered_in_it() -> None:
    row = DIALECT.form(HTTP_JSON).row(ops.SEND_MESSAGE)
    asked = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": []}}
    spoken = row.extras.variant(asked, {})
    assert spoken.decode_request(asked).message.role == hub.ROLE_USER
    answer = spoken.encode_response(hub.SendMessageResponse(task=TASK))
    assert answer["task"]["status"]["message"]["kind"] == "message"
    assert spoken.encode_response(hub.SendMessageResponse(message=SAID))["message"]["kind"] == "message"


def test_who_asks_in_the_shape_of_the_proto_is_answered_in_that() -> None:
    row = DIALECT.form(HTTP_JSON).row(ops.SEND_MESSAGE)
    asked = {"request": {"messageId": "m", "role": "ROLE_USER", "content": []}}
    spoken = row.extras.variant(asked, {})
    assert spoken.decode_request(asked).message.message_id == "m"
    assert "msg" in spoken.encode_response(hub.SendMessageResponse(message=SAID))
    task = spoken.encode_response(hub.SendMessageResponse(task=TASK))
    assert "update" in task["task"]["status"]
    assert "content" in task["task"]["history"][0]


def test_everything_else_over_http_and_grpc_is_that_of_0_3() -> None:
    renamed = {operation for operation, _, _ in ANSWERS} | {ops.LIST_TASKS}
    for older, newer in zip(DIALECT.form(HTTP_JSON).rows, NEWER.form(HTTP_JSON).rows, strict=True):
        assert older.address is newer.address
        assert (older is newer) == (newer.operation not in renamed)
    assert DIALECT.form(GRPC).rows is NEWER.form(GRPC).rows
    for files in (Files.RAW, Files.BASE64):
        assert DIALECT.form(GRPC, files=files).rows is NEWER.form(GRPC, files=files).rows
        assert DIALECT.form(HTTP_JSON, files=files) is forms.BY_FILES[files][HTTP_JSON]


def test_a_missing_extended_card_has_no_number_of_its_own() -> None:
    error = A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)
    older = DIALECT.form(JSONRPC).encode_error(error)
    newer = NEWER.form(JSONRPC).encode_error(error)
    assert "data" not in newer.body
    assert older.body["data"][0]["reason"] == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    for kind in (JSONRPC, HTTP_JSON, GRPC):
        form = DIALECT.form(kind)
        assert form.decode_error(form.encode_error(error)).reason is error.reason


@each("reason", [reason for reason in Reason if reason.level == "a2a"])
def test_errors_come_back(reason: Reason) -> None:
    for kind in (JSONRPC, HTTP_JSON, GRPC):
        form = DIALECT.form(kind)
        assert form.decode_error(form.encode_error(A2AError(reason, "why"))).reason is reason


def test_properties_of_the_dialect() -> None:
    assert DIALECT.version == "0.2.5"
    assert DIALECT.card.paths == ("/.well-known/agent.json",)
    assert not DIALECT.declares
    assert DIALECT.final_events
    assert DIALECT.extensions == NEWER.extensions
    assert DIALECT.losses is NEWER.losses
    card = DIALECT.card.decode(
        {
            "name": "n",
            "description": "",
            "url": "https://a.example",
            "version": "1",
            "capabilities": {},
            "defaultInputModes": [],
            "defaultOutputModes": [],
            "skills": [],
        }
    )
    assert [one.protocol_version for one in card.supported_interfaces] == ["0.2.5"]


def test_streams_end_with_unknown_here() -> None:
    update = hub.TaskStatusUpdateEvent(task_id="t", status=hub.TaskStatus())
    assert annotation.finality(DIALECT)(update)
    assert not annotation.finality(NEWER)(update)


def test_bodies_are_readable_json() -> None:
    for operation, message, _ in ANSWERS:
        row = DIALECT.form(HTTP_JSON).row(operation)
        assert row.decode_response(codec.loads(codec.dumps(row.encode_response(message)))) == message
