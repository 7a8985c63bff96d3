"""Stores of tasks, events and push notifications: one module or folder per kind of store, opened by URL.

Rules:
1. The modules of a database are imported when it is opened: a store in memory loads no database driver.
2. Error messages never contain the password of the URL.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a_bridge.core.extras import load
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.stores.memory import MemoryStore
from a2a_bridge.stores.ports import Store, StoreOpenError

__all__ = ["MEMORY", "MemoryStore", "StoreOpenError", "StoreOptions", "open_store"]

#: keeps everything in this process, until it ends
MEMORY = "memory://"


@asynccontextmanager
async def open_store(url: str, options: StoreOptions | None = None) -> AsyncIterator[Store]:
    """The store of a URL while the context is open: `memory://`, `sqlite:///PATH` or `postgresql://…`. Raises
    StoreOpenError, MissingExtraError.
    """
    if url == MEMORY:
        yield MemoryStore(max_memory=(options or StoreOptions()).max_memory)
        return
    load("sqlalchemy", "server")
    from a2a_bridge.stores.sql.store import open_sql_store  # rule 1

    async with open_sql_store(url, options or StoreOptions()) as store:
        yield store
