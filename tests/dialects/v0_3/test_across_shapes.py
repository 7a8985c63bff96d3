"""0.3 has two shapes, and a task may come in one and be kept by an agent that speaks the other: both get it back."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import HTTP_JSON, JSONRPC, V0_3
from a2a_bridge.dialects.residue import KEY, same

#: as ProtoJSON of a2a.v1, with what protobuf alone cannot keep
ODD = {
    "message": {
        "messageId": "m",
        "role": "ROLE_USER",
        "content": [
            {"data": {"data": {"one": 1.0, "big": 9007199254740993, "none": None}}, "stranger": {"a": []}}
        ],
        "extensions": [],
        "stranger": "x",
    }
}


def row(kind: Any, operation: Any) -> Any:
    form = V0_3.form(kind)
    assert form is not None
    return form.row(operation)


def reread(tree: Any) -> Any:
    return loads_exact(dumps(tree))


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
def test_what_is_said_in_the_one_survives_a_hop_in_the_other(operation: Any) -> None:
    rest, rpc = row(HTTP_JSON, operation), row(JSONRPC, operation)
    given = reread(ODD)
    request = rest.decode_request(given)
    between = reread(rpc.encode_request(request))
    assert between["message"]["parts"][0]["kind"] == "data"
    again = rpc.decode_request(between)
    assert again == request
    assert same(reread(rest.encode_request(again)), given)


def test_what_is_regular_shows_no_residue_in_the_other() -> None:
    rest, rpc = row(HTTP_JSON, ops.SEND_MESSAGE), row(JSONRPC, ops.SEND_MESSAGE)
    # As clients of the time say it: without a configuration agents of the time would not wait.
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}
    plain = {"message": message, "configuration": {"blocking": True}}
    assert KEY.encode() not in dumps(rpc.encode_request(rest.decode_request(plain)))
