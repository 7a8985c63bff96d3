"""Push notifications of 0.x: whole tasks in the `kind` shape, and a tolerant reader."""

import json
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects.v0_3.push import FORM
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.identity import says
from tests.rejections import rejected

TREE: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}


def task(state: Any = hub.TASK_STATE_WORKING) -> hub.Task:
    return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=state))


def test_a_task_is_the_body() -> None:
    assert FORM.whole_tasks
    assert FORM.media_type == "application/json"
    assert FORM.encode(hub.StreamResponse(task=task())) == TREE
    assert FORM.decode(TREE) == hub.StreamResponse(task=task())


def test_nothing_of_a_task_is_lost() -> None:
    odd = TREE | {
        "history": [],
        "x-own": 1,
        "metadata": {"n": 9007199254740993, "f": 1.0},
        "status": {"state": "working", "timestamp": "2025-04-17T17:47:09.680794"},
    }
    event = FORM.decode(json.loads(json.dumps(odd)))
    assert says(json.loads(json.dumps(FORM.encode(event))), odd)


@pytest.mark.parametrize(
    ("tree", "payload"),
    [
        ({"kind": "status-update", "taskId": "t", "contextId": "c", "final": False, "status": {"state": "working"}}, "status_update"),
        ({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}}, "artifact_update"),
        ({key: value for key, value in TREE.items() if key != "kind"}, "task"),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}, "task"),
        ({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}, "status_update"),
    ],
)  # fmt: skip
def test_more_is_read_than_written(tree: dict[str, Any], payload: str) -> None:
    assert FORM.decode(tree).WhichOneof("payload") == payload


@pytest.mark.parametrize(
    ("tree", "field"),
    [
        ({"kind": "task", "id": 1, "contextId": "c", "status": {"state": "working"}}, "id"),
        ({"kind": 1}, "kind"),
        ({}, ""),
    ],
)
def test_an_invalid_notification_is_rejected(tree: dict[str, Any], field: str) -> None:
    with rejected(Reason.INVALID_PARAMS, field):
        FORM.decode(tree)


@pytest.mark.parametrize("tree", [{"kind": "joke"}, {"messageUpdate": {"taskId": "t"}}])
def test_an_event_that_is_not_known_has_no_payload(tree: dict[str, Any]) -> None:
    assert FORM.decode(tree).WhichOneof("payload") is None


def test_an_event_that_json_cannot_express_is_our_error() -> None:
    broken = hub.StreamResponse(task=task())
    broken.task.metadata["n"] = float("nan")
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        FORM.encode(broken)
