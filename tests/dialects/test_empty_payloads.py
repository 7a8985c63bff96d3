"""A response that holds none of the members it must hold one of is rejected, on every binding."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each


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
