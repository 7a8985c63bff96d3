"""Invalid content is rejected with its place; no other content is, and nothing crashes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.v0_3 import shapes
from a2a_bridge.dialects.v0_3.requests import SEND
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests import strategies_v0
from tests.dialects.v0_3.kind_hops import MESSAGE, ROW, TASK, reading
from tests.identity import says
from tests.rejections import rejected

some = settings(max_examples=max(settings().max_examples // 2, 10))


FAULTS = [
    ({**MESSAGE, "messageId": 5}, "messageId", "expected a string, got a number"),
    ({**MESSAGE, "role": "nobody"}, "role", "is none of user, agent"),
    ({**MESSAGE, "role": None}, "role", "is required"),
    ({**MESSAGE, "role": ["user"]}, "role", "is none of user, agent"),
    ({**MESSAGE, "parts": "x"}, "parts", "expected an array, got a string"),
    ({**MESSAGE, "parts": None}, "parts", "is required"),
    ({**MESSAGE, "parts": [5]}, "parts[0]", "expected an object, got a number"),
    ({**MESSAGE, "parts": [{"kind": "text", "text": 5}]}, "parts[0].text", "expected a string, got a number"),
    ({**MESSAGE, "parts": [{"kind": "text"}]}, "parts[0].text", "is required"),
    ({**MESSAGE, "parts": [{"kind": "what"}]}, "parts[0].kind", "is none of text, file, data"),
    ({**MESSAGE, "parts": [{"kind": []}]}, "parts[0].kind", "is none of text, file, data"),
    ({**MESSAGE, "parts": [{}]}, "parts[0].kind", "is none of text, file, data"),
    ({**MESSAGE, "parts": [{"kind": "data"}]}, "parts[0].data", "is required"),
    ({**MESSAGE, "parts": [{"kind": "file"}]}, "parts[0].file", "is required"),
    ({**MESSAGE, "parts": [{"kind": "file", "file": []}]}, "parts[0].file", "expected an object, got an array"),
    (
        {**MESSAGE, "parts": [{"kind": "file", "file": {"bytes": 5}}]},
        "parts[0].file.bytes",
        "expected a base64 string, got a number",
    ),
    ({**MESSAGE, "metadata": []}, "metadata", "expected an object, got an array"),
    ({**MESSAGE, "extensions": "x"}, "extensions", "expected an array, got a string"),
    ({**MESSAGE, "extensions": ["a", 5]}, "extensions[1]", "expected a string, got a number"),
    ({**TASK, "status": "working"}, "status", "expected an object, got a string"),
    ({**TASK, "status": {"state": 5}}, "status.state", "is none of submitted"),
    ({**TASK, "status": {"state": "dancing"}}, "status.state", "is none of submitted"),
    ({**TASK, "status": {"state": "working", "timestamp": 5}}, "status.timestamp", "expected a date and time"),
    ({**TASK, "status": {"state": "working", "message": 5}}, "status.message", "expected an object"),
    ({**TASK, "history": [MESSAGE, {**MESSAGE, "taskId": 5}]}, "history[1].taskId", "expected a string"),
    ({**TASK, "history": [{**MESSAGE, "kind": "task"}]}, "history[0].kind", 'expected "message"'),
    ({**TASK, "artifacts": [{"artifactId": "a", "parts": {}}]}, "artifacts[0].parts", "expected an array"),
    ({"kind": "status-update", "taskId": 5}, "taskId", "expected a string"),
    ({"kind": "status-update", "final": "yes", "status": {"state": "working"}}, "final", "expected true or false"),
    ({"kind": "artifact-update"}, "artifact", "is required"),
    ({"kind": "artifact-update", "artifact": {"parts": [], "name": 5}}, "artifact.name", "expected a string"),
    ({"kind": "artifact-update", "artifact": {"parts": []}, "append": 1}, "append", "expected true or false"),
    ({"kind": "what"}, "kind", "is none of task, message, status-update, artifact-update"),
    ({"kind": 5}, "kind", "is none of"),
    ({}, "kind", "is none of"),
    ([], "", "expected an object, got an array"),
    (None, "", "expected an object, got null"),
]  # fmt: skip


@each(("tree", "path", "problem"), FAULTS)
def test_invalid_content_is_rejected_with_its_place(tree: Any, path: str, problem: str) -> None:
    with pytest.raises(codec.DecodeError) as raised:
        shapes.EVENT.decode(tree)
    assert raised.value.path == path
    assert problem in raised.value.problem


def test_all_violations_are_listed_up_to_a_limit() -> None:
    tree = {
        **TASK,
        "id": 5,
        "history": [{**MESSAGE, "parts": [{"kind": "text", "text": 5}] * 100}],
        "metadata": 1,
    }
    with pytest.raises(codec.DecodeError) as raised:
        shapes.EVENT.decode(tree)
    paths = [path for path, _ in raised.value.violations]
    assert (paths[:3], len(paths)) == (["id", "metadata", "history[0].parts[0].text"], 20)


def test_requests_are_rejected_as_invalid_params_and_answers_blame_the_peer() -> None:
    with rejected(Reason.INVALID_PARAMS, "message.parts[0].text") as raised:
        ROW["message/send"].decode_request({"message": {**MESSAGE, "parts": [{"kind": "text", "text": 5}]}})
    with rejected(Reason.INVALID_AGENT_RESPONSE) as raised:
        ROW["message/send"].decode_response({**TASK, "id": 5})
    assert raised.value.blame is Blame.PEER


@each("method", [method for method in ROW if "Card" not in method])
@each("params", [None, 5, "x", [], True])
def test_params_have_to_be_an_object(method: str, params: Any) -> None:
    with rejected(Reason.INVALID_PARAMS, ""):
        ROW[method].decode_request(params)


def test_the_extended_card_takes_no_params_at_all() -> None:
    row = ROW["agent/getAuthenticatedExtendedCard"]
    for tree in (None, {}, {"x": 1}):
        assert row.decode_request(tree) == hub.GetExtendedAgentCardRequest()
    assert row.encode_request(hub.GetExtendedAgentCardRequest()) is None


def test_a_deletion_answers_null_and_takes_anything() -> None:
    row = ROW["tasks/pushNotificationConfig/delete"]
    for answer in (None, {}, {"x": 1}, True):
        assert row.encode_response(row.decode_response(answer)) is None


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("tasks/pushNotificationConfig/delete", {"id": "t"}, "pushNotificationConfigId"),
        ("tasks/pushNotificationConfig/delete", {"pushNotificationConfigId": "c"}, "id"),
        ("tasks/pushNotificationConfig/get", {"pushNotificationConfigId": "c"}, "id"),
        ("tasks/pushNotificationConfig/list", {}, "id"),
    ],
)
def test_absent_ids_have_the_name_of_this_version(method: str, params: Any, field: str) -> None:
    with rejected(Reason.INVALID_PARAMS) as raised:
        ROW[method].decode_request(params)
    assert [(one.field, one.description) for one in raised.value.violations] == [(field, "is required")]


def test_a_config_without_an_id_is_asked_for_by_its_task_alone() -> None:
    row = ROW["tasks/pushNotificationConfig/get"]
    request = row.decode_request({"id": "t"})
    assert (request.task_id, request.id) == ("t", "")
    assert row.encode_request(request) == {"id": "t"}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_values_that_json_cannot_express_are_rejected_with_their_place(number: float) -> None:
    task = hub.Task(id="t", artifacts=[hub.Artifact(parts=[hub.Part()])])
    task.artifacts[0].parts[0].data.struct_value["n"] = number
    with rejected(Reason.INVALID_AGENT_RESPONSE) as raised:
        ROW["tasks/get"].encode_response(task)
    assert "artifacts[0].parts[0].data.n" in raised.value.message
    request = hub.CancelTaskRequest(id="t")
    request.metadata["n"] = number
    with pytest.raises(A2AError) as raised:
        ROW["tasks/cancel"].encode_request(request)
    assert [one.field for one in raised.value.violations] == ["metadata.n"]


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += _paths(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            found += _paths(value, (*path, index))
    return found


def _changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = _changed(tree[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("side", ["event", "params"])
@some
@given(data=st.data())
def test_a_tree_with_anything_anywhere_comes_back_or_is_rejected(side: str, data: Any) -> None:
    decode, encode, trees = {
        "event": (shapes.EVENT.decode, shapes.EVENT.encode, strategies_v0.events),
        "params": (SEND.decode, SEND.encode, strategies_v0.send_params),
    }[side]
    tree = data.draw(trees())
    value = data.draw(strategies_v0.anything() | st.sampled_from(["task", "message", "user", {}, []]))
    text = codec.dumps(_changed(tree, data.draw(st.sampled_from(_paths(tree))), value))
    try:
        message = reading(decode, text)
    except codec.DecodeError:
        return
    found = codec.loads_exact(codec.dumps(encode(message)))
    assert says(found, codec.loads_exact(text)), (text, codec.dumps(found))
