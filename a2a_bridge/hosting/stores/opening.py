"""Opens the store that a URL names, and says in plain words why one cannot be opened. It keeps nothing
itself.

Rules:
1. What a store needs is imported when one of its kind is opened: who keeps tasks in memory loads no database.
2. What is told of a URL never holds its password.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a_bridge.hosting.ports import Store
from a2a_bridge.hosting.stores.options import StoreOptions

#: keeps everything in this process, for as long as it lives
MEMORY = "memory://"


@asynccontextmanager
async def open_store(url: str, options: StoreOptions | None = None) -> AsyncIterator[Store]:
    """The store of a URL while the context is open: `memory://`, `sqlite:///PATH` or `postgresql://…`.

    Raises StoreOpenError.
    """
    if url == MEMORY:
        from a2a_bridge.hosting.stores.memory import MemoryStore  # rule 1

        yield MemoryStore(max_memory=(options or StoreOptions()).max_memory)
        return
    from a2a_bridge.hosting.stores.sql.opened import opened  # rule 1

    async with opened(url, options or StoreOptions()) as store:
        yield store
