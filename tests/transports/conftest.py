"""A host of HTTP with a scripted service, and a connection to it."""

from collections.abc import AsyncIterator

import pytest

from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_scene import Scripted, Wire, hosting, wire


@pytest.fixture
async def host() -> AsyncIterator[HttpHost]:
    async with hosting(Scripted()) as started:
        yield started


@pytest.fixture
async def connection(host: HttpHost) -> AsyncIterator[Wire]:
    async with wire(host) as opened:
        yield opened
