"""Copies google/api and google/rpc protos out of the installed googleapis-common-protos; it fetches nothing.

buf needs the sources of all imports; the locked package contains them.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

PACKAGES = ("google/api/", "google/rpc/")


def materialise(target: Path) -> int:
    """Replaces folder `target` by the protos of PACKAGES; returns how many files it wrote."""
    shutil.rmtree(target, ignore_errors=True)
    files = [
        file
        for file in distribution("googleapis-common-protos").files or ()
        if file.suffix == ".proto" and file.as_posix().startswith(PACKAGES)
    ]
    for file in files:
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(str(file.locate())), copy)
    return len(files)


if __name__ == "__main__":
    if materialise(Path(sys.argv[1])) == 0:
        raise SystemExit("googleapis-common-protos is installed without its .proto files")
