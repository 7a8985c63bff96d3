"""An example of each operation's request, for the page to begin with."""

from __future__ import annotations

from typing import Any

from a2a_bridge.core import operations as ops

_MESSAGE = {"message": {"role": "ROLE_USER", "parts": [{"text": "hello"}]}}
_TASK = {"id": "TASK-ID"}
_CONFIG = {"taskId": "TASK-ID", "id": "CONFIG-ID"}
_REQUESTS: dict[ops.Operation[Any, Any], dict[str, Any]] = {
    ops.SEND_MESSAGE: _MESSAGE,
    ops.SEND_STREAMING_MESSAGE: _MESSAGE,
    ops.GET_TASK: _TASK,
    ops.LIST_TASKS: {"pageSize": 20},
    ops.CANCEL_TASK: _TASK,
    ops.SUBSCRIBE_TO_TASK: _TASK,
    ops.CREATE_PUSH_CONFIG: {"taskId": "TASK-ID", "url": "https://receiver.example/webhook"},
    ops.GET_PUSH_CONFIG: _CONFIG,
    ops.LIST_PUSH_CONFIGS: {"taskId": "TASK-ID"},
    ops.DELETE_PUSH_CONFIG: _CONFIG,
    ops.GET_EXTENDED_AGENT_CARD: {},
}


def operations() -> list[dict[str, Any]]:
    """All operations, with an example of each request in ProtoJSON of 1.0."""
    return [
        {"name": one.name, "streams": isinstance(one, ops.Streaming), "request": _REQUESTS[one]}
        for one in ops.ALL
    ]
