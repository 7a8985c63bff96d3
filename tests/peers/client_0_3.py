"""The client of a2a-sdk 0.3, as a program without code of ours; lines.py has its protocol.

Its results are as the SDK's types print them. The SDK lists and deletes no push notification configs.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.transports.base import ClientTransport
from lines import main

#: operation -> the transport's method, and the type of what it takes
UNARY = {
    "message/send": ("send_message", types.MessageSendParams),
    "tasks/get": ("get_task", types.TaskQueryParams),
    "tasks/cancel": ("cancel_task", types.TaskIdParams),
    "tasks/pushNotificationConfig/set": ("set_task_callback", types.TaskPushNotificationConfig),
    "tasks/pushNotificationConfig/get": ("get_task_callback", types.GetTaskPushNotificationConfigParams),
}
STREAMING = {
    "message/stream": ("send_message_streaming", types.MessageSendParams),
    "tasks/resubscribe": ("resubscribe", types.TaskIdParams),
}


def dumped(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Client:
    """A transport of the SDK."""

    def __init__(self, transport: ClientTransport) -> None:
        self._transport = transport

    async def unary(self, operation: str, params: Any) -> Any:
        if operation == "agent/getAuthenticatedExtendedCard":
            # It requests the card only once, and returns the same one as long as it lives.
            self._transport._needs_extended_card = True
            return dumped(await self._transport.get_card())
        if operation not in UNARY:
            raise NotImplementedError(operation)
        name, model = UNARY[operation]
        return dumped(await getattr(self._transport, name)(model.model_validate(params)))

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        name, model = STREAMING[operation]
        async for event in getattr(self._transport, name)(model.model_validate(params)):
            yield dumped(event)


async def opened(binding: str, origin: str) -> Client:
    # No TLS here, and loading the certificates takes longer than a call.
    http = httpx.AsyncClient(timeout=240, verify=False)  # noqa: S501
    card = await A2ACardResolver(http, origin).get_agent_card()
    config = ClientConfig(
        httpx_client=http,
        grpc_channel_factory=grpc.aio.insecure_channel,
        supported_transports=[types.TransportProtocol(binding)],
    )
    return Client(ClientFactory(config).create(card)._transport)


if __name__ == "__main__":
    main(opened)
