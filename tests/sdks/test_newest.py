"""The check of the pinned SDKs against their registries. No registry is asked."""

import pytest

from tests.sdks.newest import Version, newer, report, version_of
from tests.sdks.programs import SDKS


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v2.4.0", (2, 4, 0)),
        ("0.3.3.Final", (0, 3, 3)),
        ("1.0.0.Alpha3", None),
        ("1.0.0-beta.0", None),
        ("0.5.3", (0, 5, 3)),
    ],
)
def test_final_versions(text: str, version: Version | None) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("pinned", "offered", "found"),
    [
        ([(2, 4, 0)], [(2, 3, 1), (2, 4, 0)], []),
        ([(2, 3, 1)], [(2, 3, 1), (2, 4, 0)], [(2, 4, 0)]),
        # An older release beside the newest one of its line is no pin that has become old.
        ([(2, 4, 0), (2, 3, 1)], [(2, 3, 1), (2, 3, 2), (2, 4, 0)], []),
        ([(2, 4, 0), (2, 3, 1)], [(2, 3, 1), (2, 4, 0), (2, 4, 1)], [(2, 4, 1)]),
        ([(0, 3, 14), (1, 3, 0)], [(0, 3, 15), (1, 0, 1), (1, 3, 0)], [(0, 3, 15)]),
        ([(0, 3, 14), (1, 3, 0)], [(0, 3, 14), (1, 3, 0), (2, 0, 0)], [(2, 0, 0)]),
        ([(0, 3, 14), (1, 3, 0)], [(0, 2, 9), (0, 3, 14), (1, 3, 0)], []),
        ([(0, 5, 3)], [(0, 6, 0)], [(0, 6, 0)]),
    ],
)
def test_newer_versions(pinned: list[Version], offered: list[Version], found: list[Version]) -> None:
    assert newer(pinned, offered) == found


def test_each_sdk_is_asked_for_by_its_package(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str]] = []

    def asking(toolchain: str, package: str) -> list[Version]:
        asked.append((toolchain, package))
        if toolchain == "cargo":
            raise LookupError("no network")
        if package.endswith("a2a-go"):
            return [(0, 3, 3)]
        return [(99, 0, 0)] if toolchain == "npm" else []

    assert report(SDKS, asking) == ["@a2a-js/sdk: 99.0.0"]
    assert {toolchain for toolchain, _ in asked} == {one.toolchain for one in SDKS}
    assert len(asked) == len(set(asked)) == len({one.package for one in SDKS})
    out = capsys.readouterr().out
    assert "? a2a-server-lf 0.5.3: not known: no network" in out
    assert "? github.com/a2aproject/a2a-go 0.3.15: not known: the registry does not list the pinned" in out
    assert "● github.com/a2aproject/a2a-go/v2 2.4.0, 2.3.1" in out
