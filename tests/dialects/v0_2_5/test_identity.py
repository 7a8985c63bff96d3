"""Content of 0.2.5 comes back from the hub unchanged, and content of the hub from 0.2.5."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge import A2AError, Reason, codec
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import annotation, unmapped, v0_3
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC
from a2a_bridge.dialects.v0_2_5 import DIALECT, forms, models
from a2a_bridge.dialects.v0_2_5.forms import EXTENDED_CARD, EXTENDED_CARD_METHOD, ROWS
from a2a_bridge.dialects.v0_3 import requests as newer
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from a2a_bridge.testing.each import each
from tests import strategies, strategies_v0
from tests.dialects.v0_3.kind_hops import HOPS, check, reading
from tests.dialects.v0_3.test_kind_identity import without_lost
from tests.dialects.v0_3.test_models import CARD, MESSAGE
from tests.dialects.v0_3.test_models_hub import VALID
from tests.identity import says
from tests.rejections import rejected

ROW = {row.address: row for row in ROWS}
NEWER = {row.address: row for row in newer.ROWS}
SENDING = ("message/send", "message/stream")
STREAMING = ("message/stream", "tasks/resubscribe")


def params(method: str) -> Any:
    return strategies_v0.send_params("0.2.5") if method in SENDING else strategies_v0.PARAMS[method]()


@pytest.mark.parametrize("method", [*SENDING, "tasks/cancel"])
@given(data=st.data())
def test_params_come_back(method: str, data: Any) -> None:
    row = ROW[method]
    check(row.decode_request, row.encode_request, data.draw(params(method)))


@pytest.mark.parametrize("method", [name for name in strategies_v0.RESULTS if "push" not in name])
@given(data=st.data())
def test_results_come_back(method: str, data: Any) -> None:
    row = ROW[method]
    check(row.decode_response, row.encode_response, data.draw(strategies_v0.RESULTS[method]()))


@given(data=st.data())
def test_events_of_unknown_tasks_come_back(data: Any) -> None:
    row = ROW["message/stream"]
    event = data.draw(strategies_v0.status_updates())
    event["status"] = {**event["status"], "state": "unknown"}
    if data.draw(st.booleans()):
        event[annotation.FINAL] = data.draw(st.sampled_from([True, False, "x", None]))
    check(row.decode_response, row.encode_response, event)


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("method", [*SENDING, "tasks/get", "tasks/resubscribe"])
@given(data=st.data())
def test_hub_messages_come_back(method: str, side: str, data: Any) -> None:
    row = ROW[method]
    message = without_lost(data.draw(strategies.messages(getattr(row.operation, side))))
    if side == "response" and method != "tasks/get" and message.WhichOneof("payload") is None:
        return
    if side == "request" and method == "tasks/get" and not message.history_length:
        message.ClearField("history_length")  # 0 has the same meaning in 0.x
    text = codec.dumps(getattr(row, f"encode_{side}")(message))
    assert reading(getattr(row, f"decode_{side}"), text) == message, text


@pytest.mark.parametrize("note", [None, True, False])
@pytest.mark.parametrize("more", [{}, {"a": 1}])
def test_notes_on_events_of_unknown_tasks_come_back(note: Any, more: dict[str, Any]) -> None:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus())
    if note is not None or more:
        update.metadata.update(more | ({} if note is None else {annotation.FINAL: note}))
    event = hub.StreamResponse(status_update=update)
    row = ROW["message/stream"]
    tree = row.encode_response(event)
    assert tree["final"] is (note is not False)
    if note is True:  # 0.2.5 derives as much from the state, so the annotation says nothing more
        event = hub.StreamResponse(status_update=annotation.without_final(update))
    assert row.decode_response(tree) == event


@pytest.mark.parametrize("said", [None, True, False])
def test_an_event_without_a_status_is_one_of_an_unknown_task(said: bool | None) -> None:
    event = hub.StreamResponse(status_update=hub.TaskStatusUpdateEvent(task_id="t", context_id="c"))
    if said is not None:
        annotation.annotate_final(event.status_update, said)
    row = ROW["message/stream"]
    tree = row.encode_response(event)
    assert (tree["status"], tree["final"]) == ({"state": "unknown"}, said is not False)
    assert annotation.read_final(row.decode_response(tree).status_update) == (
        False if said is False else None
    )


@pytest.mark.parametrize("method", STREAMING)
def test_unknown_ends_a_stream_here_and_nowhere_else(method: str) -> None:
    for state, final in (
        ("unknown", True),
        ("completed", True),
        ("working", False),
        ("input-required", True),
    ):
        event = hub.StreamResponse()
        event.status_update.task_id = "t"
        event.status_update.status.SetInParent()
        if state != "unknown":
            name = f"TASK_STATE_{state.upper().replace('-', '_')}"
            event.status_update.status.state = hub.TaskState.Value(name)
        assert ROW[method].encode_response(event)["final"] is final
        assert NEWER[method].encode_response(event)["final"] is (final and state != "unknown")


def test_final_of_an_unknown_state_is_known_to_other_versions() -> None:
    tree = {
        "kind": "status-update",
        "taskId": "t",
        "contextId": "c",
        "status": {"state": "unknown"},
        "final": False,
    }
    row = ROW["message/stream"]
    event = row.decode_response(tree)
    assert annotation.read_final(event.status_update) is False
    assert annotation.read_final(row.decode_response(tree | {"final": True}).status_update) is None
    assert NEWER["message/stream"].encode_response(event)["final"] is False
    silent = {name: value for name, value in tree.items() if name != "final"}
    assert says(row.encode_response(row.decode_response(silent)), silent)


def test_media_types_are_listed_even_if_none_were_requested() -> None:
    for method in SENDING:
        row = ROW[method]
        asked = NEWER[method].decode_request({"message": MESSAGE, "configuration": {"blocking": True}})
        tree = row.encode_request(asked)
        assert tree["configuration"] == {"blocking": True, "acceptedOutputModes": []}
        bare = hub.SendMessageRequest()
        bare.message.message_id = "m"
        assert "configuration" not in row.encode_request(bare)


def says_no_modes(tree: Any) -> bool:
    """Whether there is an empty list of media types, which 0.2.5 cannot tell from none."""
    configuration = tree.get("configuration") or {}
    return "acceptedOutputModes" in configuration and not configuration["acceptedOutputModes"]


@given(tree=strategies_v0.send_params().filter(lambda tree: not says_no_modes(tree)))
def test_params_of_0_3_pass_through_a_hop_of_0_2_5(tree: Any) -> None:
    newer_row, row = NEWER["message/send"], ROW["message/send"]
    there = codec.dumps(row.encode_request(reading(newer_row.decode_request, codec.dumps(tree))))
    back = newer_row.encode_request(reading(row.decode_request, there))
    assert says(codec.loads_exact(codec.dumps(back)), codec.loads_exact(codec.dumps(tree)))


@given(tree=strategies_v0.events())
def test_events_of_0_3_pass_through_a_hop_of_0_2_5(tree: Any) -> None:
    newer_row, row = NEWER["message/stream"], ROW["message/stream"]
    there = codec.dumps(row.encode_response(reading(newer_row.decode_response, codec.dumps(tree))))
    back = newer_row.encode_response(reading(row.decode_response, there))
    wanted: Any = codec.loads_exact(codec.dumps(tree))
    if back.get("status", {}).get("state") == "unknown" and wanted.get("final") is True:
        del wanted["final"]  # in 0.2.5 it follows from the state (docs/explanation/versions.md)
        assert codec.loads(there)["final"] is True
    assert says(codec.loads_exact(codec.dumps(back)), wanted)


def test_a_final_event_of_0_3_keeps_its_other_members() -> None:
    tree = {"kind": "status-update", "taskId": "t", "contextId": "c", "final": True, "metadata": {}}
    tree["status"] = {"state": "unknown", "message": None}
    newer_row, row = NEWER["message/stream"], ROW["message/stream"]
    there = row.encode_response(newer_row.decode_response(tree))
    assert there["final"] is True
    back = newer_row.encode_response(row.decode_response(there))
    assert says(back, {name: value for name, value in tree.items() if name != "final"})
    check(row.decode_response, row.encode_response, there)


@given(tree=VALID["MessageSendParams"])
def test_requests_of_0_3_are_valid_in_0_2_5(tree: Any) -> None:
    try:
        request = reading(NEWER["message/send"].decode_request, codec.dumps(tree))
    except A2AError:
        return  # a negative historyLength
    assert models.check(models.MessageSendParams, ROW["message/send"].encode_request(request)) == []


def test_an_empty_list_of_media_types_costs_no_residue() -> None:
    tree = {"message": MESSAGE, "configuration": {"acceptedOutputModes": [], "blocking": True}}
    for method in SENDING:
        request = ROW[method].decode_request(tree)
        assert not request.HasField("metadata")
        assert request.HasField("configuration")
        assert ROW[method].encode_request(request) == tree
    assert tree["configuration"] == {"acceptedOutputModes": [], "blocking": True}


def test_a_list_of_a_0_2_5_caller_reaches_an_agent_of_either_version() -> None:
    tree = {"message": MESSAGE, "configuration": {"acceptedOutputModes": ["text/plain"]}}
    request = ROW["message/send"].decode_request(tree)
    assert says(NEWER["message/send"].encode_request(request), tree)
    unsaid = NEWER["message/send"].decode_request(
        {"message": MESSAGE, "configuration": {"acceptedOutputModes": []}}
    )
    assert ROW["message/send"].encode_request(unsaid)["configuration"] == {
        "acceptedOutputModes": [],
        "blocking": True,
    }


@pytest.mark.parametrize("data", [[1, {"a": [None]}], [], [1.5]])
def test_lists_in_data_parts_come_back(data: Any) -> None:
    tree = MESSAGE | {"parts": [{"kind": "data", "data": data}]}
    row = ROW["message/send"]
    check(row.decode_request, row.encode_request, {"message": tree})
    message = reading(row.decode_request, codec.dumps({"message": tree})).message
    assert message.parts[0].data.WhichOneof("kind") == "list_value"


def test_a_card_of_0_3_keeps_its_members() -> None:
    signed = CARD | {"signatures": [{"protected": "p", "signature": "s"}], "protocolVersion": "0.2.5"}
    signed["skills"] = [{"id": "s", "name": "s", "description": "", "tags": [], "security": [{"key": []}]}]
    signed["securitySchemes"] = {"m": {"type": "mutualTLS"}}
    row = ROW[EXTENDED_CARD]
    for hop in HOPS.values():
        card = hop(row.decode_response(signed))
        assert says(row.encode_response(card), signed)
    assert card.signatures[0].signature == "s"


def test_the_extended_card_is_a_plain_get_and_since_0_2_6_a_method() -> None:
    rows = [row for row in ROWS if row.operation is ops.GET_EXTENDED_AGENT_CARD]
    assert [row.address for row in rows] == [EXTENDED_CARD, EXTENDED_CARD_METHOD]
    for row in rows:
        assert row.decode_request(None) == hub.GetExtendedAgentCardRequest()
        assert row.encode_request(hub.GetExtendedAgentCardRequest()) is None


def test_all_other_methods_are_those_of_0_3() -> None:
    assert ROW.keys() - NEWER.keys() == {EXTENDED_CARD, EXTENDED_CARD_METHOD}
    assert NEWER.keys() - ROW.keys() == {"agent/getAuthenticatedExtendedCard"}
    push = "tasks/pushNotificationConfig/get"
    assert ROW[push] is NEWER[push]
    assert ROW[push].decode_request({"id": "t"}) == hub.GetTaskPushNotificationConfigRequest(task_id="t")


@pytest.mark.parametrize(
    "wire", [None, [], 1, {"configuration": []}, {"configuration": {"acceptedOutputModes": 1}}]
)
def test_nonsense_is_rejected_as_0_3_rejects_it(wire: Any) -> None:
    for method in SENDING:
        with rejected(Reason.INVALID_PARAMS):
            ROW[method].decode_request(wire)


# 0.2.5 over its bindings: names of the proto, errors, and the properties of the dialect.


V0_3 = v0_3.DIALECT
SAID = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hi")])
TASK = hub.Task(
    id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING, message=SAID), history=[SAID]
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
    newer = V0_3.form(HTTP_JSON).row(operation)
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
        newer = V0_3.form(HTTP_JSON).row(operation)
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
    for older, later in zip(DIALECT.form(HTTP_JSON).rows, V0_3.form(HTTP_JSON).rows, strict=True):
        assert older.address is later.address
        assert (older is later) == (later.operation not in renamed)
    assert DIALECT.form(GRPC).rows is V0_3.form(GRPC).rows
    for files in (Files.RAW, Files.BASE64):
        assert DIALECT.form(GRPC, files=files).rows is V0_3.form(GRPC, files=files).rows
        assert DIALECT.form(HTTP_JSON, files=files) is forms.BY_FILES[files][HTTP_JSON]


def test_a_missing_extended_card_has_no_number_of_its_own() -> None:
    error = A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)
    older = DIALECT.form(JSONRPC).encode_error(error)
    assert "data" not in V0_3.form(JSONRPC).encode_error(error).body
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
    assert (DIALECT.version, DIALECT.card.paths) == ("0.2.5", ("/.well-known/agent.json",))
    assert not DIALECT.declares
    assert DIALECT.final_events
    assert DIALECT.extensions == V0_3.extensions
    assert DIALECT.losses is V0_3.losses
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
    assert not annotation.finality(V0_3)(update)


def test_bodies_are_readable_json() -> None:
    for operation, message, _ in ANSWERS:
        row = DIALECT.form(HTTP_JSON).row(operation)
        assert row.decode_response(codec.loads(codec.dumps(row.encode_response(message)))) == message
