"""Every lock covers its input, has hashes, and names no registry."""

import json
import re

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from a2a_bridge.testing.each import each
from tests.architecture.repository import ROOT, pyproject
from tests.interpreters import SUPPORTED

PYTHONS = tuple(f"3.{minor}" for minor in SUPPORTED)
MAIN = "requirements.lock"
DEMO = "examples/requirements.lock"
#: the older SDKs that tests talk to
PEERS = {path.with_suffix(".lock"): path for path in sorted((ROOT / "requirements-peers").glob("*.in"))}
TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in [ROOT / MAIN, *PEERS, ROOT / DEMO]}


def blocks(lock: str) -> list[str]:
    """The pins of a lock, each on a line of its own."""
    parts = re.split(r"\n(?=\S)", TEXTS[lock])
    return [block.replace("\\\n", " ") for block in parts if not block.startswith("#")]


def wanted() -> list[tuple[str, str]]:
    """Each lock and a requirement that it must meet."""
    pairs = {(MAIN, line) for line in wanted_here()}
    metadata = pyproject()
    pairs |= {
        (DEMO, line) for line in metadata["project"]["dependencies"] + metadata["dependency-groups"]["demo"]
    }
    for lock, source in PEERS.items():
        lines = [line.partition("#")[0].strip() for line in source.read_text("utf-8").splitlines()]
        pairs |= {(str(lock.relative_to(ROOT)), line) for line in lines if line}
    return sorted(pairs)


def wanted_here() -> list[str]:
    metadata, tools, adapters = pyproject(), pyproject("tools"), pyproject("adapters")
    groups = [
        metadata["project"]["dependencies"],
        *metadata["project"]["optional-dependencies"].values(),
        *metadata["dependency-groups"].values(),
        adapters["project"]["optional-dependencies"]["fronts"],
    ]
    ours = {one["project"]["name"] for one in (metadata, tools, adapters)}
    return sorted({line for group in groups for line in group if Requirement(line).name not in ours})


def environment_of(python: str) -> dict[str, str]:
    return {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}  # type: ignore[dict-item]


def pins(lock: str, python: str) -> dict[str, Version]:
    environment = environment_of(python)
    found: dict[str, Version] = {}
    for block in blocks(lock):
        requirement = Requirement(block.split("--hash")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice for Python {python}"
            found[name] = Version(str(requirement.specifier).removeprefix("=="))
    return found


@each("python", PYTHONS)
@each(("lock", "line"), wanted())
def test_every_requirement_is_pinned_within_its_bounds(lock: str, line: str, python: str) -> None:
    requirement = Requirement(line)
    if requirement.marker is None or requirement.marker.evaluate(environment_of(python)):
        assert requirement.specifier.contains(
            pins(lock, python)[canonicalize_name(requirement.name)], prereleases=True
        )


@pytest.mark.parametrize("lock", TEXTS)
def test_every_pin_has_hashes(lock: str) -> None:
    assert len(blocks(lock)) > len([one for one, _ in wanted() if one == lock])
    assert [block.split()[0] for block in blocks(lock) if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", TEXTS)
def test_a_lock_names_no_host_and_no_path(lock: str) -> None:
    text = TEXTS[lock]
    assert re.findall(r"https?:|file:|--(?:extra-)?index-url|--find-links|--trusted-host| @ ", text) == []
    assert re.findall(r"^-e .*|^\.?/.*", text, re.MULTILINE) == []


def test_packages_that_affect_generated_bytes_are_pinned() -> None:
    assert {"grpcio-tools", "googleapis-common-protos"} <= pins(MAIN, "3.11").keys()


def test_each_generation_of_the_sdk_has_its_lock() -> None:
    versions = [str(pins(lock, "3.13")["a2a-sdk"]) for lock in TEXTS]
    assert [version.rpartition(".")[0] for version in versions] == ["1.3", "0.2", "0.3", "1.3"]


def test_classifiers_and_workflows_name_the_pythons_of_the_tests() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [one for one in pyproject()["project"]["classifiers"] if one.startswith(prefix)]
    assert named == [f"{prefix}{minor}" for minor in SUPPORTED]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert f"python: {json.dumps(PYTHONS)}" in workflow
