"""Runs the fast part of the tests on every other supported Python of this machine.

An interpreter counts when it is `python3.N` on the PATH or one of pyenv's versions, starts, and is 3.11 or
newer. Each gets an environment from requirements.lock. A supported version that is not there, and a newer one
without builds of the lock, are skipped with a message.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".build" / "interpreters"

#: the folders of our distributions
OURS = (".", "tools", "adapters")

#: minor versions of Python 3 that the tests were run on; requirements.lock has wheels for them
SUPPORTED = range(11, 16)

#: the tests that depend most on the interpreter (asyncio, json, typing) and need no other environment
SUITES = (
    "core",
    "hosting",
    "runtime",
    "codec/test_text.py",
    "codec/test_second_opinion.py",
    "transports/test_sse.py",
    "transports/test_grpc_server.py",
)


def pyenv() -> Path:
    """The folder with pyenv's versions, which need not exist."""
    return Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def minors() -> list[int]:
    """The supported minor versions, and newer ones that this machine has."""
    folders = [*map(Path, os.get_exec_path()), *pyenv().glob("3.*/bin")]
    names = [
        re.fullmatch(r"python3\.(\d+)", one.name) for place in folders for one in place.glob("python3.*")
    ]
    found = {int(name[1]) for name in names if name is not None}
    return sorted({*SUPPORTED, *(minor for minor in found if minor not in range(SUPPORTED.start))})


def candidates(minor: int) -> list[Path]:
    """Programs that may be Python 3.`minor`."""
    on_path = shutil.which(f"python3.{minor}")
    found = sorted(pyenv().glob(f"3.{minor}.*/bin/python3.{minor}"), reverse=True)
    return [*([Path(on_path)] if on_path else []), *found]


def starts(program: Path, minor: int) -> bool:
    """Whether it is Python 3.`minor` with venv; pyenv has shims for versions that are not selected."""
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, {minor}))"
    done = subprocess.run([str(program), "-c", check], check=False, capture_output=True, timeout=60)
    return done.returncode == 0


def find(minor: int) -> Path | None:
    """The first program that is Python 3.`minor`; None without one."""
    return next((one for one in candidates(minor) if starts(one, minor)), None)


def environment(minor: int, program: Path) -> Path:
    """Makes the environment of one interpreter, or finds it as it should be; returns its Python."""
    folder = FOLDER / f"3.{minor}"
    python, stamp = folder / "bin" / "python", folder / "requirements.lock"
    made_of = ("requirements.lock", *(f"{one}/pyproject.toml" for one in OURS))
    lock = b"".join((ROOT / name).read_bytes() for name in made_of)
    if not stamp.exists() or stamp.read_bytes() != lock:
        print(f"making {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([str(program), "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        locked = ("--only-binary", ":all:", "--require-hashes", "-r", str(ROOT / "requirements.lock"))
        subprocess.run([*pip, *locked], check=True)
        editable = [word for one in OURS for word in ("-e", str(ROOT / one))]
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", *editable], check=True)
        stamp.write_bytes(lock)
    return python


def main() -> int:
    """Runs the fast part on each interpreter; 0 only if it passes on every one."""
    failed = []
    for minor in minors():
        if minor == sys.version_info.minor:
            continue
        program = find(minor)
        if program is None:
            print(f"== Python 3.{minor}: not on this machine, skipped", flush=True)
            continue
        try:
            python = environment(minor, program)
        except subprocess.CalledProcessError:
            if minor in SUPPORTED:
                raise
            print(f"== Python 3.{minor}: the lock has no builds for it, skipped", flush=True)
            continue
        subprocess.run([str(python), "-c", "import sys; print('==', sys.version, flush=True)"], check=True)
        suites = [str(ROOT / "tests" / name) for name in SUITES]
        command = [str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *suites]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(f"3.{minor}")
    print(f"interpreters: {f'failed on {failed}' if failed else 'no failure'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
