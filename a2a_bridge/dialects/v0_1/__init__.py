"""A2A 0.1: the oldest version, JSON-RPC only. A thin layer over 0.3; `gateway.identity` has its state."""

from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.dialect import JSONRPC, Dialect, Form, Loss
from a2a_bridge.dialects.v0_1 import card, errors
from a2a_bridge.dialects.v0_1.requests import PUSH_FORM, ROWS
from a2a_bridge.dialects.v0_3.forms import LOSSES

_OPERATIONS: dict[ops.Operation[Any, Any], str] = {
    ops.LIST_PUSH_CONFIGS: "0.1 has no such operation: a task has one configuration",
    ops.DELETE_PUSH_CONFIG: "0.1 has no such operation",
    ops.GET_EXTENDED_AGENT_CARD: "0.1 has no such operation",
}
_REQUESTS = {operation.request.DESCRIPTOR.name: reason for operation, reason in _OPERATIONS.items()}
_RESPONSE = ops.LIST_PUSH_CONFIGS.response.DESCRIPTOR.name

DIALECT = Dialect(
    version="0.1",
    card=card.FORM,
    forms={JSONRPC: Form(ROWS, errors.encode_jsonrpc, errors.decode_jsonrpc)},
    push=PUSH_FORM,
    declares=False,
    extensions=("x-a2a-extensions", "a2a-extensions"),
    final_events=True,
    losses=(
        # If a request is lost as a whole, its members are not listed.
        *(
            loss
            for loss in LOSSES
            if loss.path.partition(".")[0] not in {*_REQUESTS, _RESPONSE} and loss.concerns(JSONRPC.name)
        ),
        *(Loss(name, reason) for name, reason in _REQUESTS.items()),
        Loss("StreamResponse.task.history", "a stream of 0.1 has no event that holds a whole task"),
    ),
)
