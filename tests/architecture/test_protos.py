"""`buf` accepts our protos, and rejects changes that would break a peer; tests/pb checks the facts."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import BIN, ROOT, run

A2A = "proto/lf/a2a/v1/a2a.proto"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the files that buf and proto/breaking.py read, without a git repository."""
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copyfile(ROOT / "buf.yaml", tmp_path / "buf.yaml")
    done = run(sys.executable, ROOT / "proto" / "googleapis.py", tmp_path / ".build" / "googleapis")
    assert done.returncode == 0, done.stderr
    (tmp_path / ".gitignore").write_text(".build/\n")
    return tmp_path


def edit(workspace: Path, old: str, new: str) -> None:
    file = workspace / A2A
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def git(workspace: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    done = run("git", *identity, *arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr


def commit(workspace: Path, *tags: str) -> None:
    if not (workspace / ".git").exists():
        git(workspace, "init", "-q", "-b", "main")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "state")
    for tag in tags:
        git(workspace, "tag", tag)


def breaking(workspace: Path) -> tuple[int, str]:
    done = run(sys.executable, workspace / "proto" / "breaking.py", cwd=workspace)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_buf_lint_accepts_the_protos(workspace: Path) -> None:
    done = run(BIN / "buf", "lint", "proto", cwd=workspace)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_buf_lint_still_rejects_other_faults(workspace: Path) -> None:
    edit(workspace, "message StringList", "message string_list {}\n\nmessage StringList")
    done = run(BIN / "buf", "lint", "proto", cwd=workspace)
    assert done.returncode != 0
    assert "string_list" in done.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("string context_id = 2;", "string session_id = 2;"),
        ("string context_id = 2;", "bytes context_id = 2;"),
        ("string context_id = 2;", "repeated string context_id = 2;"),
        ("string context_id = 2;", ""),
        ("string context_id = 2;", 'string context_id = 2 [json_name = "contextID"];'),
        ("TASK_STATE_REJECTED = 7;", "TASK_STATE_REFUSED = 7;"),
    ],
    ids=["renamed", "retyped", "repeated", "removed", "json renamed", "enum value renamed"],
)
def test_a_planted_break_is_rejected(workspace: Path, old: str, new: str) -> None:
    commit(workspace)
    edit(workspace, old, new)
    commit(workspace)
    code, words = breaking(workspace)
    assert code != 0
    assert "a2a.proto" in words


def test_an_addition_is_accepted(workspace: Path) -> None:
    commit(workspace)
    edit(workspace, "string context_id = 2;", "string context_id = 2;\n  string note = 99;")
    commit(workspace)
    assert breaking(workspace)[0] == 0


def test_the_first_commit_has_no_baseline(workspace: Path) -> None:
    commit(workspace)
    code, words = breaking(workspace)
    assert code == 0
    assert "not compared" in words


def test_no_repository_is_reported(workspace: Path) -> None:
    code, words = breaking(workspace)
    assert code == 0
    assert "not compared" in words


def test_a_branch_is_compared_with_main(workspace: Path) -> None:
    commit(workspace)
    git(workspace, "checkout", "-q", "-b", "topic")
    edit(workspace, "string context_id = 2;", "string session_id = 2;")
    commit(workspace)
    commit(workspace)
    code, words = breaking(workspace)
    assert code != 0
    assert "with main" in words


def test_the_last_release_is_the_baseline(workspace: Path) -> None:
    """Breaks before the release are allowed. The release and all later commits are compared."""
    commit(workspace)
    edit(workspace, "string context_id = 2;", "string session_id = 2;")
    commit(workspace, "v1.2.3")
    commit(workspace)
    code, words = breaking(workspace)
    assert code == 0
    assert "v1.2.3" in words
    edit(workspace, "string session_id = 2;", "string context_id = 2;")
    commit(workspace)
    commit(workspace, "v1.2.4")
    code, words = breaking(workspace)
    assert code != 0, "a release is compared with the one before it"
    assert "v1.2.3" in words
