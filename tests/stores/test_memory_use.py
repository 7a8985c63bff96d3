"""The memory of a process that has written much into SQLite: neither statements nor threads keep their
arguments.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.store_scene import COMPLETED, Author, found, rest
from tests.patience import PATIENCE

#: writes 30 tasks of 8 MB side by side, and prints by how many MB the process has grown
PROGRAM = """
import asyncio, ctypes, gc, os, sys

import psutil

from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.store_scene import COMPLETED, Author

async def main():
    async with open_store(sys.argv[1], StoreOptions(ack_timeout=600)) as store:
        before = psutil.Process().memory_info().rss
        authors = [Author(store).begin(f"t{number}") for number in range(30)]
        for _ in range(80):
            for author in authors:
                author.chunk("x" * 100_000)
            await authors[0].writer.room()
        for author in authors:
            author.status(COMPLETED)
        await asyncio.gather(*(author.writer.sync() for author in authors))
        del author, authors
        gc.collect()
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
        print((psutil.Process().memory_info().rss - before) // 1_000_000)

asyncio.run(main())
"""


async def test_large_and_small_rows_share_a_transaction(url: str) -> None:
    sizes = [1, 5000, 10, 4096, 4097, 300_000, 20, 2_000_000]
    async with open_store(url, StoreOptions(ack_timeout=PATIENCE)) as store:
        authors = [Author(store).begin(f"t{number}") for number in range(len(sizes))]
        for author, size in zip(authors, sizes, strict=True):
            author.chunk("x" * size)
            author.chunk("y")
        await asyncio.gather(*(author.sync() for author in authors))
        for author in authors:
            author.status(COMPLETED)
        await asyncio.gather(*(author.sync() for author in authors))
    async with open_store(url) as store:
        for author, size in zip(authors, sizes, strict=True):
            assert (await found(store, author.task.id)).task == author.task
            events = ["x" * size, "y", COMPLETED]
            assert (await rest(store.subscribe(author.task.id, 1))) == events


async def test_written_data_is_not_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(tmp_path / "writes.py"),
        f"sqlite:///{tmp_path / 'tasks.db'}",
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    # 240 MB were written. The page cache of SQLite is at most 64 MB for the writing connection.
    assert int(out) < 160
