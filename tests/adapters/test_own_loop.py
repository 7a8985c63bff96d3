"""Coroutines that run in a thread with an event loop of their own."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from a2a_bridge_adapters import own_loop
from a2a_bridge_adapters.own_loop import in_own_loop
from tests.patience import PATIENCE


async def test_a_result_and_an_error_come_back() -> None:
    async def gives() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def exits() -> None:
        raise SystemExit(3)

    assert await in_own_loop(gives) is not asyncio.get_running_loop()
    with pytest.raises(RuntimeError, match="SystemExit"):
        await in_own_loop(exits)


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancellation_reaches_it(
    begun: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_loop, "GRACE", PATIENCE)
    loop, begins, ended = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    is_cancelled = threading.Event()

    async def waits() -> None:
        loop.call_soon_threadsafe(begins.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def make() -> Coroutine[Any, Any, None]:
        if not begun:
            is_cancelled.wait(PATIENCE)
        return waits()

    turn = asyncio.create_task(in_own_loop(make))
    if begun:
        await asyncio.wait_for(begins.wait(), PATIENCE)
    else:
        await asyncio.sleep(0)
    turn.cancel()
    await asyncio.sleep(0)
    is_cancelled.set()
    await asyncio.wait([turn], timeout=PATIENCE)
    assert turn.cancelled()
    assert ended.is_set() is begun
    assert "still runs" not in caplog.text


async def test_code_that_blocks_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_loop, "GRACE", 0)
    loop, begins, ends = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    async def blocks() -> None:
        loop.call_soon_threadsafe(begins.set)
        ends.wait(PATIENCE)

    turn = asyncio.create_task(in_own_loop(blocks))
    await asyncio.wait_for(begins.wait(), PATIENCE)
    turn.cancel()
    await asyncio.wait([turn], timeout=PATIENCE)
    assert turn.cancelled()
    assert "still runs: it blocks its thread" in caplog.text
    ends.set()
