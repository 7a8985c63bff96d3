"""The clients of the demo, the official one and ours, behind one interface. The steps are elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import A2A_ERROR_REASONS
from a2a.utils.errors import A2AError as OfficialError

import a2a_bridge
from a2a_bridge.ext import hub


class Caller(Protocol):
    """Either client. Requests, answers and events are the official SDK's protobuf messages."""

    async def call(self, operation: str, request: Any) -> Any: ...

    def stream(self, operation: str, request: Any) -> AsyncIterator[Any]: ...


class Rejected(Exception):  # noqa: N818  a plain word for the output
    """The error of a client: the name of the A2A error, and its text."""


class Official:
    """The official client. One of its methods is both kinds of send, and its configuration decides."""

    def __init__(self, unary: Any, streaming: Any) -> None:
        self._unary = unary
        self._streaming = streaming

    async def call(self, operation: str, request: Any) -> Any:
        with self._errors():
            if operation != "send_message":
                return await getattr(self._unary, operation)(request)
            (answer,) = [event async for event in self._unary.send_message(request)]
            return answer

    async def stream(self, operation: str, request: Any) -> AsyncIterator[Any]:
        names = {"send_streaming_message": "send_message", "subscribe_to_task": "subscribe"}
        with self._errors():
            async with aclosing(getattr(self._streaming, names[operation])(request)) as events:
                async for event in events:
                    yield event

    @staticmethod
    @contextlib.contextmanager
    def _errors() -> Any:
        try:
            yield
        except OfficialError as error:
            raise Rejected(A2A_ERROR_REASONS[type(error)], error.message) from None


class Ours:
    """The bridge's client with the SDK's classes as arguments and results; the bytes of both are equal."""

    def __init__(self, peer: a2a_bridge.Client) -> None:
        self._peer = peer

    async def call(self, operation: str, request: Any) -> Any:
        try:
            return _theirs(await getattr(self._peer, operation)(_ours(request)))
        except a2a_bridge.A2AError as error:
            raise Rejected(error.name, error.message) from None

    async def stream(self, operation: str, request: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(getattr(self._peer, operation)(_ours(request))) as events:
                async for event in events:
                    yield _theirs(event)
        except a2a_bridge.A2AError as error:
            raise Rejected(error.name, error.message) from None


def _ours(message: Any) -> Any:
    return getattr(hub, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def _theirs(message: Any) -> Any:
    kind = getattr(a2a, message.DESCRIPTOR.name, None)
    return None if kind is None else kind.FromString(message.SerializeToString())


@asynccontextmanager
async def official(url: str, binding: str, _version: str = "1.0") -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(timeout=300) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        unary, streaming = (
            ClientFactory(
                ClientConfig(
                    streaming=streaming,
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    supported_protocol_bindings=[binding],
                )
            ).create(card)
            for streaming in (False, True)
        )
        async with unary, streaming:
            yield Official(unary, streaming)


@asynccontextmanager
async def ours(url: str, binding: str, version: str = "1.0") -> AsyncIterator[Caller]:
    async with a2a_bridge.connect(url, binding=binding, version=version) as peer:
        yield Ours(peer)
