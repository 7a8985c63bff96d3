"""`make acts` with small documents of its own."""

from pathlib import Path

import pytest

from tests.tools.acts import __main__ as acts

DOCUMENT = """
acts_version: "1.0"
suites:
  - id: own
    name: Own
    tests:
      - id: OWN-COMPLETE-001
        name: A task completes
        level: must
        steps:
          - id: send
            operation: send_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-complete-task}]}}
            expect: {status: 200, body: {task: {status: {state: TASK_STATE_COMPLETED}}}}
      - id: OWN-TURNS-001
        name: A task asks until it is told that all is done
        level: must
        steps:
          - id: ask
            operation: send_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-multi-turn}]}}
            capture: {task: task.id, context: task.contextId}
          - id: again
            operation: send_message
            params: {taskId: "{{ask.task}}", contextId: "{{ask.context}}", message: {role: ROLE_USER, parts: [{text: more}]}}
            expect: {body: {task: {status: {state: TASK_STATE_INPUT_REQUIRED}}}}
          - id: end
            operation: send_message
            params: {taskId: "{{ask.task}}", contextId: "{{ask.context}}", message: {role: ROLE_USER, parts: [{text: done}]}}
            expect: {body: {task: {status: {state: TASK_STATE_COMPLETED}}}}
      - id: OWN-WRONG-001
        name: Wants what is not so
        level: must
        steps: [{id: list, operation: list_tasks, params: {}, expect: {body: {tasks: {count: -1}}}}]
      - id: CARD-EXT-900
        name: The extended card, for those who may
        level: may
        preconditions: {capabilities: {extendedAgentCard: true}}
        steps: [{id: card, operation: get_agent_card, params: {extended: true}, expect: {body: {skills: {count_gte: 1}}}}]
      - id: SEC-EXTCARD-900
        name: The extended card, for strangers
        level: must
        transport: [rest]
        preconditions: {capabilities: {extendedAgentCard: true}}
        steps: [{id: card, raw: {method: GET, path: /extendedAgentCard, headers: {A2A-Version: "1.0"}}, expect: {status: 401}}]
"""
EXPECTED = """
[all.document]
OWN-WRONG-001 = "no list has less than no entry"
[ours.skip]
CARD-EXT-900 = "has none"
SEC-EXTCARD-900 = "has none"
[sdk.agent]
"SEC-EXTCARD-900 rest" = "asks nobody for credentials"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.acts.yaml").write_text(DOCUMENT)
    (tmp_path / "expected.toml").write_text(EXPECTED)
    monkeypatch.setattr(acts, "EXPECTED", tmp_path / "expected.toml")
    return tmp_path


def test_results_as_expected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert acts.main([str(folder)]) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "| ours | jsonrpc | 4 | 2 | 1 | 1 | 0 | 0 | 2 of 3 |" in out
    assert "| guarded | rest | 2 | 2 | 0 | 0 | 0 | 0 | 1 of 1 |" in out
    assert "| sdk | rest | 5 | 3 | 0 | 1 | 1 | 0 | 2 of 4 |" in out
    assert "  sdk rest SEC-EXTCARD-900: agent: asks nobody for credentials" in out


def test_other_results_are_differences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "expected.toml").write_text('[ours.document]\nOWN-COMPLETE-001 = "x"\nOWN-GONE-001 = "y"\n')
    assert acts.main([str(folder), "--agent", "ours"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  ours grpc OWN-COMPLETE-001: pass, expected fail: " in lines
    assert any(
        line.startswith("  ours jsonrpc OWN-WRONG-001: fail, expected pass: tasks: ") for line in lines
    )
    assert "  ours OWN-GONE-001: not run" in lines
    assert (
        "  ours rest CARD-EXT-900: skip, expected pass: the card does not say extendedAgentCard: True"
        in lines
    )


def test_documents_that_are_none_do_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert acts.main([str(tmp_path), "--agent", "ours"]) == 2
    assert "has no *.acts.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[ours.wrong]", "[others.skip]", '[ours.skip]\nX = ""'])
def test_reasons_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|needs a reason"):
        acts.expected(text)


def test_a_result_has_one_reason() -> None:
    reasons = acts.expected('[ours.skip]\nX = "a"\n[ours.document]\n"X rest" = "b"\n')
    one = acts.Result("ours", "rest", "X", "must", "skip", "")
    assert acts.compared(reasons, [one]) == ["ours rest X: has 2 reasons"]
    assert acts.compared(reasons[:1], [one]) == []


def test_the_reasons_of_the_repository_can_be_read() -> None:
    reasons = acts.expected((acts.HERE / "expected.toml").read_text(encoding="utf-8"))
    assert {one.fault for one in reasons} <= {"", *acts.FAULTS}
    assert len({(one.agent, one.id, one.transport) for one in reasons}) == len(reasons)
