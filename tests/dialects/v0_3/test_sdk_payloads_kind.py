"""Payloads that a2a-sdk loses or rejects between 0.3 and 1.0, numbered through, over JSON-RPC."""

from typing import Any

import pytest

from a2a_bridge import codec
from a2a_bridge.codec import ExactFloat
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.v0_3 import shapes
from a2a_bridge.dialects.v0_3 import shapes as parts
from a2a_bridge.dialects.v0_3.requests import SEND
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.dialects.v0_3.kind_hops import ROW, check, reading

MESSAGE: dict[str, Any] = {"kind": "message", "messageId": "m", "role": "user", "parts": []}
TASK: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}


def data(value: Any, **members: Any) -> dict[str, Any]:
    return {"kind": "data", "data": value, **members}


def test_payload_01_large_and_integral_numbers() -> None:
    check(
        parts.PART.decode,
        parts.PART.encode,
        data({"n": 9007199254740993, "one": 1, "float": ExactFloat("1.0")}),
    )
    check(
        shapes.MESSAGE.decode,
        shapes.MESSAGE.encode,
        {**MESSAGE, "metadata": {"n": 9007199254740993, "one": 1}},
    )
    assert b'"one":1' in codec.dumps(parts.PART.encode(parts.PART.decode(data({"one": 1}))))


@pytest.mark.parametrize("value", [{"value": {"k": 1}}, {"z": 1}])
def test_payload_02_user_data_with_the_flag_of_the_sdk(value: Any) -> None:
    check(parts.PART.decode, parts.PART.encode, data(value, metadata={"data_part_compat": True}))


def test_payload_03_empty_metadata() -> None:
    check(parts.PART.decode, parts.PART.encode, data({"z": "1"}, metadata={}))
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, {**MESSAGE, "metadata": {}})
    check(shapes.TASK.decode, shapes.TASK.encode, {**TASK, "metadata": {}})
    check(shapes.ARTIFACT.decode, shapes.ARTIFACT.encode, {"artifactId": "a", "parts": [], "metadata": {}})


@pytest.mark.parametrize("text", ["aGk", "-_8=", "aGk=\n", "aGl="])
def test_payload_04_odd_base64(text: str) -> None:
    check(parts.PART.decode, parts.PART.encode, {"kind": "file", "file": {"bytes": text}})


def test_payload_05_a_file_with_an_empty_name_and_an_unknown_member() -> None:
    check(
        parts.PART.decode, parts.PART.encode, {"kind": "file", "file": {"bytes": "aGk=", "name": "", "x": 1}}
    )


@pytest.mark.parametrize(
    "time",
    [
        "2025-04-17T17:47:09.680794",
        "2025-04-17T17:47:09+02:00",
        "2025-04-17T17:47:09.1Z",
        "2025-04-17T17:47:09.000Z",
        "not a date",
    ],
)
def test_payload_06_odd_timestamps(time: str) -> None:
    check(shapes.TASK.decode, shapes.TASK.encode, {**TASK, "status": {"state": "working", "timestamp": time}})


@pytest.mark.parametrize(
    ("state", "final"), [("input-required", True), ("completed", False), ("unknown", True), ("working", True)]
)
def test_payload_07_final_is_the_value_of_the_peer(state: str, final: bool) -> None:
    tree = {
        "kind": "status-update",
        "taskId": "t",
        "contextId": "c",
        "status": {"state": state},
        "final": final,
    }
    check(shapes.EVENT.decode, shapes.EVENT.encode, tree)


def test_payload_08_an_artifact_update_without_flags() -> None:
    tree = {
        "kind": "artifact-update",
        "taskId": "t",
        "contextId": "c",
        "artifact": {"artifactId": "a", "parts": []},
    }
    check(shapes.EVENT.decode, shapes.EVENT.encode, tree)


def test_payload_09_an_empty_configuration() -> None:
    check(SEND.decode, SEND.encode, {"message": MESSAGE, "configuration": {}})


