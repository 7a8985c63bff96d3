"""What stands between a caller and a service changes nothing: middleware with nothing to do, clients, gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.service import Service
from a2a_bridge.testing.contracts import ServiceContract


class TestNothing(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        yield service


class TestElevenMethods(ServiceContract):
    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        yield service_of(Client(service))
