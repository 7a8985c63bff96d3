"""BindingContract notices a transport that breaks its promises. Each test breaks one promise of the example
transport.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.testing.probe import Probe
from a2a_bridge.testing.samples import every_error
from examples.custom_transport.a2a_tcp import client, server
from tests.contracts.test_custom_transport import TestTcpBinding as Contract


async def breaks(name: str, *arguments: Any, within: float = 5.0) -> None:
    """Runs one test of the contract, which must fail: by an assertion, or by a timeout."""
    contract, probe = Contract(), Probe()
    with pytest.raises((AssertionError, TimeoutError, pytest.fail.Exception)):
        async with asyncio.timeout(within), contract.serve(probe) as near:
            await getattr(contract, name)(near, probe, *arguments)


async def holds(name: str, *arguments: Any) -> None:
    """Runs one test of the contract unchanged."""
    contract, probe = Contract(), Probe()
    async with contract.serve(probe) as near:
        await getattr(contract, name)(near, probe, *arguments)


async def test_a_server_that_does_not_wait_for_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_a_stalled_reader_costs_bounded_memory"
    await holds(name, True)

    async def send(connection: Any, data: bytes) -> None:
        connection._writer.write(data)
        await asyncio.sleep(0)

    monkeypatch.setattr(server.Connection, "_send", send)
    await breaks(name, True, within=60)


async def test_a_server_that_does_not_notice_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_closing_a_stream_reaches_the_service"
    await holds(name)
    gone = asyncio.Event()

    async def never(_: Any) -> None:
        await gone.wait()

    monkeypatch.setattr(server.Connection, "_gone", never)
    asyncio.get_running_loop().call_later(2, gone.set)
    await breaks(name, within=1)


async def test_a_server_that_tells_its_defects(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "test_defects_stay_in"
    await holds(name, ops.GET_TASK, caplog)
    monkeypatch.setattr(server, "internal_error", lambda: A2AError(Reason.INTERNAL_ERROR, "a secret"))
    await breaks(name, ops.GET_TASK, caplog)


async def test_a_client_that_loses_the_parameters_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_errors_arrive_whole"
    await holds(name, ops.GET_TASK, every_error()[0])

    def reply(status: int, body: Any) -> Any:
        return real(status, {**body, "data": body["data"][:1]})

    real = client.ErrorReply
    monkeypatch.setattr(client, "ErrorReply", reply)
    await breaks(name, ops.GET_TASK, every_error()[0])


async def test_a_client_that_sends_any_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_no_parameter_smuggles_another"
    await holds(name, "a\nb")
    for module in (client, server):
        monkeypatch.setattr(module, "check", dict)
    await breaks(name, "a\nb")


async def test_a_client_that_loses_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_the_deadline_arrives"
    await holds(name, ops.GET_TASK)
    monkeypatch.setattr(client, "_earlier", lambda _deadline, _limit: None)
    await breaks(name, ops.GET_TASK)