def test_payload_10_several_schemes() -> None:
    config = {"url": "u", "authentication": {"schemes": ["Bearer", "Basic"]}}
    check(SEND.decode, SEND.encode, {"message": MESSAGE, "configuration": {"pushNotificationConfig": config}})
    row = ROW["tasks/pushNotificationConfig/set"]
    tree = {"taskId": "t", "pushNotificationConfig": config}
    assert (
        row.extras.request.restore(
            row.encode_request(row.decode_request(tree)), row.extras.request.extract(tree)
        )
        == tree
    )
    told = row.extras.response.extract(tree)
    assert row.extras.response.restore(row.encode_response(row.decode_response(tree)), told) == tree
    several = [tree, {**tree, "x": 1}, {"taskId": "t", "pushNotificationConfig": {"url": "v"}}]
    row = ROW["tasks/pushNotificationConfig/list"]
    message = row.decode_response(several)
    assert (
        row.extras.response.restore(row.encode_response(message), row.extras.response.extract(several))
        == several
    )
    one_by_one = codec.dumps_ascii([told["x-a2a-bridge-aside"], None, None])
    assert (
        row.extras.response.restore(row.encode_response(message), {"x-a2a-bridge-aside": one_by_one})[0]
        == tree
    )


def test_payload_14_an_extension_of_a_message_is_only_a_uri() -> None:
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, {**MESSAGE, "extensions": ["u"]})


def test_payload_15_empty_lists_and_an_empty_context() -> None:
    check(shapes.TASK.decode, shapes.TASK.encode, {**TASK, "history": [], "artifacts": [], "contextId": ""})
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, {**MESSAGE, "extensions": [], "contextId": ""})


def test_payload_16_a_length_beyond_32_bits() -> None:
    check(SEND.decode, SEND.encode, {"message": MESSAGE, "configuration": {"historyLength": 3_000_000_000}})


def test_payload_17_media_type_and_name_of_a_text() -> None:
    part = hub.Part(text="a", media_type="text/markdown", filename="f")
    assert reading(parts.PART.decode, codec.dumps(parts.PART.encode(part))) == part


def test_payload_19_a_tenant_of_a_push_config_and_a_role_that_is_not_given() -> None:
    row = ROW["tasks/pushNotificationConfig/set"]
    config = hub.TaskPushNotificationConfig(tenant="x", task_id="t", url="u")
    assert row.decode_response(codec.loads(codec.dumps(row.encode_response(config)))) == config
    request = hub.SendMessageRequest(message=hub.Message(message_id="m"))
    request.configuration.task_push_notification_config.tenant = "x"
    tree = SEND.encode(request)
    assert tree["message"]["role"] == "user", "what comes from a caller is the user's"
    assert SEND.decode(codec.loads(codec.dumps(tree))) == request
    assert shapes.MESSAGE.encode(hub.Message())["role"] == "agent", "what an agent answers is the agent's"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/resubscribe", "tasks/pushNotificationConfig/list"])
def test_payload_20_metadata_of_requests(method: str) -> None:
    row = ROW[method]
    params = {"id": "t", "metadata": {"k": {"n": [1, 2]}}}
    assert (
        row.extras.request.restore(
            row.encode_request(row.decode_request(params)), row.extras.request.extract(params)
        )
        == params
    )


def test_regular_content_leaves_no_unmapped_entry() -> None:
    """The whole of a usual conversation: no residue, no note, nothing but the hub's own members."""
    task = {
        **TASK,
        "status": {"state": "completed", "timestamp": "2025-04-17T17:47:09.680Z", "message": {**MESSAGE, "role": "agent"}},
        "history": [{**MESSAGE, "contextId": "c", "taskId": "t", "parts": [{"kind": "text", "text": "hällo"}]}],
        "artifacts": [
            {
                "artifactId": "a",
                "name": "n",
                "parts": [
                    data({"n": [1, "x", None, True, {}]}),
                    {"kind": "file", "file": {"uri": "u", "mimeType": "m"}},
                    {"kind": "file", "file": {"bytes": "aGk=", "name": "n"}, "metadata": {"k": 1}},
                ],
                "metadata": {"k": "v"},
            }
        ],
        "metadata": {"k": "v"},
    }  # fmt: skip
    message = shapes.TASK.decode(task)
    assert not unmapped.present(message)
    assert b"urn:" not in message.SerializeToString()
    assert shapes.TASK.encode(message) == task
