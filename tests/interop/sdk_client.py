"""The official SDK's client as a Service of ours. What its exceptions lack is not added here."""

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
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import signed_extras
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from tests.patience import PATIENCE

#: operations with other names in the SDK
_METHODS = {**{one: one.method for one in ops.ALL}, ops.SUBSCRIBE_TO_TASK: "subscribe"}
#: other exceptions that the SDK's client passes on
_LEAKING = (httpx.HTTPError, grpc.aio.AioRpcError, ParseError)


def to_sdk(message: Any) -> Any:
    """A hub message as the SDK's class of the same name."""
    return getattr(a2a_pb2, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def from_sdk(message: Any) -> Any:
    return getattr(hub, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def error_of(error: Exception) -> A2AError:
    """An exception of the SDK as an A2AError; UNAVAILABLE if it is no A2A error of the SDK."""
    if isinstance(error, A2AClientTimeoutError):
        return A2AError(Reason.DEADLINE_EXCEEDED, str(error), blame=Blame.PEER)
    if not isinstance(error, SdkError) or isinstance(error, A2AClientError):
        return A2AError(Reason.UNAVAILABLE, str(error), blame=Blame.PEER)
    # The one A2A error that is missing there.
    name = A2A_ERROR_REASONS.get(type(error), "PARSE_ERROR")
    data = error.data if isinstance(error.data, dict) else {}
    violations = [
        Violation(item["field"], item["message"]) for item in data.get("errors", []) if isinstance(item, dict)
    ]
    metadata = {key: value for key, value in data.items() if isinstance(value, str)}
    return A2AError(Reason[name], error.message, violations=violations, metadata=metadata, blame=Blame.PEER)


class SdkService:
    """Calls an agent through the official client. The answer is that of the SDK."""

    def __init__(self, unary: Client, streaming: Client) -> None:
        self._unary, self._streaming = unary, streaming

    async def unary(self, call: Call[Any, Any], /) -> Any:
        request, context = _sealed(call), _context(call)
        try:
            if call.operation is ops.SEND_MESSAGE:
                # The SDK has one method for both; here it yields one response.
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


# Content of 0.x that 1.0 lacks is preserved beside the messages; the bindings of the bridge authenticate it on
# the way out and check it on the way in, and so does this code in their place.


def _sealed(call: Call[Any, Any]) -> Any:
    wire = signed_extras.seal_request(call.request.SerializeToString(), _path(call.operation))
    return getattr(a2a_pb2, call.request.DESCRIPTOR.name).FromString(wire)


def _opened(answer: Any, operation: ops.Operation[Any, Any]) -> Any:
    wire = signed_extras.open_response(answer.SerializeToString(), _path(operation))
    return operation.response.FromString(wire)


def _path(operation: ops.Operation[Any, Any]) -> str:
    return f"/lf.a2a.v1.A2AService/{operation.name}"


def _context(call: Call[Any, Any]) -> ClientCallContext:
    return ClientCallContext(service_parameters=dict(call.context.parameters) or None)


@asynccontextmanager
async def sdk_client(card: Any, binding: str) -> AsyncIterator[SdkService]:
    theirs = card if isinstance(card, a2a_pb2.AgentCard) else to_sdk(card)
    # No TLS here, and loading the certificates takes longer than a call.
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
        there = [one for one in theirs.supported_interfaces if one.protocol_binding == binding]
        if all(one.protocol_version.startswith("0.") for one in there):
            transport = type(clients[0]._transport).__module__
            assert transport.startswith("a2a.compat"), f"the SDK's client speaks 1.0, by {transport}"
        async with clients[0], clients[1]:
            yield SdkService(*clients)
