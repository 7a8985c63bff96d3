"""Opens the store for the parts of the store contracts. No tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from a2a_bridge.stores.ports import Store


class OpensStores:
    """Opens the store under test."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with self.opened() as store:
            yield store
