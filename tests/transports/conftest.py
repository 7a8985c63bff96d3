"""A host of HTTP with a scripted service, and a connection to it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from a2a_bridge_transports._http.host import HttpHost
from a2a_bridge_transports._http.input_states import TRANSITIONS, Input
from a2a_bridge_transports._http.protocol import Connection
from tests.transports.http_scene import Scripted, Wire, hosting, wire


@pytest.fixture
async def host() -> AsyncIterator[HttpHost]:
    async with hosting(Scripted()) as started:
        yield started


@pytest.fixture
async def connection(host: HttpHost) -> AsyncIterator[Wire]:
    async with wire(host) as opened:
        yield opened


@pytest.fixture(autouse=True)
def legal_inputs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No connection goes from state to state in another way than the table has, also where it does not ask it."""
    slot: Any = Connection.input
    illegal: list[tuple[Input, Input]] = []

    def change(connection: Connection, after: Input) -> None:
        with suppress(AttributeError):  # before the first state
            if after not in TRANSITIONS[slot.__get__(connection)]:
                illegal.append((slot.__get__(connection), after))
        slot.__set__(connection, after)

    monkeypatch.setattr(Connection, "input", property(slot.__get__, change))
    yield
    assert not illegal
