"""Makes the environment of an older SDK from its lock: `python -m tests.peers.install GENERATION FOLDER`.

Its Python is this one, or else the newest other one of the machine that the lock has builds for: no compiler is
needed. Where there is none, the environment stays empty, a line says so, and tests that need it are skipped
(`processes.python_of`).
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.interpreters import ROOT, find, minors

#: in the folder of an environment that cannot be made: the reason
ABSENT = "absent"


def install(generation: str, folder: Path) -> None:
    """Makes the environment, or an empty folder with the reason."""
    lock = ROOT / "requirements-peers" / f"{generation}.lock"
    others = (minor for minor in reversed(minors()) if minor != sys.version_info.minor)
    for program in (Path(sys.executable), *filter(None, map(find, others))):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([program, "-m", "venv", "--without-pip", folder], check=True)
        # By the pip of this environment, so that the new one holds nothing but what the lock names.
        pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install")
        words = (
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "--no-deps",
            "--only-binary",
            ":all:",
        )
        print(f"installing {lock.name} of the peers into {folder}, for {program}", flush=True)
        done = subprocess.run(
            [*pip, *words, "--require-hashes", "-r", lock], check=False, capture_output=True, text=True
        )
        if done.returncode == 0:
            return
        # A registry that does not answer is an error; a package without a build for this Python is not.
        if "No matching distribution found" not in done.stderr:
            raise SystemExit(done.stderr)
    shutil.rmtree(folder)
    folder.mkdir()
    reason = f"no Python of this machine has builds for the SDK of {generation}"
    (folder / ABSENT).write_text(reason, "utf-8")
    print(f"make: {reason}: tests that need it are skipped")


if __name__ == "__main__":
    install(sys.argv[1], Path(sys.argv[2]))
