"""`conformance`: the small suite against live agents, documents, and the assertions of ACTS."""

from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge_tools.client.acts import ABSENT, at, fill, is_reached, problems, stream_problems
from tests.cli.commands import agent, command
from tests.tools.client.live import Live

req = pytest.mark.requirement

DOCUMENT = """
acts_version: "1.0"
spec_version: "1.0"
variables: {greeting: "tck-multi-turn start"}
suites:
  - id: own
    name: Own
    tests:
      - id: OWN-MULTI-001
        name: A task asks and is answered
        level: must
        requires_behaviors: [tck-multi-turn]
        steps:
          - id: first
            action: send_message
            request: {message: {role: ROLE_USER, parts: [{text: "{{greeting}}"}]}}
            expect: {result_type: task, task: {status: {state: TASK_STATE_INPUT_REQUIRED}}}
            capture: {taskId: task.id}
          - id: second
            action: send_message
            request:
              message: {role: ROLE_USER, taskId: "{{first.taskId}}", parts: [{text: done}, {file: {raw: eA==, name: x.txt}}]}
            expect: {task: {id: "{{first.taskId}}", status: {state: TASK_STATE_COMPLETED}}}
          - id: look
            assertion:
              source: "{{second.response}}"
              any: {path: "result.task.artifacts[*].parts[*]", match: {text: {contains: Thank}}}
      - id: OWN-POLL-001
        name: Long work is looked at
        level: must
        steps:
          - id: start
            action: send_message
            request: {message: {role: ROLE_USER, parts: [{text: tck-long-running}]}, configuration: {returnImmediately: true}}
            capture: {taskId: task.id}
          - id: poll
            action: get_task
            request: {id: "{{start.taskId}}"}
            repeat: {until: "status.state in [TASK_STATE_COMPLETED, TASK_STATE_FAILED]", max_attempts: 40, delay_ms: 200}
      - id: OWN-STREAM-001
        name: Chunks of an artifact
        level: should
        preconditions: {capabilities: {streaming: true}}
        steps:
          - id: stream
            action: send_streaming_message
            request: {message: {role: ROLE_USER, parts: [{text: tck-stream-chunked}]}}
            expect_stream:
              min_count: 4
              ordering: monotonic_state
              events: [{match: any_position, artifact_update: {artifact: {parts: {count_gte: 1}}}}]
              final_event: {status_update: {final: true, status: {state: TASK_STATE_COMPLETED}}}
      - id: OWN-RAW-001
        name: Broken JSON
        level: must
        transport: [jsonrpc]
        steps:
          - id: raw
            raw_request: {method: POST, path: /, rawBody: "{"}
            raw_expect: {status: 200, headers: {Content-Type: {contains: json}}, body: {error: {code: -32700}}}
      - id: OWN-CLIENT-001
        name: A response is read
        level: must
        steps:
          - id: parse
            type: client_test
            golden_response: {body: {jsonrpc: "2.0", id: 1, result: {task: {id: t, status: {state: TASK_STATE_WORKING}}}}}
            expect_parsed: {task: {id: t, status: {state: TASK_STATE_WORKING}}}
      - id: OWN-WRONG-001
        name: Expects what is not so
        level: may
        steps:
          - id: wrong
            action: get_task
            request: {id: nope}
            expect_error: {error_type: TaskNotCancelableError}
      - id: OWN-UNKNOWN-001
        name: A variable that is unknown
        level: may
        steps: [{id: x, action: get_task, request: {id: "{{none.such}}"}}]
      - id: OWN-SKIP-001
        name: Of another agent
        level: must
        preconditions: {skills: [{id: flying}]}
        steps: []
"""


@req("CONFORM_001")
async def test_live_agents_pass_the_small_suite(live: Live) -> None:
    done = await live.run("conformance", "-o", "json")
    failed = [one for one in done.json["tests"] if one["result"] in ("fail", "error")]
    assert [one for one in failed if one["level"] == "must"] == [], failed
    assert done.code == 0
    assert sum(one["result"] == "pass" for one in done.json["tests"]) >= 5


@req("CONFORM_001")
async def test_the_demo_agent_does_what_documents_ask_for(one: Live, tmp_path: Path) -> None:
    (tmp_path / "suite.acts.yaml").write_text('acts_version: "1.0"\ninclude: [own.acts.yaml]\n')
    (tmp_path / "own.acts.yaml").write_text(DOCUMENT)
    done = await command("conformance", "-a", one.reference, "--suite", str(tmp_path), "-o", "json")
    results = {(test["id"], test["transport"]): test for test in done.json["tests"]}
    assert {transport for _, transport in results} == {"jsonrpc", "rest", "grpc"}
    for (name, transport), test in results.items():
        wanted = {"OWN-WRONG-001": "fail", "OWN-UNKNOWN-001": "error", "OWN-SKIP-001": "skip"}.get(
            name, "pass"
        )
        if name == "OWN-RAW-001" and transport != "jsonrpc":
            wanted = "skip"
        assert test["result"] == wanted, test
    assert results["OWN-WRONG-001", "rest"]["problems"] == [
        "error: 'TaskNotFoundError' is not one_of ['TaskNotCancelableError']"
    ]
    assert done.json["conformant"] is True
    assert done.code == 0
    text = await command(
        "conformance",
        "-a",
        one.reference,
        "--suite",
        str(tmp_path),
        "--only",
        "OWN-WRONG",
        "--transport",
        "GRPC",
    )
    assert "Fail: OWN-WRONG-001 Expects what is not so" in text.out
    assert text.fields["May"] == "0/1 passed (1 failed, 0 skipped)"


async def test_an_agent_in_code_is_served() -> None:
    code = "a2a_bridge_tools.demo_agent:agent"
    done = await command("conformance", "-a", code, "--only", "SMOKE-GET", "-o", "json")
    assert (done.code, [one["transport"] for one in done.json["tests"]]) == (0, ["jsonrpc", "rest", "grpc"])


@req("CONFORM_001")
async def test_a_wrong_agent_fails() -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.INTERNAL_ERROR))
    async with agent(probe, "JSONRPC", shown=hub.AgentCard(name="x", version="1")) as server:
        done = await command("conformance", "-a", f"http://{server.http}", "-o", "json")
    assert (done.code, done.json["conformant"]) == (1, False)
    assert done.json["summary"]["must"]["fail"] >= 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[", "is no document"),
        ("[1]", "is no ACTS document"),
        ("acts_version: '7.0'", "'7.0' of ACTS is unknown"),
        ("acts_version: '1.0'\nvariables:", "x.acts.yaml: variables is no object"),
        ("acts_version: '1.0'\ninclude: [5]", "x.acts.yaml: include[0] is no text"),
        ("acts_version: '1.0'\ninclude: [/etc/x.yaml]", "x.acts.yaml: include: /etc/x.yaml is outside of"),
        ("acts_version: '1.0'\ninclude: [../x.yaml]", "x.acts.yaml: include: ../x.yaml is outside of"),
        ("acts_version: '1.0'\nsuites: {}", "x.acts.yaml: suites is no list"),
        ("acts_version: '1.0'\nsuites: [x]", "x.acts.yaml: suites[0] is no object"),
        ("acts_version: '1.0'\nsuites: [{tests: }]", "x.acts.yaml: suites[0].tests is no list"),
        (
            "acts_version: '1.0'\nsuites: [{tests: [{}, ]}, {tests: [null]}]",
            "suites[1].tests[0] is no object",
        ),
    ],
)
async def test_documents_that_are_none(one: Live, content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "x.acts.yaml"
    file.write_text(content)
    done = await command("conformance", "-a", one.reference, "--suite", str(file))
    assert (done.code, says in " ".join(done.err.split())) == (2, True), done.err


#: what a test has besides its id -> what is said of it
WRONG = {
    "steps: ": "steps is no list",
    "steps: [null]": "steps[0] is no object",
    "steps: [{id: a, action: get_agent_card, expect: {name: {matches: '['}}}]": "'[' is no regular expression",
    "steps: [{id: a, action: fly}]": "fly",
    "preconditions: ": "",
    "level: ": "the level none is none of must, should, may",
    "assertions: [5]": "",
}


async def test_a_wrong_test_is_reported_and_the_others_run(one: Live, tmp_path: Path) -> None:
    file = tmp_path / "x.acts.yaml"
    tests = [f"{{id: T-{number}, {members}}}" for number, members in enumerate(WRONG)]
    good = "{id: GOOD, steps: [{id: a, action: get_agent_card, expect: {name: {matches: D}}}]}"
    file.write_text(f"acts_version: '1.0'\nsuites: [{{tests: [{', '.join([*tests, good])}]}}]")
    done = await command("conformance", "-a", one.reference, "--suite", str(file), "-o", "json")
    assert done.code == 1, done.err
    rows = [test for test in done.json["tests"] if test["transport"] == "jsonrpc"]
    assert [test["id"] for test in rows] == [*(f"T-{number}" for number in range(len(WRONG))), "GOOD"]
    assert rows.pop()["result"] == "pass"
    for test, says in zip(rows, WRONG.values(), strict=True):
        assert (test["result"], test["level"], says in test["problems"][0]) == ("error", "must", True), test


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [
        ({"type": "number"}, 1.5, True),
        ({"type": "boolean"}, False, 0),
        ({"exists": True}, None, ABSENT),
        ({"absent": True}, ABSENT, None),
        ({"contains": "b"}, "abc", "xyz"),
        ({"matches": "^a+$"}, "aaa", "ab"),
        ({"starts_with": "a"}, "ab", "ba"),
        ({"ends_with": "b"}, "ab", "ba"),
        ({"gt": 1, "lt": 3}, 2, 3),
        ({"gte": 1, "lte": 3}, 3, 4),
        ({"count": 2}, [1, 2], [1]),
        ({"count_gte": 1}, [1], []),
        ({"count_lte": 1}, [1], [1, 2]),
        ({"one_of": ["a", {"gt": 5}]}, 6, "b"),
        ({"all_of": [{"type": "string"}, {"contains": "x"}]}, "x", "y"),
        ({"not": {"contains": "x"}}, "y", "x"),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {}}),
        ([{"a": 1}], [{"a": 1}, {}], []),
        (1, 1, True),
    ],
    ids=str,
)
def test_assertions(expected: Any, good: Any, bad: Any) -> None:
    assert (problems(expected, good), len(problems(expected, bad))) == ([], 1)


def test_paths_variables_and_conditions() -> None:
    tree = {"a": [{"b": 1}, {"b": 2}], "state": "X"}
    assert (at(tree, "a[*].b"), at(tree, "a[1].b"), at(tree, "c.d")) == ([1, 2], [2], [])
    assert [is_reached(text, tree) for text in ("state == X", "state in [Y, X]", "state != X")] == [
        True,
        True,
        False,
    ]
    assert fill({"x": "{{n}}", "y": "-{{n}}-"}, {"n": 5}) == {"x": 5, "y": "-5-"}
    with pytest.raises(LookupError):
        fill("{{none}}", {})
    with pytest.raises(ValueError, match="no condition"):
        is_reached("whatever", tree)


def test_the_order_of_states() -> None:
    def event(state: str) -> dict[str, Any]:
        return {"statusUpdate": {"status": {"state": f"TASK_STATE_{state}"}}}

    rule = {"ordering": "monotonic_state"}
    assert (
        stream_problems(rule, [event("SUBMITTED"), event("WORKING"), event("WORKING"), event("COMPLETED")])
        == []
    )
    assert stream_problems(rule, [event("COMPLETED"), event("WORKING")]) == [
        "the state goes from COMPLETED to WORKING"
    ]
    assert stream_problems({"min_count": 2, "max_count": 0}, [event("WORKING")]) != []
