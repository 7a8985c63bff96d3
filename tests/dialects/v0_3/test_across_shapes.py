"""0.3 has two shapes, and a task may arrive in one and be kept by an agent that speaks the other."""

from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_3
from a2a_bridge.dialects.unmapped import KEY, same
from a2a_bridge.pb import a2a_v1

AUTHENTICATION = {"schemes": ["Basic", "Bearer", "Digest"], "credentials": "c"}
WEBHOOK = {"id": "c", "url": "https://example.com/", "authentication": AUTHENTICATION}

#: content that neither protobuf nor 1.0 can keep
ODD = {
    "message": {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [
            {
                "kind": "data",
                "data": {"one": 1.0, "big": 9007199254740993, "none": None},
                "stranger": {"a": []},
            }
        ],
        "extensions": [],
        "stranger": "x",
    },
    "configuration": {"blocking": True, "acceptedOutputModes": []},
}
#: the numbers in the notation of some writers of ProtoJSON
FLOATS = {
    "message": {
        "messageId": "m",
        "role": "ROLE_USER",
        "content": [{"data": {"data": {"one": 1.0}}}],
    },
    "configuration": {"blocking": True},
}


def row(kind: Any, operation: Any) -> Any:
    form = V0_3.form(kind)
    assert form is not None
    return form.row(operation)


def reread(tree: Any) -> Any:
    return loads_exact(dumps(tree))


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
def test_content_of_jsonrpc_survives_an_agent_of_http_json(operation: Any) -> None:
    rest, rpc = row(HTTP_JSON, operation), row(JSONRPC, operation)
    given = reread(ODD)
    request = rpc.decode_request(given)
    between = reread(rest.encode_request(request))
    assert "content" in between["message"]
    again = rest.decode_request(between)
    assert again == request
    assert same(reread(rpc.encode_request(again)), given)


def test_how_protojson_writes_numbers_is_not_shown_to_agents_of_jsonrpc() -> None:
    rest, rpc = row(HTTP_JSON, ops.SEND_MESSAGE), row(JSONRPC, ops.SEND_MESSAGE)
    shown = rpc.encode_request(rest.decode_request(reread(FLOATS)))
    assert shown["message"]["parts"] == [{"kind": "data", "data": {"one": 1}}]
    assert KEY.encode() not in dumps(shown)


@pytest.mark.parametrize("kind", [HTTP_JSON, GRPC])
def test_all_schemes_of_a_push_config_reach_agents_of_the_other_shape(kind: Any) -> None:
    theirs, ours = row(JSONRPC, ops.CREATE_PUSH_CONFIG), row(kind, ops.CREATE_PUSH_CONFIG)
    given = {"taskId": "t", "pushNotificationConfig": WEBHOOK}
    request = theirs.decode_request(given)
    wire = ours.extras.request.restore(ours.encode_request(request), theirs.extras.request.extract(given))
    if kind is GRPC:
        config = a2a_v1.CreateTaskPushNotificationConfigRequest.FromString(wire).config
        assert list(config.push_notification_config.authentication.schemes) == AUTHENTICATION["schemes"]
    else:
        assert wire["config"]["pushNotificationConfig"]["authentication"] == AUTHENTICATION
    # And back, from an agent of the other shape to the caller.
    again = theirs.extras.request.restore(
        theirs.encode_request(ours.decode_request(wire)), ours.extras.request.extract(wire)
    )
    assert again == given
