"""Compares proto/ with its last released state by `buf breaking`; it needs git and no schema registry.

The last released state is, in this order: the last release tag before HEAD; the commit where HEAD left
main; the commit before HEAD. A clone without any of them (shallow, or the first commit) has no such state;
a message says so, and this is not an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
BUF = Path(sys.executable).parent / "buf"


def git(*arguments: str) -> str | None:
    """The output of a git command in this repository; None if git fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def baseline() -> tuple[str, str] | None:
    """A commit to compare with and its description; None if this clone has no earlier state of proto/."""
    head = git("rev-parse", "HEAD")
    # HEAD^ and not HEAD: a release is compared with the release before it, not with itself.
    tag = (git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^") or "").strip()
    candidates = [
        (git("rev-parse", f"{tag}^{{commit}}") if tag else None, f"release {tag}"),
        (git("merge-base", "HEAD", "main"), "main"),
        (git("merge-base", "HEAD", "origin/main"), "origin/main"),
        (git("rev-parse", "--verify", "HEAD^"), "the commit before"),
    ]
    for found, name in candidates:
        if found and found != head and git("ls-tree", found.strip(), "proto/"):
            return found.strip(), name
    return None


def checkout(commit: str, workspace: Path) -> None:
    """Writes the protos of `commit` as a buf workspace, under today's rules and with today's googleapis."""
    for name in (git("ls-tree", "-r", "--name-only", commit, "proto/") or "").splitlines():
        if name.endswith(".proto"):
            file = workspace / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(git("show", f"{commit}:{name}") or "")
    shutil.copyfile(ROOT / "buf.yaml", workspace / "buf.yaml")
    shutil.copytree(ROOT / ".build" / "googleapis", workspace / ".build" / "googleapis")


def main() -> int:
    """0 if nothing broke or there is no baseline; otherwise buf's exit code, after its message."""
    against = baseline()
    if against is None:
        print("buf breaking: not compared, this clone has no earlier proto/ (no tag, main or parent)")
        return 0
    commit, name = against
    print(f"buf breaking: comparing proto/ with {name} ({commit[:10]})", flush=True)
    with TemporaryDirectory() as scratch:
        checkout(commit, Path(scratch))
        command = [str(BUF), "breaking", str(ROOT / "proto"), "--against", str(Path(scratch) / "proto")]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
