"""requirements.lock covers pyproject.toml and names no place; whether it installs is shown by every `make`."""

from __future__ import annotations

import re

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.repository import ROOT, pyproject

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
BLOCKS = [block.replace("\\\n", " ") for block in re.split(r"\n(?=\S)", LOCK) if not block.startswith("#")]
PYTHONS = ("3.11", "3.12", "3.13")


def wanted() -> list[str]:
    metadata = pyproject()
    groups = [
        metadata["project"]["dependencies"],
        *metadata["project"]["optional-dependencies"].values(),
        *metadata["dependency-groups"].values(),
    ]
    return sorted({requirement for group in groups for requirement in group})


def pins(python: str) -> dict[str, Version]:
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    found: dict[str, Version] = {}
    for block in BLOCKS:
        requirement = Requirement(block.split("--hash")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice for Python {python}"
            found[name] = Version(str(requirement.specifier).removeprefix("=="))
    return found


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("line", wanted())
def test_every_requirement_is_pinned_within_its_bounds(line: str, python: str) -> None:
    requirement = Requirement(line)
    if requirement.marker is None or requirement.marker.evaluate():
        assert requirement.specifier.contains(
            pins(python)[canonicalize_name(requirement.name)], prereleases=True
        )


def test_every_pin_has_hashes() -> None:
    assert len(BLOCKS) > len(wanted())
    assert [block.split()[0] for block in BLOCKS if "--hash=sha256:" not in block] == []


def test_the_lock_names_no_host_and_no_path() -> None:
    assert re.findall(r"https?:|file:|--(?:extra-)?index-url|--find-links|--trusted-host| @ ", LOCK) == []
    assert re.findall(r"^-e .*|^\.?/.*", LOCK, re.MULTILINE) == []


def test_what_decides_generated_bytes_is_pinned() -> None:
    assert {"grpcio-tools", "googleapis-common-protos"} <= pins("3.11").keys()
