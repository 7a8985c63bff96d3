"""Reads lines of JSON in an environment with a2a-sdk 0.3, hands it protobuf, writes lines of JSON."""

import json
import sys
from typing import Any

from a2a import types
from a2a.grpc import a2a_pb2
from a2a.utils import proto_utils
from google.protobuf.json_format import MessageToDict, ParseDict

READERS = {
    "Task": ("task", types.Task),
    "Message": ("message", types.Message),
    "SendMessageRequest": ("message_send_params", types.MessageSendParams),
    "StreamResponse": ("stream_response", None),
    "AgentCard": ("agent_card", types.AgentCard),
    "TaskPushNotificationConfig": ("task_push_notification_config", types.TaskPushNotificationConfig),
    "CreateTaskPushNotificationConfigRequest": ("task_push_notification_config_request", None),
}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    cls = getattr(a2a_pb2, job["class"])
    method, model = READERS[job["class"]]
    if "model" in job:
        message = getattr(proto_utils.ToProto, method)(model.model_validate(job["model"]))
        return {"hex": message.SerializeToString().hex(), "json": MessageToDict(message)}
    # ParseDict as the SDK calls it: members that the proto does not have are rejected.
    message = cls.FromString(bytes.fromhex(job["hex"])) if "hex" in job else ParseDict(job["json"], cls())
    read = getattr(proto_utils.FromProto, method)(message)
    return {"model": read.model_dump(mode="json", exclude_none=True)}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
