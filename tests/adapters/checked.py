"""An agent of a framework on sockets, before the checks of all adapters. No tests."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from a2a_bridge import Agent, serve
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.ext import ServeOptions
from tests.frameworks.adapter_checks import run_checks


async def faults(thing: Any, folder: Path, refuses: Collection[str] = (), **options: Any) -> dict[str, str]:
    """The faults of the checks of an agent of a framework, on sockets, with the official client.

    refuses: checks that its adapter refuses. options: of the adapter.
    """
    file = KeyFile(folder / "keys.json")
    keys = [file.create(name).text for name in ("ann", "bob")]
    serving = ServeOptions(authentication=Authentication([ApiKeys(file)]))
    async with serve(Agent.of(thing, **options), options=serving) as server:
        found = await run_checks(f"http://{server.http}", *keys, refuses)
    return {name: wrong for name, wrong in found.items() if wrong}
