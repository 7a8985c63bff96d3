"""Makes a release in dist/, and tries it as a stranger would: `python -m release [--final] [--build-only]`.

1. The source distribution of each project, and from it the wheel; twice, and both times must be equal. They
   have files that git knows, and no others, such as secrets of this machine.
2. `twine check` and `check-wheel-contents`.
3. On every Python of this machine: each installation in an environment of its own, from these files and a
   registry, with no file of the repository on the path. `smoke.py` runs on the base, the demo on everything,
   the fronts on theirs. On this Python also `uvx` and `pipx`.
4. The bill of materials (CycloneDX) of everything, the notes of the version from CHANGELOG.md, and
   SHA256SUMS.

dist/packages has what is published, dist/ the rest. Nothing is published here: the workflow `release` does
that.
Exit code 0 if everything passed, 1 if not.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Collection
from pathlib import Path

from release.trial import FailedError, run, try_all

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PACKAGES = DIST / "packages"
#: the programs of release/requirements.lock
PROGRAMS = ROOT / ".build" / "release" / "bin"
#: the folders of the distributions, in the order of their requirements
FOLDERS = (".", "tools", "adapters")


def main() -> int:
    """Runs the steps of the command line."""
    parser = argparse.ArgumentParser(prog="python -m release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--final", action="store_true", help="reject what may not be published")
    parser.add_argument("--build-only", action="store_true", help="build and check, and install nothing")
    parser.add_argument("--compare", action="store_true", help="measure installations of other packages, too")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    try:
        notes = notes_of(version, (ROOT / "CHANGELOG.md").read_text("utf-8"), final=options.final)
        if options.final:
            check_state(version)
        shutil.rmtree(DIST, ignore_errors=True)
        PACKAGES.mkdir(parents=True)
        build_twice(version)
        for archive in sorted(PACKAGES.glob("*.tar.gz")):
            check_files(archive, [path for path in _git("ls-files", "-z").split("\0") if path])
        run(PROGRAMS / "twine", "check", "--strict", *sorted(PACKAGES.iterdir()))
        run(PROGRAMS / "check-wheel-contents", *sorted(PACKAGES.glob("*.whl")))
        if not options.build_only:
            try_all(PACKAGES, DIST, PROGRAMS, version, compare=options.compare)
    except (FailedError, OSError, subprocess.SubprocessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    (DIST / f"NOTES-{version}.md").write_text(notes, "utf-8")
    sums = sums_of(PACKAGES, DIST)
    (DIST / "SHA256SUMS").write_text(sums, "utf-8")
    print(f"release: {version} is in {PACKAGES.relative_to(ROOT)}", sums, sep="\n", end="")
    return 0


def sums_of(packages: Path, dist: Path) -> str:
    """The lines of SHA256SUMS: the distributions, and the bill of materials if there is one."""
    published = (*sorted(packages.iterdir()), *sorted(dist.glob("*.cdx.json")))
    return "".join(f"{digest(path)}  {path.name}\n" for path in published)


def notes_of(version: str, changelog: str, *, final: bool) -> str:
    """The section of a version in a changelog; before the release that of Unreleased."""
    sections = dict(
        re.findall(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    )
    if final and version not in sections:
        raise FailedError(
            f"CHANGELOG.md has no section [{version}]: rename [Unreleased], and begin a new one"
        )
    found = str(sections.get(version) or sections.get("Unreleased") or "").strip()
    if not found:
        raise FailedError(f"CHANGELOG.md says nothing of {version}")
    return f"# a2a-transport-bridge {version}\n\n{found}\n"


def check_state(version: str) -> None:
    """Raises FailedError for files without a commit, and for a commit without the tag of the version."""
    changed = _git("status", "--porcelain")
    if changed:
        raise FailedError(f"there are files without a commit:\n{changed}")
    tags = _git("tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        raise FailedError(f"the commit has no tag v{version}")


def build_twice(version: str) -> None:
    """Builds all distributions into PACKAGES, and again elsewhere; raises FailedError if the bytes differ."""
    # The time of the commit is that of each file in an archive.
    moment = _git("log", "-1", "--format=%ct") or "1580601600"
    with tempfile.TemporaryDirectory() as second:
        for target in (PACKAGES, Path(second)):
            for folder in FOLDERS:
                print(f"release: building {folder}", flush=True)
                # The wheel is made of the source distribution, which must therefore be complete.
                command = (
                    PROGRAMS / "python",
                    "-m",
                    "build",
                    "--no-isolation",
                    "--outdir",
                    target,
                    ROOT / folder,
                )
                run(*command, SOURCE_DATE_EPOCH=moment)
        for path in sorted(PACKAGES.iterdir()):
            if f"-{version}" not in path.name:
                raise FailedError(f"{path.name} is not of version {version}")
            if digest(path) != digest(Path(second) / path.name):
                raise FailedError(f"{path.name} has other bytes when it is built again")


def check_files(archive: Path, known: Collection[str]) -> None:
    """Raises FailedError for a file of a source distribution that git does not know. `git status` does not
    show files that rules of this machine hide, and the build does not read those rules.

    known: the paths in the repository. Without any, outside of a repository, nothing is checked.
    """
    with tarfile.open(archive) as opened:
        names = [one.name.partition("/")[2] for one in opened.getmembers() if one.isfile()]
    known = {"PKG-INFO", *known} if known else names
    foreign = [
        name for name in names if name not in known and not any(f"{one}/{name}" in known for one in FOLDERS)
    ]
    if foreign:
        raise FailedError(f"{archive.name} has files that git does not know: {', '.join(foreign)}")


def _git(*words: str) -> str:
    """The output of git; empty outside of a repository."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
