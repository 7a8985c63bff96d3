"""The import contracts hold, cover every module, and catch what they forbid."""

import shutil
from pathlib import Path

import pytest

from tests.architecture.repository import BIN, ROOT, pyproject, run

CONTRACTS = pyproject()["tool"]["importlinter"]["contracts"]
PACKAGES = [
    *("a2a_bridge", "a2a_bridge_transports"),
    *(
        f"a2a_bridge/{name}"
        for name in ("pb", "codec", "peers", "core", "dialects", "bindings", "cards", "gateway", "hosting")
    ),
    *(f"a2a_bridge/{name}" for name in ("middleware", "app", "cli", "testing")),
    *(f"a2a_bridge/dialects/{name}" for name in ("v1_0", "v0_3")),
    *(f"a2a_bridge_transports/{name}" for name in ("_http", "jsonrpc", "http_json", "grpc")),
]
MODULES = (
    "a2a_bridge/bindings/binding.py",
    "a2a_bridge/app/runtime.py",
    "a2a_bridge_transports/jsonrpc/wire.py",
)


def test_the_contracts_hold() -> None:
    done = run(BIN / "lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout


def test_every_module_of_the_product_stands_in_a_layer() -> None:
    layers = next(contract["layers"] for contract in CONTRACTS if contract["id"] == "layers")
    named = {name.strip(" ()").removeprefix("a2a_bridge.") for layer in layers for name in layer.split("|")}
    found = {
        path.stem
        for path in (ROOT / "a2a_bridge").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - named == {"__init__"}


def skeleton(folder: Path) -> None:
    """Both root packages, with nothing in them, under the real contracts."""
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    for package in PACKAGES:
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    for module in MODULES:
        (folder / module).touch()


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("a2a_bridge/core/__init__.py", "import a2a_bridge.dialects", "layers"),
        ("a2a_bridge/codec/__init__.py", "from a2a_bridge.core import call", "layers"),
        ("a2a_bridge/gateway/__init__.py", "import a2a_bridge.hosting", "layers"),
        ("a2a_bridge/hosting/__init__.py", "import a2a_bridge.testing", "layers"),
        ("a2a_bridge_transports/_http/__init__.py", "import a2a_bridge.app.runtime", "layers"),
        ("a2a_bridge_transports/grpc/__init__.py", "import a2a_bridge_transports.jsonrpc.wire", "bindings"),
        ("a2a_bridge_transports/_http/__init__.py", "import a2a_bridge_transports.http_json", "bindings"),
        ("a2a_bridge/dialects/v1_0/__init__.py", "import a2a_bridge.dialects.v0_3", "dialects"),
        ("a2a_bridge/codec/__init__.py", "import logging", "pure"),
        ("a2a_bridge/core/__init__.py", "import asyncio", "pure"),
        ("a2a_bridge/dialects/v1_0/__init__.py", "import ssl", "pure"),
        ("a2a_bridge_transports/jsonrpc/wire.py", "import aiohttp", "pure"),
        ("a2a_bridge/app/runtime.py", "import grpc", "networks"),
        ("a2a_bridge/cards/__init__.py", "import aiohttp", "networks"),
        ("a2a_bridge/app/runtime.py", "import a2a_bridge_transports.grpc", "networks"),
    ],
)
def test_a_planted_violation_breaks_its_contract(tmp_path: Path, module: str, line: str, broken: str) -> None:
    skeleton(tmp_path)
    (tmp_path / module).write_text(f"{line}\n")
    done = run(
        BIN / "lint-imports", "--no-cache", "--contract", broken, cwd=tmp_path, PYTHONPATH=str(tmp_path)
    )
    assert done.returncode == 1, done.stdout
    assert "0 kept, 1 broken" in done.stdout


def test_allowed_imports_break_no_contract(tmp_path: Path) -> None:
    skeleton(tmp_path)
    (tmp_path / "a2a_bridge" / "core" / "__init__.py").write_text("import a2a_bridge.codec\n")
    (tmp_path / "a2a_bridge" / "runtime.py").write_text("import asyncio\nimport a2a_bridge.hosting\n")
    (tmp_path / "a2a_bridge" / "dialects" / "v0_3" / "__init__.py").write_text(
        "import a2a_bridge.dialects.v1_0\n"
    )
    (tmp_path / "a2a_bridge_transports" / "grpc" / "__init__.py").write_text(
        "import grpc\nimport a2a_bridge.cards\nimport a2a_bridge_transports._http\n"
    )
    done = run(BIN / "lint-imports", "--no-cache", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout
