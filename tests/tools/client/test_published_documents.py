"""`conformance` with the words of A2A's published documents, which are not those of the specification of ACTS."""

from pathlib import Path
from typing import Any

import pytest

from a2a_bridge_tools.client.acts import (
    documents_of,
    each_test,
    is_operator,
    problems,
    step_of,
    stream_problems,
)
from tests.cli.commands import command
from tests.tools.client.live import Live

#: the variable of another document of the folder
SHARED = """
acts_version: "1.0"
variables: {hook: "http://127.0.0.1:9/hook", baseUrl: "{{SUT_BASE_URL}}"}
include: [published.acts.yaml]
"""
DOCUMENT = """
acts_version: "1.0"
suites:
  - id: published
    name: Published
    tests:
      - id: PUB-TURNS-001
        name: The task and the context stand beside the message
        level: must
        steps:
          - id: ask
            operation: send_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-multi-turn go}]}}
            expect: {status: 200, body: {task: {status: {state: TASK_STATE_INPUT_REQUIRED}}}}
            capture: {task: task.id, context: task.contextId}
          - id: again
            operation: send_message
            params: {taskId: "{{ask.task}}", message: {role: ROLE_USER, parts: [{text: more}]}}
            expect: {body: {task: {id: "{{ask.task}}", contextId: "{{ask.context}}", status: {state: TASK_STATE_INPUT_REQUIRED}}}}
          - id: wrong
            operation: send_message
            params: {taskId: "{{ask.task}}", contextId: another, message: {role: ROLE_USER, parts: [{text: more}]}}
            expect: {status: error, error: {exists: true}}
          - id: end
            operation: send_message
            params: {taskId: "{{ask.task}}", message: {role: ROLE_USER, parts: [{text: done}]}}
            expect: {task: {status: {state: TASK_STATE_COMPLETED}}}
            assertions:
              - {source: "{{end.response}}", any: {path: "task.artifacts[*].parts[*]", match: {text: {contains: done}}}}
          - id: closed
            operation: subscribe_to_task
            params: {id: "{{ask.task}}"}
            expect: {error: {exists: true}}
          - id: look
            operation: get_task
            params: {id: "{{ask.task}}"}
            expect: {status: {state: TASK_STATE_COMPLETED}}
      - id: PUB-PUSH-001
        name: Configurations by other names
        level: must
        steps:
          - id: start
            operation: send_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-complete-task}]}}
            capture: {task: task.id}
          - id: set
            operation: set_push_notification_config
            params: {taskId: "{{start.task}}", pushNotificationConfig: {url: "{{hook}}"}}
            expect: {status: {gte: 200, lt: 300}, body: {id: {type: string}, url: "{{hook}}"}}
            capture: {config: id}
          - id: get
            operation: get_push_notification_config
            params: {taskId: "{{start.task}}", id: "{{set.config}}"}
            expect: {status: 200, body: {url: "{{hook}}"}}
          - id: list
            operation: list_push_notification_configs
            params: {taskId: "{{start.task}}"}
            expect: {status: 200, body: {configs: {type: array, count: 1, items: {url: {type: string}}}}}
          - id: delete
            operation: delete_push_notification_config
            params: {taskId: "{{start.task}}", id: "{{set.config}}"}
            expect: {status: 200}
      - id: PUB-ERROR-001
        name: Errors by other names
        level: must
        steps:
          - {id: code, operation: get_task, params: {id: none}, expect_error: {code: TaskNotFoundError, data: {taskId: none}}}
          - {id: choice, operation: cancel_task, params: {id: none}, expect_error: {code: {one_of: [TaskNotFoundError, InternalError]}}}
          - {id: any, operation: get_task, params: {id: none}, expect_error: {message: {type: string}}}
          - {id: card, operation: get_agent_card, params: {extended: true}, expect_error: {code: UnsupportedOperationError}}
      - id: PUB-STREAM-001
        name: What is in an event, without its name
        level: must
        steps:
          - id: stream
            operation: send_streaming_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-stream-basic}]}}
            expect_stream:
              timeout_ms: 20000
              events:
                - {match: any_position, artifact: {exists: true}}
                - {index: 0, one_of: [{task: {status: {exists: true}}}, {status_update: {status: {exists: true}}}]}
              final_event: {status: {state: {one_of: [TASK_STATE_COMPLETED, TASK_STATE_FAILED]}}}
      - id: PUB-RAW-001
        name: Raw requests of JSON-RPC
        level: must
        transport: [jsonrpc]
        steps:
          - id: broken
            raw: {method: POST, path: /, headers: {A2A-Version: "1.0"}, body_raw: "{"}
            expect: {status: 200, body: {error: {code: -32700}}}
          - id: missing
            raw:
              method: POST
              path: /
              headers: {A2A-Version: "1.0"}
              body: {jsonrpc: "2.0", id: 7, method: GetTask, params: {id: none}}
            expect: {status: 200, headers: {Content-Type: {contains: json}}, body: {id: 7, error: {data: {items: [{"@type": {contains: ErrorInfo}}]}}}}
            assertions:
              - {source: "{{missing.response}}", any: {path: "error.data[*]", match: {reason: TASK_NOT_FOUND}}}
          - id: stream
            raw:
              method: POST
              path: /
              headers: {A2A-Version: "1.0", Accept: text/event-stream}
              body:
                jsonrpc: "2.0"
                id: 8
                method: SendStreamingMessage
                params: {message: {messageId: m, role: ROLE_USER, parts: [{text: tck-stream-basic}]}}
            expect: {status: 200}
            expect_stream: {min_count: 3, each_event: {jsonrpc: "2.0", id: 8}}
      - id: PUB-RAW-002
        name: Raw requests of HTTP+JSON
        level: must
        transport: [rest]
        steps:
          - {id: get, raw: {method: GET, path: /tasks/none, headers: {A2A-Version: "1.0"}}, expect: {status: 404, body: {error: {code: 404}}}}
          - {id: delete, raw: {method: DELETE, path: /tasks/none/pushNotificationConfigs/x, headers: {A2A-Version: "1.0"}}, expect: {status: 404}}
          - {id: put, raw: {method: PUT, path: /tasks/none, body: {}}, expect: {status: {one_of: [404, 405]}}}
          - {id: card, raw: {method: GET, path: /.well-known/agent-card.json}, expect: {status: 200, body: {name: Demo}}}
      - id: PUB-CLIENT-001
        name: Responses that our client reads
        level: must
        steps:
          - id: task
            client_response:
              operation: get_task
              wire_payload: {jsonrpc: "2.0", id: theirs, result: {id: t, status: {state: TASK_STATE_COMPLETED}, artifacts: [{artifactId: a, parts: [{unknown: x}]}]}}
            expect_parsed: {id: t, artifacts: {count: 1}}
          - id: error
            client_response:
              operation: get_task
              wire_payload: {jsonrpc: "2.0", id: theirs, error: {code: -32001, message: not here, data: {taskId: t}}}
            expect_parsed: {error: {code: -32001, message: {contains: here}}}
          - id: bare
            client_response: {operation: get_extended_agent_card, wire_payload: {name: A, version: "1", skills: [{id: s}]}}
            expect_parsed: {name: A, skills: {count: 1}}
          - id: card
            client_response: {operation: get_agent_card, wire_payload: {name: A, version: "1", capabilities: {streaming: false}}}
            expect_parsed: {capabilities: {streaming: false}}
      - id: PUB-WRONG-001
        name: A client that reads something else
        level: may
        steps:
          - id: task
            client_response: {operation: get_task, wire_payload: {jsonrpc: "2.0", id: 1, result: {id: t}}}
            expect_parsed: {id: another}
      - id: PUB-WRONG-002
        name: A response that is no JSON-RPC
        level: may
        steps:
          - id: task
            client_response: {operation: get_task, wire_payload: {jsonrpc: "2.0", id: 1}}
            expect_parsed: {id: t}
      - id: PUB-WRONG-003
        name: No error comes
        level: may
        steps: [{id: list, operation: list_tasks, params: {}, expect: {error: {exists: true}}}]
      - id: PUB-SKIP-001
        name: A server with accounts
        level: must
        preconditions: {authentication: true}
        steps: []
      - id: PUB-SKIP-002
        name: A receiver of webhooks
        level: must
        runner_requirements: [webhook_endpoint]
        steps: []
      - id: PUB-HEADERS-001
        name: Headers of a card, which is read over HTTP
        level: must
        steps:
          - id: card
            operation: get_agent_card
            params: {}
            expect: {status: 200, headers: {any_of: [{X-Unknown: {exists: true}}, {ETag: {type: string}}]}, body: {name: Demo}}
      - id: PUB-HEADERS-002
        name: Headers and status of operations
        level: must
        steps:
          - {id: list, operation: list_tasks, params: {}, expect: {status: 200, headers: {Content-Type: {contains: json}}}}
      - id: PUB-HEADERS-003
        name: The status of an error
        level: must
        transport: [rest]
        steps:
          - {id: get, operation: get_task, params: {id: none}, expect: {status: 404}, expect_error: {error_type: TaskNotFoundError}}
      - id: PUB-WRONG-004
        name: Another status than it is
        level: may
        transport: [rest]
        steps: [{id: list, operation: list_tasks, params: {}, expect: {status: 201}}]
"""
FAILED = {
    "PUB-WRONG-001": "id: 't' instead of 'another'",
    "PUB-WRONG-002": "id: absent instead of 't'",
    "PUB-WRONG-003": "there is a response, and no error",
    "PUB-WRONG-004": "status: 200 instead of 201",
}
SKIPPED = {
    "PUB-SKIP-001": "the card does not say authentication: True",
    "PUB-SKIP-002": "this runner has no webhook_endpoint",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "suite.acts.yaml").write_text(SHARED)
    (tmp_path / "published.acts.yaml").write_text(DOCUMENT)
    return tmp_path


