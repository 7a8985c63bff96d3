"""The example of a store that is written with the base class passes its own tests."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.ext import Engine, MemoryStore, Scope, Store, StoreBase, TaskRow
from tests.agents import EchoAgent
from tests.patience import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_store"


def test_the_example_passes_its_own_tests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_store.py"],
        cwd=EXAMPLE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(EXAMPLE), *sys.path))},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "104 passed, 1 skipped" in done.stdout


class Half:
    """It lacks the methods for lists, for sent messages, and others."""

    async def read_tasks(self, tasks: Sequence[tuple[Scope, str]]) -> Sequence[TaskRow | None]: ...

    async def read_events(self, task_id: str, after: int, size: int) -> Any: ...

    async def write(self, changes: Sequence[Any]) -> Sequence[Any]: ...


async def test_a_driver_that_lacks_methods_is_rejected_with_all_of_them() -> None:
    with pytest.raises(
        TypeError, match=r"^Half is no driver: it lacks find, held, read_sent, delete_expired, close$"
    ):
        StoreBase(Half())  # type: ignore[arg-type]


def test_a_store_with_the_protocols_that_lacks_members_is_rejected_with_all_of_them() -> None:
    class Own(Store):
        durable = False
        memory = MemoryAccount()
        remote = None
        sends = MemoryStore().sends

        def rejection(self) -> None:
            return None

    with pytest.raises(
        TypeError,
        match=r"^Own is no Store: it lacks push_configs, outbox, create, open, get, get_many, list,",
    ):
        Engine(EchoAgent(), store=Own())
    with pytest.raises(TypeError, match=r"^object is no Store"):
        Engine(EchoAgent(), store=object())  # type: ignore[arg-type]
