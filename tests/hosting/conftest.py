"""Every test of hosting checks that no task of the loop is left and that no unexpected error is logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