async def test_published_documents_run_over_every_binding(one: Live, folder: Path) -> None:
    done = await command("conformance", "-a", one.reference, "--suite", str(folder), "-o", "json")
    assert done.code == 0, done.err
    others: list[tuple[str, str]] = []
    for test in done.json["tests"]:
        id_, problem = test["id"], " ".join(test["problems"])
        if problem in ("for rest only", "for jsonrpc only"):
            assert test["result"] == "skip"
            others.append((id_, test["transport"]))
        elif id_ in FAILED:
            assert (test["result"], problem) == ("fail", FAILED[id_])
        elif id_ in SKIPPED:
            assert (test["result"], problem) == ("skip", SKIPPED[id_])
        elif (id_, test["transport"]) == ("PUB-HEADERS-002", "grpc"):
            assert (test["result"], problem) == ("skip", "this binding has no headers of HTTP")
        else:
            assert test["result"] == "pass", test
    assert len(done.json["tests"]) == 3 * 16
    assert sorted(others) == [
        *(("PUB-HEADERS-003", other) for other in ("grpc", "jsonrpc")),
        *(("PUB-RAW-001", other) for other in ("grpc", "rest")),
        *((id_, other) for id_ in ("PUB-RAW-002", "PUB-WRONG-004") for other in ("grpc", "jsonrpc")),
    ]


