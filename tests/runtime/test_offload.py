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
    callbacks = list(gc.callbacks)
    gc.set_threshold(700, 11, 12)
    yield
    gc.set_threshold(*before)
    gc.callbacks[:] = callbacks


def _settled() -> tuple[int, int, int]:
    """The threshold after the next collection."""
    gc.collect(0)
    return gc.get_threshold()


@pytest.mark.usefixtures("_threshold")
async def test_the_collector_runs_rarely_while_a_document_is_in_work() -> None:
    found = await asyncio.gather(*(offload.in_thread(gc.get_threshold) for _ in range(3)))
    assert found == [(offload._COLLECTED, 11, 12)] * 3
    assert _settled() == (700, 11, 12)


@pytest.mark.usefixtures("_threshold")
def test_the_end_of_an_event_loop_restores_the_threshold() -> None:
    for _ in range(2):
        assert asyncio.run(offload.in_thread(gc.get_threshold)) == (offload._COLLECTED, 11, 12)
    assert _settled() == (700, 11, 12)


@pytest.mark.usefixtures("_threshold")
async def test_a_failure_restores_the_threshold() -> None:
    with pytest.raises(ZeroDivisionError):
        await offload.in_thread(lambda: 1 // 0)
    assert _settled() == (700, 11, 12)


@pytest.mark.usefixtures("_threshold")
@pytest.mark.parametrize("usual", [(0, 11, 12), (500_000, 11, 12)])
async def test_settings_of_the_application_are_left_alone(usual: tuple[int, int, int]) -> None:
    gc.set_threshold(*usual)
    assert await offload.in_thread(gc.get_threshold) == usual
    assert _settled() == usual
