"""Every test of hosting checks that no task of the loop is left and that no unexpected error is logged."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.hosting.scene import PATIENCE


@pytest.fixture(autouse=True)
async def nothing_is_left_behind() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, pending = await asyncio.wait(left, timeout=PATIENCE)
        assert not pending


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, in which programs may leave nothing but the folder of the server."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    for server in tmp_path.glob("a2a-bridge-programs-*"):
        assert [one.name for one in server.iterdir()] == [".lock"]
