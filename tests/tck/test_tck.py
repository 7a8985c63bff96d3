"""`make tck` with suites that have the command line of the official ones and a few tests of their own."""

import subprocess
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.tck import __main__ as tck

RUN_1_0 = """
    import subprocess, sys
    at = sys.argv.index("--sut-host")
    extra = sys.argv[sys.argv.index("--") + 1 :]
    ours = [f"--sut={sys.argv[at + 1]}", "-q", "-p", "no:cacheprovider"]
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", "tests", *ours, *extra]).returncode)
"""
RUN_0_3 = """
    import argparse, subprocess, sys
    parser = argparse.ArgumentParser()
    parser.add_argument("--sut-url", required=True)
    parser.add_argument("--category", required=True)
    parser.add_argument("--transports")
    given = parser.parse_args()
    if given.category in ("mandatory", "transport-equivalence"):
        ours = [f"--sut={given.sut_url}", "-q", "-p", "no:cacheprovider"]
        sys.exit(subprocess.run([sys.executable, "-m", "pytest", "tests", *ours]).returncode)
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", "tests", f"--sut={given.sut_url}", "-k", "sends"]).returncode)
"""
CONFTEST = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--sut")

    @pytest.fixture
    def sut(request):
        return request.config.getoption("--sut")
"""
TESTS = """
    import json, urllib.request
    import pytest

    def read(url, tree=None, **headers):
        body = None if tree is None else json.dumps(tree).encode()
        headers["Content-Type"] = "application/json"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            return json.load(answer)

    def state(sut, message_id):
        message = {"messageId": message_id, "role": ROLE, "parts": [PART]}
        call = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {"message": message}}
        return STATE(read(sut, call, **HEADERS)["result"])

    def test_card(sut):
        grpc = [one["url"] for one in read(f"{sut}/.well-known/agent-card.json")["additionalInterfaces"] if one["transport"] == "GRPC"]
        assert grpc[-1].startswith("http://") == URL_LAST

    def test_sends(sut):
        assert state(sut, "tck-input-required") == INPUT_REQUIRED

    def test_that_is_wrong():
        assert 1 == 2, "a fault of the suite\\nwith details"

    @pytest.mark.skip
    def test_of_what_is_not_declared():
        raise AssertionError
"""
NEW = """
    ROLE, PART, METHOD, URL_LAST = "ROLE_USER", {"text": "x"}, "SendMessage", False
    HEADERS, STATE = {"A2A-Version": "1.0"}, lambda result: result["task"]["status"]["state"]
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
"""
OLD = """
    ROLE, PART, METHOD, URL_LAST = "user", {"kind": "text", "text": "x"}, "message/send", True
    HEADERS, STATE = {}, lambda result: result["status"]["state"]
    INPUT_REQUIRED = "input-required"
"""
REST = ["rest mandatory ", "transport-equivalence "]
WRONG = "tests.test_agent::test_that_is_wrong"


def checkout(folder: Path, runner: str, names: str) -> Path:
    files = {
        "run_tck.py": runner,
        "tests/__init__.py": "",
        "tests/conftest.py": CONFTEST,
        "tests/test_agent.py": dedent(names) + dedent(TESTS),
        "pytest.ini": "[pytest]",
    }
    for name, text in files.items():
        path = folder / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder / "suite"


@pytest.fixture
def expects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files with expected failures."""
    monkeypatch.setattr(tck, "EXPECTED", tmp_path)
    return tmp_path


def test_a_suite_of_1_0_with_its_known_failure(expects: Path, capfd: pytest.CaptureFixture[str]) -> None:
    suite = checkout(expects, RUN_1_0, NEW)
    (expects / "1.0.toml").write_text(f'"{WRONG}" = "1 is not 2"\n')
    assert tck.main([str(suite)]) == 0
    assert "a2a-tck for 1.0: 3 tests, 1 failed" in capfd.readouterr().out


def test_a_suite_of_0_3_is_run_in_parts_and_has_other_results(
    expects: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old, oldest = tck.SUITES
    assert [part.name for part in old.parts][::4] == ["jsonrpc mandatory ", "grpc mandatory ", *REST]
    few = tuple(part for part in old.parts if part.name in ("jsonrpc mandatory ", "rest quality ", REST[-1]))
    monkeypatch.setattr(tck, "SUITES", (new, replace(old, parts=few), oldest))
    suite = checkout(expects, RUN_0_3, OLD)
    (expects / "0.3.toml").write_text(
        f'"jsonrpc mandatory {WRONG}" = "1 is not 2"\n"rest quality tests.test_agent::test_sends" = "once"\n"x" = "y"\n'
    )
    assert tck.main([str(suite)]) == 1
    lines = [line.strip() for line in capfd.readouterr().out.splitlines()]
    assert "a2a-tck for 0.3: 7 tests, 2 failed" in lines
    [line] = [line for line in lines if line.startswith(f"failed: transport-equivalence {WRONG}: ")]
    assert "a fault of the suite" in line
    assert "passed, expected to fail: rest quality tests.test_agent::test_sends (once)" in lines
    assert "not run, expected to fail: x (y)" in lines
    assert lines[-1] == "3 differences"


def test_a_suite_that_does_not_run_is_no_success(expects: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert tck.main([str(expects)]) == 2
    assert "is no checkout of a2a-tck" in capfd.readouterr().err
    suite = checkout(expects, "raise SystemExit('no --sut-host')", NEW)
    assert tck.main([str(suite)]) == 2
    assert "run_tck.py" in capfd.readouterr().err


def test_a_part_that_does_not_end_is_a_failure_and_the_others_are_run(
    expects: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old, oldest = tck.SUITES
    parts = (
        tck.Part("waits ", ("--category", "waits")),
        tck.Part("rest quality ", ("--category", "quality")),
    )
    monkeypatch.setattr(tck, "SUITES", (new, replace(old, parts=parts), oldest))
    waits = "import sys, threading\n    if 'waits' in sys.argv: threading.Event().wait()\n"
    suite = checkout(expects, f"\n    {waits}{RUN_0_3}", OLD)
    (expects / "0.3.toml").write_text('"waits (all tests)" = "it waits"\n')
    run = subprocess.run

    def hasty(command: list[str], **options: Any) -> Any:
        return run(command, **options | {"timeout": 0.1 if "waits" in command else tck.RUN})

    monkeypatch.setattr(subprocess, "run", hasty)
    assert tck.main([str(suite)]) == 0
    assert "a2a-tck for 0.3: 2 tests, 1 failed" in capfd.readouterr().out


def test_an_expected_failure_needs_a_reason(expects: Path) -> None:
    (expects / "1.0.toml").write_text('"a::b" = ""\n')
    with pytest.raises(ValueError, match="'a::b' needs a reason"):
        tck.expected("1.0")


def test_the_files_of_all_suites_can_be_read() -> None:
    assert all(tck.expected(suite.version) for suite in tck.SUITES)
