"""The example of a version in a distribution of its own: its tests pass, and faulty entry points are rejected."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.dialects import V0_3, V1_0, known
from a2a_bridge.dialects.known import GROUP, KnownDialects
from a2a_bridge.ext import Engine, MemoryStore, Scope, Store, StoreBase, TaskRow
from a2a_bridge.extensions import BrokenExtensionError
from tests.agents import EchoAgent
from tests.patience import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_version"


def installed(folder: Path) -> Path:
    """The metadata with entry points that `pip install` would write for the example. No network is needed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=EXAMPLE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(EXAMPLE), str(installed(folder)), *sys.path))},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )


def test_the_example_passes_its_own_tests(tmp_path: Path) -> None:
    done = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "test_version.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_command_serves_an_installed_version(tmp_path: Path) -> None:
    done = run(tmp_path, "a2a_bridge", "serve", "none.py", "--versions", "9.9")
    assert done.returncode == 2
    assert "1.1" in done.stderr, "the versions that can be served name the installed one"


def versions(monkeypatch: pytest.MonkeyPatch, **loaded: Any) -> KnownDialects:
    for name, value in loaded.items():
        monkeypatch.setattr(sys.modules[__name__], name, value, raising=False)
    points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in loaded]
    monkeypatch.setattr(known, "entry_points", lambda *, group: points if group == GROUP else [])
    return KnownDialects((V1_0, V0_3))


def test_versions_of_entry_points_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    later = replace(V1_0, version="1.1")
    found = versions(monkeypatch, later=later)
    assert list(found) == [later, V1_0, V0_3]
    assert (found[0], found[1:], len(found)) == (later, (V1_0, V0_3), 3)


def test_a_module_may_read_the_versions_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Any]] = []

    class Reading(EntryPoint):
        def load(self) -> Any:
            seen.append(list(found))
            return replace(V1_0, version="1.1")

    monkeypatch.setattr(known, "entry_points", lambda *, group: [Reading("1.1", "anything", group)])
    found = KnownDialects((V1_0, V0_3))
    assert len(found) == 3
    assert seen == [[V1_0, V0_3]]


@pytest.mark.parametrize(
    ("loaded", "problem"),
    [
        ({"nothing": object()}, "names no Dialect"),
        ({"odd": replace(V1_0, version="next")}, "names no Dialect with a version"),
        ({"again": replace(V1_0, version="1.0.3")}, "defined by a2a_bridge too"),
        (
            {"one": replace(V1_0, version="1.1"), "two": replace(V1_0, version="1.1")},
            "defined by '.*:one' too",
        ),
    ],
)
def test_faulty_entry_points_are_named(
    monkeypatch: pytest.MonkeyPatch, loaded: dict[str, Any], problem: str
) -> None:
    found = versions(monkeypatch, **loaded)
    for _ in range(2):
        with pytest.raises(BrokenExtensionError, match=problem):
            list(found)


# The example of a store that is written with the base class passes its own tests.


STORE_EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_store"


def test_the_example_of_a_store_passes_its_own_tests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_store.py"],
        cwd=STORE_EXAMPLE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(STORE_EXAMPLE), *sys.path))},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "107 passed, 1 skipped" in done.stdout


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
        match=r"^Own is no Store: it lacks push_configs, outbox, create, open, get, working_copy, get_many, list,",
    ):
        Engine(EchoAgent(), store=Own())
    with pytest.raises(TypeError, match=r"^object is no Store"):
        Engine(EchoAgent(), store=object())  # type: ignore[arg-type]
