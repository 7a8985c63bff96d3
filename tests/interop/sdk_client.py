"""The official SDK's client as a Service of ours, so that every scenario runs with either client. Not a
client.

Messages cross over as bytes, exceptions by their class; what the SDK's exceptions do not carry (violations on
some bindings, metadata on gRPC) is not invented here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc.aio
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client, ClientCallContext
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import a2a_pb2
from a2a.utils.errors import A2A_ERROR_REASONS
from a2a.utils.errors import A2AError as SdkError
from google.protobuf.json_format import ParseError

from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import METHODS
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation
from a2a_bridge.core.event import Event, Events
from a2a_bridge.dialects import carrying
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from tests.patience import PATIENCE

#: operations that the SDK names otherwise than we do
_METHODS = {**METHODS, ops.SUBSCRIBE_TO_TASK: "subscribe"}
#: what the SDK's client lets through, besides its own errors
_LEAKING = (httpx.HTTPError, grpc.aio.AioRpcError, ParseError)


def to_sdk(message: Any) -> Any:
    """A hub message as the SDK's class of the same name."""
    return getattr(a2a_pb2, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def from_sdk(message: Any) -> Any:
    """A message of the SDK as the hub's class of the same name."""
    return getattr(hub, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def error_of(error: Exception) -> A2AError:
    """What the SDK raised, as an A2AError; UNAVAILABLE stands for all that is not an A2A error to the SDK."""
    if isinstance(error, A2AClientTimeoutError):
        return A2AError(Reason.DEADLINE_EXCEEDED, str(error), blame=Blame.PEER)
    if not isinstance(error, SdkError) or isinstance(error, A2AClientError):
        return A2AError(Reason.UNAVAILABLE, str(error), blame=Blame.PEER)
    # The one A2A error without an entry there.
    name = A2A_ERROR_REASONS.get(type(error), "PARSE_ERROR")
    data = error.data if isinstance(error.data, dict) else {}
    violations = [
        Violation(item["field"], item["message"]) for item in data.get("errors", []) if isinstance(item, dict)
    ]
    metadata = {key: value for key, value in data.items() if isinstance(value, str)}
    return A2AError(Reason[name], error.message, violations=violations, metadata=metadata, blame=Blame.PEER)


class SdkService:
    """Calls an agent through the official client. The answer is what the SDK made of it."""

    def __init__(self, unary: Client, streaming: Client) -> None:
        self._unary = unary
        self._streaming = streaming

    async def unary(self, call: Call[Any, Any], /) -> Any:
        request = _sealed(call)
        context = _context(call)
        try:
            if call.operation is ops.SEND_MESSAGE:
                # The SDK has one method for both; what it yields here is one response.
                events = [event async for event in self._unary.send_message(request, context=context)]
                (event,) = events
                which = event.WhichOneof("payload")
                answer = a2a_pb2.SendMessageResponse(**{which: getattr(event, which)})
                return _opened(answer, ops.SEND_MESSAGE)
            method = getattr(self._unary, _METHODS[call.operation])
            answer = await method(request, context=context)
        except (SdkError, *_LEAKING) as error:
            raise error_of(error) from error
        return Empty() if answer is None else _opened(answer, call.operation)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        client = self._streaming
        method = client.send_message if call.operation is ops.SEND_STREAMING_MESSAGE else client.subscribe
        events: Any = method(_sealed(call), context=_context(call))
        try:
            async with aclosing(events):
                async for event in events:
                    yield Event(_opened(event, call.operation))
        except (SdkError, *_LEAKING) as error:
            raise error_of(error) from error


# What the terms of 0.x have and 1.0 has not is carried beside the messages; the bindings of the bridge seal
# that on the way out and open it on the way in, and so does whoever stands in for them.


def _sealed(call: Call[Any, Any]) -> Any:
    wire = carrying.sealed_request(call.request.SerializeToString(), _path(call.operation))
    return getattr(a2a_pb2, call.request.DESCRIPTOR.name).FromString(wire)


def _opened(answer: Any, operation: ops.Operation[Any, Any]) -> Any:
    wire = carrying.opened_response(answer.SerializeToString(), _path(operation))
    return operation.response.FromString(wire)


def _path(operation: ops.Operation[Any, Any]) -> str:
    return f"/lf.a2a.v1.A2AService/{operation.name}"


def _context(call: Call[Any, Any]) -> ClientCallContext:
    return ClientCallContext(service_parameters=dict(call.context.parameters) or None)


@asynccontextmanager
async def sdk_client(card: Any, binding: str) -> AsyncIterator[SdkService]:
    """The official client for one binding of a card (hub's or SDK's class)."""
    theirs = card if isinstance(card, a2a_pb2.AgentCard) else to_sdk(card)
    # Nothing here speaks TLS, and loading the certificates takes longer than a call.
    async with httpx.AsyncClient(timeout=PATIENCE, verify=False) as http:  # noqa: S501
        clients = [
            ClientFactory(
                ClientConfig(
                    streaming=streaming,
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    supported_protocol_bindings=[binding],
                )
            ).create(theirs)
            for streaming in (False, True)
        ]
        async with clients[0], clients[1]:
            yield SdkService(*clients)
