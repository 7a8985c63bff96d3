"""The three forms of 0.3, composed of rows and errors, and the hub content that 0.3 cannot express, not even
as text beside it. The losses are data, so that tests exempt and docs show the same content.

Two of them also exist for each encoding of file contents in a2a.v1, for dialling agents with a known
encoding. Callers do not need these: the usual forms detect the encoding.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, BindingKind, Form, HttpAddress, Loss
from a2a_bridge.dialects.v0_3 import errors, http_rows, proto_rows, requests
from a2a_bridge.peers import Files

JSONRPC_FORM: Form[str, Any] = Form(
    requests.ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc, shape_error=errors.shape_jsonrpc
)

HTTP_JSON_FORM: Form[HttpAddress, Any] = Form(
    http_rows.ROWS, errors.encode_http_json, errors.decode_http_json, messages=http_rows.MESSAGES
)

GRPC_FORM: Form[str, bytes] = Form(
    proto_rows.ROWS, errors.encode_grpc, errors.decode_grpc, errors.encode_grpc_declared
)

BY_FILES: Mapping[Files, Mapping[BindingKind[Any, Any], Form[Any, Any]]] = {
    files: {
        HTTP_JSON: replace(HTTP_JSON_FORM, rows=http_rows.BY_FILES[files]),
        GRPC: replace(GRPC_FORM, rows=proto_rows.BY_FILES[files]),
    }
    for files in (Files.RAW, Files.BASE64)
}


_ROUTING = (
    "0.x has no tenants: a tenant is part of the address of an interface, and the bridge sets it from there"
)
_SHAPE = "unusual content of that shape is kept for wires of the same shape only"
_BESIDE = "it travels beside the message, and only wires of the shape that it was said in read it there"
_PAGES = "0.x lists all configurations at once: the bridge follows the pages of an agent that has some"

TENANTS: tuple[Loss, ...] = tuple(
    Loss(f"{operation.request.DESCRIPTOR.name}.tenant", _ROUTING)
    for operation in dict.fromkeys(ops.ALL)
    if operation is not ops.CREATE_PUSH_CONFIG  # it is a member of the configuration and remains one
    and operation is not ops.SEND_STREAMING_MESSAGE  # has the request of SendMessage
    and operation is not ops.LIST_TASKS  # lost as a whole
)

LOSSES: tuple[Loss, ...] = (
    *TENANTS,
    Loss(
        "ListTasksRequest", "0.x has no such operation over JSON-RPC: the bridge answers it from what it saw"
    ),
    Loss(
        "ListTasksResponse", "0.x has no such operation over JSON-RPC: the bridge answers it from what it saw"
    ),
    Loss("ListTaskPushNotificationConfigsRequest.pageSize", _PAGES),
    Loss("ListTaskPushNotificationConfigsRequest.pageToken", _PAGES),
    Loss("ListTaskPushNotificationConfigsResponse.nextPageToken", _PAGES),
    Loss(
        "TaskPushNotificationConfig.tenant",
        "a2a.v1 has no member for it, and no metadata beside",
        ("HTTP+JSON", "GRPC"),
    ),
    Loss(
        "GetTaskRequest.currentGeneration",
        "a2a.v1 has no member for it, and no metadata beside",
        ("HTTP+JSON", "GRPC"),
    ),
    Loss("CancelTaskRequest.metadata", "the request of a2a.v1 is a name and nothing else", ("GRPC",)),
)

#: content of one 0.x shape that an agent of the other shape does not receive, as 0.x paths: `kind` is the
#: shape of JSON-RPC
BETWEEN_SHAPES: tuple[Loss, ...] = (
    Loss("kind: TaskQueryParams.metadata", _BESIDE),
    Loss("kind: TaskIdParams.metadata", _BESIDE),
    Loss("kind: unknown members of params without metadata", _BESIDE),
    Loss("kind: several schemes of a PushNotificationConfig inside of MessageSendConfiguration", _BESIDE),
    Loss("a2a.v1: several schemes of a push configuration inside of SendMessageConfiguration", _SHAPE),
    Loss("PushNotificationConfig: unknown members, empty texts", _BESIDE),
    Loss("a2a.v1: unknown fields, and numbers that no double equals", _SHAPE),
    Loss(
        "kind: MessageSendConfiguration {}", "a2a.v1 cannot tell an empty configuration from one that waits"
    ),
)
