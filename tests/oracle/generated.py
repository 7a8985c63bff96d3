"""Has betterproto2's plugin generate its classes from our .proto, anew for each test session."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import grpc_tools

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "betterproto2_oracle"


def generate(folder: Path) -> ModuleType:
    """The module of package lf.a2a.v1, generated below a folder.

    Its relative imports need a package around it, which is why it is imported under a name of its own.
    """
    target = folder / PACKAGE
    target.mkdir()
    protos = ROOT / "proto"
    includes = [
        protos,
        Path(grpc_tools.__file__).parent / "_proto",
        distribution("googleapis-common-protos").locate_file(""),
    ]
    command = [
        sys.executable, "-m", "grpc_tools.protoc", *[f"-I{include}" for include in includes],
        f"--python_betterproto2_out={target}", "lf/a2a/v1/a2a.proto",
    ]  # fmt: skip
    # The plugin stands beside the interpreter, whether or not its environment is activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(
        command,
        cwd=protos,
        env={**os.environ, "PATH": path},
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    sys.path.insert(0, str(folder))
    try:
        return import_module(f"{PACKAGE}.lf.a2a.v1")
    finally:
        sys.path.remove(str(folder))
