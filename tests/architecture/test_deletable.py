"""0.1 can be dropped: without its folder, its middleware and the LINES, everything else works."""

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import BIN, PRODUCT, ROOT, run

#: deleted: the dialect, its part of a gateway, and the tests of both
GONE = (
    "a2a_bridge/dialects/v0_1",
    "a2a_bridge/gateway/identity*.py",
    "tests/dialects/v0_1",
    "tests/gateway/*identity*.py",
    "tests/gateway/legacy_*.py",
)
#: files that lose the lines with this in them
LINES = {"a2a_bridge/dialects/__init__.py": "V0_1", "a2a_bridge/gateway/legacy.py": "identity"}
#: quick tests of the rest: versions, gateways, JSON-RPC
SUBSET = (
    "tests/core",
    "tests/dialects/test_detect.py",
    "tests/dialects/test_forms.py",
    "tests/gateway/test_card_rewriting.py",
    "tests/gateway/test_upstream.py",
    "tests/gateway/test_gateway.py",
    "tests/transports/test_jsonrpc_wire.py",
)
COPIED = (*PRODUCT, "tests", "pyproject.toml")


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without 0.1."""
    copy = tmp_path_factory.mktemp("without") / "project"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.pyc", "venvs")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, copy / name)
    for pattern in GONE:
        found = list(copy.glob(pattern))
        assert found, pattern
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for name, mark in LINES.items():
        lines = (copy / name).read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if mark not in line]
        assert len(kept) < len(lines), name
        (copy / name).write_text("".join(kept), "utf-8")
    return copy


def environment(folder: Path) -> dict[str, str]:
    # Before what is installed, which is the project itself.
    return {
        "PYTHONPATH": os.pathsep.join(
            [str(folder), str(folder / "transports"), str(folder / "tools"), str(folder / "adapters")]
        )
    }


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_only_a_few_lines_refer_to_the_deleted_version() -> None:
    """No other module imports it, so that the lists above are complete."""
    gone = {path for pattern in GONE for path in ROOT.glob(pattern)}
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            if gone & {path, *path.parents} or str(path.relative_to(ROOT)) in LINES:
                continue
            found = {
                name for name in imported(path) if "v0_1" in name or ".identity" in name or "V0_1" in name
            }
            assert not found, path
    lengths = {
        name: sum(mark in line for line in (ROOT / name).read_text("utf-8").splitlines())
        for name, mark in LINES.items()
    }
    assert max(lengths.values()) <= 4, lengths


def test_everything_else_imports(without: Path) -> None:
    program = (
        "import importlib, pkgutil, pathlib, a2a_bridge, a2a_bridge_tools, a2a_bridge_transports\n"
        f"root = pathlib.Path({str(without)!r})\n"
        "for package in (a2a_bridge, a2a_bridge_tools, a2a_bridge_transports):\n"
        "    assert root in pathlib.Path(package.__file__).parents\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not found.name.endswith(('__main__', '.migrations.env')):\n"
        "            importlib.import_module(found.name)\n"
        "from a2a_bridge.dialects import KNOWN, by_version\n"
        "assert by_version('0.1') is None and by_version('1.0') is KNOWN[0]\n"
        "from a2a_bridge.gateway import legacy\n"
        "assert legacy.build_legacy(KNOWN).middleware == ()\n"
    )
    done = run(sys.executable, "-c", program, cwd=without, **environment(without))
    assert done.returncode == 0, done.stderr


def test_the_import_contracts_hold_without_it(without: Path) -> None:
    done = run(BIN / "lint-imports", "--no-cache", cwd=without, **environment(without))
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_other_tests_pass_without_it(without: Path) -> None:
    done = run(
        # Few examples for tests with random input: no example of theirs depends on the version that is gone.
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--quick", *SUBSET),
        cwd=without,
        **environment(without),
    )
    assert done.returncode == 0, done.stdout
