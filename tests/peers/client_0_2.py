"""The clients of a2a-sdk 0.2, as a program without code of ours; lines.py has its protocol.

The SDK has one for JSON-RPC and one for gRPC, without resubscribing, listing and deleting push configs.
"""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import grpc.aio
import httpx
from a2a import types
from a2a.client import A2ACardResolver, A2AClient, A2AGrpcClient
from a2a.grpc import a2a_pb2_grpc
from lines import main

EXTENDED_CARD = "agent/getAuthenticatedExtendedCard"

#: operation -> the method of both clients, the type of the JSON-RPC request, the type of the params
UNARY = {
    "message/send": ("send_message", types.SendMessageRequest, types.MessageSendParams),
    "tasks/get": ("get_task", types.GetTaskRequest, types.TaskQueryParams),
    "tasks/cancel": ("cancel_task", types.CancelTaskRequest, types.TaskIdParams),
    "tasks/pushNotificationConfig/set": (
        "set_task_callback",
        types.SetTaskPushNotificationConfigRequest,
        types.TaskPushNotificationConfig,
    ),
    "tasks/pushNotificationConfig/get": (
        "get_task_callback",
        types.GetTaskPushNotificationConfigRequest,
        types.GetTaskPushNotificationConfigParams,
    ),
}


class AnsweredWithError(Exception):
    """A response with a JSON-RPC error, which this SDK returns and does not raise."""

    def __init__(self, error: Any) -> None:
        super().__init__(error)
        self.error = error


def dumped(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def result(response: Any) -> Any:
    if isinstance(response.root, types.JSONRPCErrorResponse):
        raise AnsweredWithError(response.root.error)
    return dumped(response.root.result)


class JsonRpcClient:
    def __init__(self, http: httpx.AsyncClient, client: A2AClient) -> None:
        self._http, self._client = http, client

    async def unary(self, operation: str, params: Any) -> Any:
        if operation == EXTENDED_CARD:
            resolver = A2ACardResolver(self._http, self._client.url)
            return dumped(await resolver.get_agent_card("/agent/authenticatedExtendedCard"))
        if operation not in UNARY:
            raise NotImplementedError(operation)
        name, request, model = UNARY[operation]
        asked = request(id=str(uuid4()), params=model.model_validate(params))
        return result(await getattr(self._client, name)(asked))

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        if operation != "message/stream":
            raise NotImplementedError(operation)
        asked = types.SendStreamingMessageRequest(
            id=str(uuid4()), params=types.MessageSendParams.model_validate(params)
        )
        async for response in self._client.send_message_streaming(asked):
            yield result(response)


class GrpcClient:
    """A2AGrpcClient. It has no method for the extended card."""

    def __init__(self, url: str) -> None:
        stub = a2a_pb2_grpc.A2AServiceStub(grpc.aio.insecure_channel(url))
        # The card is kept there, and not used.
        self._client = A2AGrpcClient(stub, None)

    async def unary(self, operation: str, params: Any) -> Any:
        if operation not in UNARY:
            raise NotImplementedError(operation)
        name, _, model = UNARY[operation]
        return dumped(await getattr(self._client, name)(model.model_validate(params)))

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        if operation != "message/stream":
            raise NotImplementedError(operation)
        async for event in self._client.send_message_streaming(
            types.MessageSendParams.model_validate(params)
        ):
            yield dumped(event)


async def opened(binding: str, origin: str) -> JsonRpcClient | GrpcClient:
    # No TLS here, and loading the certificates takes longer than a call.
    http = httpx.AsyncClient(timeout=240, verify=False)  # noqa: S501
    card = await A2ACardResolver(http, origin).get_agent_card()
    if binding == "JSONRPC":
        return JsonRpcClient(http, A2AClient(http, agent_card=card))
    # The SDK does not choose a transport: its clients get an address.
    declared = [(card.preferred_transport, card.url)]
    declared += [(one.transport, one.url) for one in card.additional_interfaces or []]
    return GrpcClient(dict(declared)["GRPC"])


if __name__ == "__main__":
    main(opened)
