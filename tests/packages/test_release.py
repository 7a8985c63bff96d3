"""What `make release` makes, and what it rejects; its trial of installations needs a registry, and is no test."""

import json
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import trial
from release.__main__ import check_files, digest, notes_of, sums_of
from release.trial import FailedError
from tests.architecture.repository import ROOT, run
from tests.packages import environments

pytestmark = pytest.mark.process

CHANGELOG = """# Changelog

## [Unreleased]

- next

## [0.2.0] - 2026-01-01

### Added

- this

## [0.1.0] - 2025-01-01

- that
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    assert notes_of("0.2.0", CHANGELOG, final=True) == "# a2a-transport-bridge 0.2.0\n\n### Added\n\n- this\n"
    assert notes_of("0.1.0", CHANGELOG, final=True) == "# a2a-transport-bridge 0.1.0\n\n- that\n"


def test_before_the_release_the_notes_are_those_of_unreleased() -> None:
    assert notes_of("0.3.0", CHANGELOG, final=False) == "# a2a-transport-bridge 0.3.0\n\n- next\n"
    with pytest.raises(FailedError, match=r"no section \[0\.3\.0\]"):
        notes_of("0.3.0", CHANGELOG, final=True)
    with pytest.raises(FailedError, match=r"says nothing of 0\.3\.0"):
        notes_of("0.3.0", "# Changelog\n", final=False)


@pytest.mark.parametrize("name", environments.OURS)
def test_a_wheel_from_the_source_distribution_is_that_of_the_repository(name: str, tmp_path: Path) -> None:
    """So the source distribution is complete, and two builds are equal."""
    source = environments.OURS[name]
    done = run(sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "first", cwd=source)
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    again = run(
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=unpacked
    )
    assert again.returncode == 0, again.stderr
    first, second = ((tmp_path / folder).glob("*.whl") for folder in ("first", "again"))
    assert [digest(path) for path in first] == [digest(path) for path in second] != []


@pytest.mark.parametrize("name", environments.OURS)
def test_a_distribution_has_metadata_that_older_programs_read(name: str, tmp_path: Path) -> None:
    """Twine 6 and indexes of its time reject versions after 2.4."""
    done = run(sys.executable, "-m", "hatchling", "build", "-d", tmp_path, cwd=environments.OURS[name])
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    (source,) = tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (one for one in opened.namelist() if one.endswith("/METADATA"))
        assert opened.read(metadata).startswith(b"Metadata-Version: 2.4\n")
    with tarfile.open(source) as archive:
        (found,) = (one for one in archive.getmembers() if one.name.endswith("/PKG-INFO"))
        read = archive.extractfile(found)
        assert read is not None
        assert read.read().startswith(b"Metadata-Version: 2.4\n")


def test_a_release_has_no_file_that_git_does_not_know(tmp_path: Path) -> None:
    """Such as the keys of whoever builds it, also where rules of the machine hide them from `git status`."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    (clone / ".git/info/exclude").write_text(".env\n")
    known = subprocess.run(
        ["git", "ls-files"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout.split()
    for folder, package in ((clone, "a2a_bridge"), (clone / "tools", "a2a_bridge_tools")):
        for secret in (False, True):
            if secret:
                (folder / package / ".env").write_text("KEY=1")
            out = tmp_path / f"{package}-{secret}"
            done = run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=folder)
            assert done.returncode == 0, done.stderr
            (archive,) = out.glob("*.tar.gz")
            if secret:
                with pytest.raises(FailedError, match=rf"git does not know: (.*, )?{package}/\.env"):
                    check_files(archive, known)
            else:
                check_files(archive, known)
        (folder / package / ".env").unlink()


def test_a_release_is_tried_in_a_folder_with_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """pipx splits the arguments that it passes on."""
    ran: list[tuple[object, ...]] = []

    def record(*command: object, **_: object) -> str:
        ran.append(command)
        return "a2a-bridge 1.0"

    monkeypatch.setattr(trial, "run", record)
    packages = Path("/a clone/dist")
    trial.try_runners(Path("/programs"), packages, "1.0", Path("/work"))
    uv, pipx = ran
    assert uv[uv.index("--find-links") + 1] == packages
    assert shlex.split(str(pipx[pipx.index("--pip-args") + 1])) == ["--find-links", "/a clone/dist"]


def test_the_bill_of_materials_names_its_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the lock reads name and version from pyproject.toml, and gives no purl."""
    bill, ran = tmp_path / "bill.cdx.json", list[object]()
    subject: dict[str, str] = {}

    def write(*command: object, **_: object) -> str:
        ran.extend(command)
        written = {"metadata": {"component": subject} if subject else {}, "components": [{"name": "one"}]}
        bill.write_text(json.dumps(written))
        return ""

    monkeypatch.setattr(trial, "run", write)
    with pytest.raises(FailedError, match=r"the subject of bill\.cdx\.json is \(None, None\)"):
        trial.list_materials(Path("/programs"), Path("/all"), bill, "1.0")
    subject |= {"name": trial.NAME, "version": "1.0"}
    trial.list_materials(Path("/programs"), Path("/all"), bill, "1.0")
    assert (ran[ran.index("--pyproject") + 1], ran[-1]) == (ROOT / "pyproject.toml", Path("/all"))
    written = json.loads(bill.read_text())
    assert written["metadata"]["component"] == subject | {"purl": f"pkg:pypi/{trial.NAME}@1.0"}
    assert written["components"] == [{"name": "one"}]


def test_the_sums_are_of_all_that_is_published(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    published = packages / "b.whl", packages / "c.tar.gz", tmp_path / "a.cdx.json"
    for path in published[:2]:
        path.write_text(path.name)
    assert sums_of(packages, tmp_path) == "".join(f"{digest(path)}  {path.name}\n" for path in published[:2])
    (tmp_path / "NOTES-1.0.md").write_text("notes")
    published[2].write_text("{}")
    assert sums_of(packages, tmp_path) == "".join(f"{digest(path)}  {path.name}\n" for path in published)


def test_each_distribution_has_the_licence() -> None:
    texts = {(folder / "LICENSE").read_bytes() for folder in environments.OURS.values()}
    assert len(texts) == 1


def test_a_final_release_is_a_tagged_commit(tmp_path: Path) -> None:
    """In a clone: the state of this repository does not matter."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    done = run(sys.executable, "-m", "release", "--final", cwd=clone)
    assert done.returncode == 1
    assert "rename [Unreleased]" in done.stderr
