"""Layers between a caller and a service change nothing: middleware without work, clients, gateways."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Events, Service
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.contracts import ServiceContract, StoreContract
from a2a_bridge.testing.each import each


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


# --- The store in memory passes the contract of stores ---
class TestMemoryStore(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        yield MemoryStore()


# --- `each`: every row is tried, and a failure names its row ---
@each("number, text", [(1, "a"), pytest.param(2, "b", id="second")])
def test_rows_share_fixtures(tmp_path_factory: pytest.TempPathFactory, number: int, text: str) -> None:
    assert (number, text) in {(1, "a"), (2, "b")}
    assert tmp_path_factory is not None


@each(("number",), [(1,), (2,)])
@each("text", ["a", "b"])
async def test_rows_of_rows(number: int, text: str) -> None:
    assert text * number in {"a", "b", "aa", "bb"}


def test_all_rows_that_fail_are_told() -> None:
    tried = []

    @each("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        tried.append(number)
        assert number != 2
        if number == 4:
            pytest.fail("no")

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows failed") as caught:
        check()
    assert tried == [1, 2, 3, 4]
    assert [one.__notes__ for one in caught.value.exceptions] == [["row: number=2"], ["row: number=4"]]


async def test_a_single_failure_is_itself() -> None:
    @each("number", [1, 2])
    async def check(number: int) -> None:
        if number == 2:
            raise LookupError

    with pytest.raises(LookupError) as caught:
        await check()
    assert caught.value.__notes__ == ["row: number=2"]


@pytest.mark.parametrize("rows", [[], [pytest.param(1, marks=pytest.mark.skip)], [(1, 2, 3)]])
def test_rows_that_are_none(rows: list[object]) -> None:
    with pytest.raises(ValueError, match=r"no rows|marks|argument"):
        each("a, b", rows)
