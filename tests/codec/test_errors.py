"""Decode errors name the field and describe the fault in plain English."""

import json
import random
import re
from typing import Any

import pytest

from a2a_bridge import codec
from a2a_bridge.pb import lf_a2a_v1 as a2a
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Timestamp, Value
from a2a_bridge.testing.each import each
from tests.codec.documents import CLASSES, Maker

SEND = a2a.SendMessageRequest


@each(
    ("cls", "tree", "violations"),
    [
        (
            SEND,
            {"message": {"parts": [{"text": 5}]}},
            "message.parts[0].text: expected a string, got a number",
        ),
        (
            SEND,
            {"message": {"parts": [{"text": None}, None]}},
            "message.parts[1]: expected an object, got null",
        ),
        (
            SEND,
            {"message": {"reference_task_ids": ["a", {}]}},
            "message.referenceTaskIds[1]: expected a string, got an object",
        ),
        (
            SEND,
            {"message": [], "configuration": "x"},
            "message: expected an object, got an array; configuration: expected an object, got a string",
        ),
        (a2a.Task, {"artifacts": {}}, "artifacts: expected an array, got an object"),
        (a2a.Task, {"metadata": []}, "metadata: expected an object, got an array"),
        (a2a.AgentCapabilities, {"streaming": "true"}, "streaming: expected true or false, got a string"),
        (a2a.GetTaskRequest, {"historyLength": 1.5}, "historyLength: expected an integer, got a fraction"),
        (
            a2a.GetTaskRequest,
            {"historyLength": 2**31},
            "historyLength: expected an integer from -2147483648 to 2147483647",
        ),
        (a2a.GetTaskRequest, {"historyLength": True}, "historyLength: expected an integer, got true"),
        (a2a.Message, {"role": "user"}, "role: is none of ROLE_UNSPECIFIED, ROLE_USER, ROLE_AGENT"),
        (
            a2a.Message,
            {"role": []},
            "role: expected one of ROLE_UNSPECIFIED, ROLE_USER, ROLE_AGENT, got an array",
        ),
        (a2a.TaskStatus, {"timestamp": "2025-02-30T00:00:00Z"}, "timestamp: is not a date of the calendar"),
        (
            a2a.TaskStatus,
            {"timestamp": "today"},
            "timestamp: expected a date and time such as 2025-01-31T12:00:00Z",
        ),
        (a2a.TaskStatus, {"timestamp": 5}, "timestamp: expected a date and time, got a number"),
        (a2a.Part, {"raw": 5}, "raw: expected a base64 string, got a number"),
        (a2a.Part, {"raw": "*"}, "raw: is not base64"),
        (a2a.Part, {"text": "a", "url": "b"}, "url: cannot stand beside text: only one of them may be given"),
        (a2a.Message, {"taskId": "1", "task_id": "1"}, "taskId: is given twice, as taskId and as task_id"),
        (
            a2a.ClientCredentialsOAuthFlow,
            {"scopes": {"a.b": 1, "c": 2}},
            'scopes["a.b"]: expected a string, got a number; scopes.c: expected a string, got a number',
        ),
        (a2a.ClientCredentialsOAuthFlow, {"scopes": []}, "scopes: expected an object, got an array"),
        (a2a.Task, None, "expected an object, got null"),
        (a2a.Task, False, "expected an object, got false"),
        (Struct, [], "expected an object, got an array"),
        (ListValue, {}, "expected an array, got an object"),
        (Timestamp, {}, "expected a date and time, got an object"),
    ],
)
def test_violations(cls: Any, tree: Any, violations: str) -> None:
    with pytest.raises(codec.DecodeError) as raised:
        codec.decoder(cls)(tree)
    error = raised.value
    assert (
        "; ".join(f"{path}: {problem}" if path else problem for path, problem in error.violations)
        == violations
    )
    assert (error.path, error.problem) == error.violations[0]
    assert str(error) == (f"{error.path}: {error.problem}" if error.path else error.problem)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_an_error_carries_a_bounded_number_of_violations() -> None:
    with pytest.raises(codec.DecodeError) as raised:
        codec.decoder(a2a.Message)({"parts": [5] * 1000})
    assert (len(raised.value.violations), raised.value.path) == (20, "parts[0]")


def test_every_rejection_of_random_documents_names_a_place_and_shows_no_internals() -> None:
    chance = random.Random("rejections")
    internals = re.compile(r"[Tt]raceback|Error|NoneType|dict|\bstr\b|google\.|lf\.a2a|<|object at")
    rejections = 0
    for number in range(3000):
        cls = CLASSES[number % len(CLASSES)]
        try:
            codec.decode_bytes(cls, json.dumps(Maker(chance, errors=0.1).document(cls.DESCRIPTOR)))
        except codec.DecodeError as error:
            rejections += 1
            for path, problem in error.violations:
                assert path
                assert problem
                assert not internals.search(problem), problem
    assert rejections > 300


def test_well_known_types_stand_alone_too() -> None:
    assert codec.decoder(Struct)({"a": 1})["a"] == 1
    assert codec.encoder(Struct)(codec.decoder(Struct)({"a": [None]})) == {"a": [None]}
    assert codec.encoder(ListValue)(codec.decoder(ListValue)([1, "x"])) == [1, "x"]
    assert codec.encoder(Value)(codec.decoder(Value)(None)) is None
    stamp = codec.decoder(Timestamp)("2025-01-31T12:00:00.5Z")
    assert codec.encoder(Timestamp)(stamp) == "2025-01-31T12:00:00.500Z"
