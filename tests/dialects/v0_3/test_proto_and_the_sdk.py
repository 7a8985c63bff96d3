"""a2a-sdk 0.3 reads our a2a.v1 and the other way round, files and oddities included. No sockets."""

import json
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.codec import decoder, dumps, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import GRPC
from a2a_bridge.dialects.v0_3 import forms, proto_card
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from tests.patience import PATIENCE
from tests.peers.processes import python_of

HERE = Path(__file__).parent
PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"
AGENT = "grpc-python-asyncio/1.76.0"

pytestmark = [pytest.mark.process, pytest.mark.sdk]


def sdk(**job: Any) -> Any:
    """A message as the SDK reads it."""
    done = subprocess.run(
        [python_of("0.3"), str(HERE / "sdk_reader.py")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def grpc(operation: Any) -> Any:
    row = forms.GRPC_FORM.row(operation)
    assert row is not None
    return row if row.extras.variant is None else row.extras.variant(b"", {"user-agent": AGENT})


def http(operation: Any) -> Any:
    row = forms.HTTP_JSON_FORM.row(operation)
    assert row is not None
    return row if row.extras.variant is None else row.extras.variant({}, {"user-agent": "python-httpx/0.28"})


def task() -> hub.Task:
    """A task with much content of 1.0 that 0.3 lacks."""
    return decoder(hub.Task)(
        {
            "id": "t",
            "contextId": "c",
            "status": {
                "state": "TASK_STATE_CANCELED",
                "timestamp": "2025-01-31T12:00:00Z",
                "message": {
                    "messageId": "m",
                    "role": "ROLE_AGENT",
                    "parts": [{"text": "# hi", "mediaType": "text/markdown", "metadata": {"k": 1}}],
                    "referenceTaskIds": ["other"],
                },
            },
            "artifacts": [
                {
                    "artifactId": "a",
                    "parts": [
                        {"raw": b64encode(PNG).decode(), "mediaType": "image/png", "filename": "a.png"},
                        {"url": "https://x", "filename": "b"},
                        {"data": [1, 2]},
                        {"data": {"n": 7}},
                    ],
                }
            ],
            "metadata": {"k": {"deep": [None]}},
        }
    )


@pytest.mark.parametrize("binding", ["gRPC", "HTTP+JSON"])
def test_the_sdk_reads_a_task_of_1_0(binding: str) -> None:
    if binding == "gRPC":
        read = sdk(**{"class": "Task", "hex": grpc(ops.GET_TASK).encode_response(task()).hex()})["model"]
    else:
        read = sdk(
            **{"class": "Task", "json": json.loads(dumps(http(ops.GET_TASK).encode_response(task())))}
        )["model"]
    assert read["status"]["state"] == "canceled"
    assert read["status"]["message"]["parts"][0]["text"] == "# hi"
    picture, link, items, mapping = read["artifacts"][0]["parts"]
    assert picture["file"] == {"bytes": b64encode(PNG).decode(), "mimeType": "image/png", "name": "a.png"}
    assert link["file"]["uri"] == "https://x"
    assert items["data"] == {"value": [1, 2]}
    assert mapping["data"] == {"n": 7}
    assert read["metadata"] == {"k": {"deep": [None]}}


MODEL = {
    "id": "t",
    "contextId": "c",
    "kind": "task",
    "status": {"state": "input-required", "timestamp": "2025-01-31T12:00:00Z"},
    "artifacts": [
        {
            "artifactId": "a",
            "parts": [
                {
                    "kind": "file",
                    "file": {"bytes": b64encode(PNG).decode(), "mimeType": "image/png", "name": "a.png"},
                },
                {"kind": "file", "file": {"bytes": b64encode(b"hello").decode(), "mimeType": "text/plain"}},
                {"kind": "data", "data": {"n": 7}},
            ],
        }
    ],
}


def test_a_task_of_the_sdk_is_read_over_grpc_from_any_peer() -> None:
    raw_bytes = bytes.fromhex(sdk(**{"class": "Task", "model": MODEL})["hex"])
    for row in (
        grpc(ops.GET_TASK),
        forms.GRPC_FORM.row(ops.GET_TASK),
        forms.BY_FILES[Files.BASE64][GRPC].row(ops.GET_TASK),
    ):
        read = row.decode_response(raw_bytes)
        assert read.status.state == hub.TASK_STATE_INPUT_REQUIRED
        assert not read.status.HasField("message")
        assert [part.raw for part in read.artifacts[0].parts] == [PNG, b"hello", b""]
        assert row.encode_response(read) == raw_bytes


def test_a_task_of_the_sdk_is_read_over_http() -> None:
    tree = sdk(**{"class": "Task", "model": MODEL})["json"]
    for row in (http(ops.GET_TASK), forms.HTTP_JSON_FORM.row(ops.GET_TASK)):
        read = row.decode_response(loads_exact(dumps(tree)))
        assert [part.raw for part in read.artifacts[0].parts] == [PNG, b"hello", b""]
        assert json.loads(dumps(row.encode_response(read))) == tree


def test_the_sdk_reads_a_request_with_a_file() -> None:
    request = hub.SendMessageRequest(
        message=hub.Message(
            message_id="m", role=hub.ROLE_USER, parts=[hub.Part(raw=PNG, media_type="image/png")]
        )
    )
    for form in forms.BY_FILES[Files.BASE64].values():
        wire = form.row(ops.SEND_MESSAGE).encode_request(request)  # type: ignore[attr-defined]
        job = {"hex": wire.hex()} if isinstance(wire, bytes) else {"json": wire}
        read = sdk(**{"class": "SendMessageRequest", **job})["model"]
        assert read["message"]["parts"][0]["file"]["bytes"] == b64encode(PNG).decode()
        assert read["configuration"]["blocking"] is True


def test_the_sdk_reads_events() -> None:
    event = hub.StreamResponse(
        status_update=hub.TaskStatusUpdateEvent(
            task_id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_INPUT_REQUIRED)
        )
    )
    for wire in (
        grpc(ops.SUBSCRIBE_TO_TASK).encode_response(event),
        http(ops.SUBSCRIBE_TO_TASK).encode_response(event),
    ):
        job = {"hex": wire.hex()} if isinstance(wire, bytes) else {"json": wire}
        read = sdk(**{"class": "StreamResponse", **job})["model"]
        assert (read["kind"], read["final"]) == ("status-update", True)


def test_the_sdk_reads_configurations() -> None:
    config = hub.TaskPushNotificationConfig(task_id="t", id="c", url="https://x", token="s")  # noqa: S106
    answer = http(ops.GET_PUSH_CONFIG).encode_response(config)
    read = sdk(**{"class": "TaskPushNotificationConfig", "json": answer})["model"]
    assert read["taskId"] == "t"
    assert read["pushNotificationConfig"] == {"id": "c", "url": "https://x", "token": "s"}
    body = http(ops.CREATE_PUSH_CONFIG).encode_request(config)
    del body["taskId"]  # it is in the path
    read = sdk(**{"class": "CreateTaskPushNotificationConfigRequest", "json": body})["model"]
    assert (read["taskId"], read["pushNotificationConfig"]["id"]) == ("t", "c")


def test_the_sdk_reads_a_card() -> None:
    card = hub.AgentCard(
        name="n", description="d", version="1", default_input_modes=["a"], default_output_modes=["b"]
    )
    card.supported_interfaces.add(url="https://x", protocol_binding="GRPC", protocol_version="0.3")
    card.supported_interfaces.add(
        url="https://y", protocol_binding="JSONRPC", protocol_version="1.0", tenant="q"
    )
    card.capabilities.streaming = True
    card.security_schemes["k"].http_auth_security_scheme.scheme = "bearer"
    card.security_requirements.add().schemes["k"].SetInParent()
    read = sdk(**{"class": "AgentCard", "hex": proto_card.encode_bytes(card).hex()})["model"]
    assert (read["name"], read["url"], read["preferredTransport"]) == ("n", "https://x", "GRPC")
    assert read["capabilities"]["streaming"] is True
    assert (read["securitySchemes"]["k"]["scheme"], read["security"]) == ("bearer", [{"k": []}])