def test_a_document_has_the_variables_of_the_others(folder: Path) -> None:
    (test,) = each_test(list(documents_of(folder)), ["PUB-PUSH"])
    assert test["variables"]["hook"] == "http://127.0.0.1:9/hook"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"status": 200, "body": {"a": 1}}, {"status": 200, "body": {"a": 1}}),
        ({"status": {"one_of": [1]}}, {"status": {"one_of": [1]}}),
        ({"status": {"state": "X"}}, {"body": {"status": {"state": "X"}}}),
        ({"status": {"state": "X"}, "id": 1}, {"body": {"status": {"state": "X"}, "id": 1}}),
        ({"status": 200, "task": {"id": 1}}, {"status": 200, "body": {"task": {"id": 1}}}),
        ({"headers": {"a": "b"}}, {"headers": {"a": "b"}}),
        ({"task": {"id": 1}}, {"body": {"task": {"id": 1}}}),
    ],
)
def test_what_is_expected_of_a_response_has_one_form(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert step_of({"id": "x", "action": "get_task", "expect": written})["expect"] == meant


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [
        ({"type": {"type": "string"}, "title": "t"}, {"type": "x", "title": "t"}, {"type": 1, "title": "t"}),
        ({"type": "array", "items": {"id": {"exists": True}}}, [{"id": 1}, {"id": 2}], [{"id": 1}, {}]),
        ({"items": [{"id": 1}]}, [{"id": 1}, {"id": 2}], [{"id": 2}]),
        ({"items": {"id": 1}}, [], {"id": 1}),
        ({"exists": True, "name": "x"}, {"name": "x"}, {"name": "y"}),
        ({"count": {"gte": 1}}, {"count": 1}, {"count": 0}),
        ({"count": 1}, ["x"], {"x": 1}),
        ({}, {}, "text"),
    ],
    ids=str,
)
def test_a_key_is_an_operator_if_its_argument_fits(expected: Any, good: Any, bad: Any) -> None:
    assert (problems(expected, good), len(problems(expected, bad))) == ([], 1)


def test_operators_are_known_by_name_and_argument() -> None:
    assert is_operator("type", "null")
    assert not is_operator("type", "about:blank")
    assert not is_operator("exists", "yes")
    assert not is_operator("status", 200)


def test_a_stream_without_events_has_no_last_one() -> None:
    assert stream_problems({"final_event": {"status": {"state": "X"}}}, []) == [
        "the last event: absent is no object"
    ]
    event = {"statusUpdate": {"status": {"state": "X"}, "taskId": "t"}}
    for wanted in ({"status": {"state": "X"}}, {"status_update": {"final": True, "status": {"state": "X"}}}):
        assert stream_problems({"final_event": wanted}, [event]) == []
    assert stream_problems({"events": [{"status": {"state": "Y"}}]}, [event]) == [
        "event 0.status.state: 'X' instead of 'Y'"
    ]
