"""BindingContract notices each broken promise of a transport; the example transport breaks them."""

import asyncio
import inspect
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.testing.probe import Probe
from examples.custom_transport.a2a_tcp import TcpBinding, client, server, wire
from tests.contracts.test_custom_transport import TestTcpBinding as Contract


async def breaks(name: str, *arguments: Any, within: float = 5.0) -> None:
    """Runs one test of the contract, which must fail: by an assertion, or by a timeout."""
    failures = (AssertionError, TimeoutError, pytest.fail.Exception)
    with pytest.raises((*failures, BaseExceptionGroup)) as caught:
        async with asyncio.timeout(within):
            await holds(name, *arguments)
    if isinstance(caught.value, BaseExceptionGroup):  # of several rows
        assert caught.value.split(failures)[1] is None


async def holds(name: str, *arguments: Any) -> None:
    """Runs one test of the contract unchanged."""
    contract, probe = Contract(), Probe()
    test = getattr(contract, name)
    if "near" not in inspect.signature(test).parameters:
        await test(probe, *arguments)
        return
    async with contract.serve(probe) as near:
        await test(near, probe, *arguments)


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
    await holds(name)

    def reply(status: int, body: Any) -> Any:
        return real(status, {**body, "data": body["data"][:1]})

    real = client.ErrorReply
    monkeypatch.setattr(client, "ErrorReply", reply)
    await breaks(name)


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


async def test_a_client_that_loses_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_a_gap_is_reported"
    await holds(name, 0)
    monkeypatch.setattr(client, "Event", lambda message, id_, _gap: Event(message, id_))
    for before in (0, 1):
        await breaks(name, before)


async def test_a_server_that_sends_the_parameters_after_the_first_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "test_extensions_go_there_and_back"
    await holds(name, ops.SUBSCRIBE_TO_TASK)

    async def send(connection: Any, data: bytes) -> None:
        head = data.find(wire.frame({"parameters": {"a2a-extensions": "https://e.example/1"}}))
        if head == 0:
            size = wire.HEADER.size + wire.HEADER.unpack_from(data)[0]
            data = data[size:] + data[:size]
        await real(connection, data)

    real = server.Connection._send
    monkeypatch.setattr(server.Connection, "_send", send)
    await breaks(name, ops.SUBSCRIBE_TO_TASK)


async def test_a_server_that_knows_one_version_only(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_callers_of_two_versions_are_answered_in_theirs"
    await holds(name)
    monkeypatch.setattr(server, "detect", lambda _declared, offered: next(iter(offered)))
    await breaks(name)


async def test_a_server_that_writes_errors_in_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_callers_of_two_versions_are_answered_in_theirs"

    def error(connection: Any, raised: A2AError) -> bytes:
        return wire.frame({"error": connection._side.newest.encode_error(raised).body})

    monkeypatch.setattr(server.Connection, "_error", error)
    await breaks(name)


@pytest.mark.parametrize(
    "name", ["test_callers_are_identified", "test_callers_that_are_not_identified_reach_nothing"]
)
async def test_a_server_that_identifies_nobody(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    await holds(name, ops.GET_TASK)
    real = TcpBinding.host
    monkeypatch.setattr(
        TcpBinding,
        "host",
        lambda self, address, options: real(self, address, replace(options, authenticate=None)),
    )
    await breaks(name, ops.GET_TASK)


async def test_a_server_that_ignores_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_no_listener_without_tls_stands_in_for_one_with_it"
    await holds(name)
    real = TcpBinding.host
    monkeypatch.setattr(
        TcpBinding, "host", lambda self, address, options: real(self, address, replace(options, tls=None))
    )
    await breaks(name)


async def test_a_client_that_misjudges_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_a_connection_that_breaks_is_told_from_one_that_fails"
    await holds(name, ops.SEND_STREAMING_MESSAGE)

    def broken(text: str) -> A2AError:
        return A2AError(Reason.UNAVAILABLE, text, metadata={"phase": "connect"}, blame=Blame.PEER)

    monkeypatch.setattr(client, "_broken", broken)
    await breaks(name, ops.SEND_STREAMING_MESSAGE)


async def test_a_client_whose_streams_end_where_the_connection_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = client._Client._items

    async def items(self: Any, call: Any, limit: float | None) -> Events:
        with suppress(A2AError):
            async with aclosing(real(self, call, limit)) as events:
                async for event in events:
                    yield event

    monkeypatch.setattr(client._Client, "_items", items)
    await breaks("test_a_connection_that_breaks_is_told_from_one_that_fails", ops.SEND_STREAMING_MESSAGE)


async def test_a_host_that_waits_for_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_draining_does_not_wait_for_a_reader_that_has_stopped"
    await holds(name)
    monkeypatch.setattr(server.Connection, "abort", lambda _: None)
    await breaks(name)
