"""Constructors of hub messages and questions to them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from a2a_bridge.codec import DecodeError
from a2a_bridge.core import messages
from a2a_bridge.core.call import Joined
from a2a_bridge.core.messages import (
    context_id_of,
    data_part,
    is_interrupted,
    is_terminal,
    message,
    part_of,
    payload_of,
    raw_part,
    read_task_id,
    task_id_of,
    text_of,
    text_part,
    timestamp,
)
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each


@each(
    ("given", "which"),
    [
        ("x", "text"),
        ("", "text"),
        (b"x", "raw"),
        (b"", "raw"),
        (bytearray(b"x"), "raw"),
        (memoryview(b"x"), "raw"),
        ({}, "data"),
        ([], "data"),
        (0, "data"),
        (None, "data"),
        (False, "data"),
    ],
)
def test_anything_makes_a_part(given: Any, which: str) -> None:
    assert part_of(given).WhichOneof("content") == which


def test_a_part_stays_a_part() -> None:
    part = hub.Part(url="https://e.example/")
    assert part_of(part) is part


def test_parts_with_more() -> None:
    assert text_part("x", media_type="text/markdown").media_type == "text/markdown"
    part = raw_part(b"x", filename="x.bin", media_type="image/png")
    assert (part.raw, part.filename, part.media_type) == (b"x", "x.bin", "image/png")
    assert data_part({"n": 7}, metadata={"a": 1}).metadata["a"] == 1
    assert data_part({"n": 7}).data.struct_value["n"] == 7


class _Colour(StrEnum):
    RED = "red"


class _Size(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (OrderedDict(n=1), {"n": 1}),
        (defaultdict(list, {"n": [1]}), {"n": [1]}),
        ({"n": (1, {"m": ()})}, {"n": [1, {"m": []}]}),
        ((1, "x"), [1, "x"]),
        ({"n": _Colour.RED, "m": _Size.ONE}, {"n": "red", "m": 1}),
        ({"n": Joined(["a", "b"])}, {"n": "a,b"}),
        ({1: "x", None: 2}, {"1": "x", "null": 2}),
    ],
)
def test_what_the_encoder_of_python_accepts_is_json(given: Any, plain: Any) -> None:
    assert data_part(given) == data_part(plain)


_CIRCLE: list[Any] = []
_CIRCLE.append(_CIRCLE)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (object(), ""),
        ({"n": (1, {2})}, "n"),
        ({"n": _Colour.RED, "m": float("nan")}, "m"),
        ({1: object()}, ""),
        ({b"n": 1}, ""),
        ({"n": {b"m": 1}}, ""),
        (_CIRCLE, None),
    ],
)
def test_values_that_are_not_json_make_no_part(given: Any, path: str | None) -> None:
    with pytest.raises(DecodeError) as raised:
        data_part(given)
    assert path is None or raised.value.path == path


def test_a_message() -> None:
    made = message(
        hub.ROLE_AGENT, [text_part("x")], message_id="m", context_id="c", task_id="t", metadata={"n": 7}
    )
    assert (made.role, made.message_id, made.context_id, made.task_id) == (hub.ROLE_AGENT, "m", "c", "t")
    assert made.metadata["n"] == 7
    assert not message(hub.ROLE_USER, [], message_id="m").HasField("metadata")


def test_the_text_of_things() -> None:
    parts = [text_part("a"), raw_part(b"x"), text_part("b")]
    task = hub.Task(status=hub.TaskStatus(message=hub.Message(parts=[text_part("status")])))
    assert text_of(parts) == text_of(hub.Message(parts=parts)) == text_of(hub.Artifact(parts=parts)) == "ab"
    assert text_of(task) == "status"
    task.artifacts.add(parts=parts)
    task.artifacts.add(parts=[text_part("c")])
    assert text_of(task) == "abc"
    assert text_of(hub.Task()) == ""


@pytest.mark.parametrize("nanoseconds", [0, 1, 1_700_000_000_123_456_789, -1])
def test_timestamps_are_exact(nanoseconds: int) -> None:
    made = timestamp(nanoseconds)
    assert made.ToNanoseconds() == nanoseconds
    assert 0 <= made.nanos < 10**9


def test_states_have_a_kind() -> None:
    names = {name: (is_terminal(number), is_interrupted(number)) for name, number in hub.TaskState.items()}
    assert names == {
        "TASK_STATE_UNSPECIFIED": (False, False),
        "TASK_STATE_SUBMITTED": (False, False),
        "TASK_STATE_WORKING": (False, False),
        "TASK_STATE_COMPLETED": (True, False),
        "TASK_STATE_FAILED": (True, False),
        "TASK_STATE_CANCELED": (True, False),
        "TASK_STATE_REJECTED": (True, False),
        "TASK_STATE_INPUT_REQUIRED": (False, True),
        "TASK_STATE_AUTH_REQUIRED": (False, True),
    }
    assert {hub.TASK_STATE_SUBMITTED, hub.TASK_STATE_WORKING} == messages.RUNNING


@each(
    ("response", "task_id"),
    [
        (hub.SendMessageResponse(task=hub.Task(id="t")), "t"),
        (hub.SendMessageResponse(message=hub.Message(task_id="")), ""),
        (hub.SendMessageResponse(), ""),
        (hub.StreamResponse(task=hub.Task(id="t")), "t"),
        (hub.StreamResponse(message=hub.Message(task_id="t")), "t"),
        (hub.StreamResponse(status_update=hub.TaskStatusUpdateEvent(task_id="t")), "t"),
        (hub.StreamResponse(artifact_update=hub.TaskArtifactUpdateEvent(task_id="t")), "t"),
        (hub.StreamResponse(), ""),
    ],
)
def test_responses_have_a_task_id_and_a_kind(response: Any, task_id: str) -> None:
    assert task_id_of(response) == task_id
    which = response.WhichOneof("payload")
    assert payload_of(response) == (None if which is None else getattr(response, which))
    assert context_id_of(response) == ""


def test_a_task_is_its_own_payload_and_other_responses_have_none() -> None:
    task = hub.Task(id="t", context_id="c")
    assert (payload_of(task), task_id_of(task), context_id_of(task)) == (task, "t", "c")
    config = hub.TaskPushNotificationConfig(task_id="t")
    assert (payload_of(config), task_id_of(config), context_id_of(config)) == (None, "", "")


@pytest.mark.parametrize(
    ("request_", "task_id"),
    [
        (hub.SendMessageRequest(message=hub.Message(task_id="t")), "t"),
        (hub.GetTaskRequest(id="t"), "t"),
        (hub.CancelTaskRequest(id="t"), "t"),
        (hub.SubscribeToTaskRequest(id="t"), "t"),
        (hub.GetTaskPushNotificationConfigRequest(task_id="t", id="c"), "t"),
        (hub.ListTasksRequest(context_id="c"), ""),
    ],
)
def test_requests_name_a_task(request_: Any, task_id: str) -> None:
    assert read_task_id(request_) == task_id
