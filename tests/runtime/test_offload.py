"""Large documents in threads: the threshold of Python's collector while they are in work."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from a2a_bridge import offload


@pytest.fixture
def _threshold(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(offload, "_rare_collections", offload._RareCollections())
    monkeypatch.setattr(offload, "_QUIET", 0)
    before = gc.get_threshold()
    gc.set_threshold(700, 11, 12)
    yield
    gc.set_threshold(*before)


async def _settled() -> tuple[int, int, int]:
    for _ in range(100):
        await asyncio.sleep(0)
        if gc.get_threshold()[0] != offload._COLLECTED:
            break
    return gc.get_threshold()


@pytest.mark.usefixtures("_threshold")
async def test_the_collector_runs_rarely_while_a_document_is_in_work() -> None:
    found = await asyncio.gather(*(offload.in_thread(gc.get_threshold) for _ in range(3)))
    assert found == [(offload._COLLECTED, 11, 12)] * 3
    assert await _settled() == (700, 11, 12)


@pytest.mark.usefixtures("_threshold")
async def test_a_failure_restores_the_threshold() -> None:
    with pytest.raises(ZeroDivisionError):
        await offload.in_thread(lambda: 1 // 0)
    assert await _settled() == (700, 11, 12)


@pytest.mark.usefixtures("_threshold")
@pytest.mark.parametrize("usual", [(0, 11, 12), (500_000, 11, 12)])
async def test_settings_of_the_application_are_left_alone(usual: tuple[int, int, int]) -> None:
    gc.set_threshold(*usual)
    assert await offload.in_thread(gc.get_threshold) == usual
    assert await _settled() == usual
