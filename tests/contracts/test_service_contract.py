"""Layers between a caller and a service change nothing: middleware without work, clients, gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Events, Service
from a2a_bridge.testing.contracts import ServiceContract


class TestNothing(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        yield service


class _Agent(Client):
    """The eleven methods over a service, with the events of streams."""

    def send_streaming_message(self, request: Any, context: Any, /) -> Events:  # type: ignore[override]
        return self.service.stream(Call(ops.SEND_STREAMING_MESSAGE, request, context))

    def subscribe_to_task(self, request: Any, context: Any, /) -> Events:  # type: ignore[override]
        return self.service.stream(Call(ops.SUBSCRIBE_TO_TASK, request, context))


class TestElevenMethods(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        yield service_of(_Agent(service))
