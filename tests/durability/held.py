"""The resources of the process that runs this: tasks, timers, sockets, files, threads."""

import asyncio
import gc
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any


def counts() -> dict[str, Any]:
    """Numbers by name, and `of`: the tasks, files and threads in words. For a running event loop."""
    gc.collect()
    loop = asyncio.get_running_loop()
    timers = [handle for handle in getattr(loop, "_scheduled", ()) if not handle.cancelled()]
    tasks, files = asyncio.all_tasks(), _files()
    return {
        "tasks": len(tasks),
        "timers": len(timers),
        "files": sum(files.values()),
        "sockets": files["socket"],
        "threads": threading.active_count(),
        "resident": _resident(),
        "of": {
            "tasks": dict(Counter(_name(task) for task in tasks)),
            "timers": dict(Counter(_called(handle) for handle in timers)),
            "files": dict(files),
            "threads": dict(Counter(_pool(thread) for thread in threading.enumerate())),
        },
    }


def _name(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", repr(coroutine))


def _called(handle: asyncio.TimerHandle) -> str:
    callback = getattr(handle, "_callback", None)
    return getattr(callback, "__qualname__", repr(callback))


def _pool(thread: threading.Thread) -> str:
    """The name of a thread, without its number in a pool: `asyncio` for `asyncio_3`."""
    name, _, number = thread.name.rpartition("_")
    return name if number.isdecimal() else thread.name


def _files() -> Counter[str]:
    """Open files by kind: `socket`, `pipe`, `anon_inode`, or the name of a file."""
    found: Counter[str] = Counter()
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            # The file descriptor of this list.
            continue
        found[target.partition(":")[0] if ":" in target else Path(target).name] += 1
    return found


def _resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
