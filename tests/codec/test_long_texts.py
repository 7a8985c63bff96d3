"""Long texts are assigned to messages, with the result and the errors of the short ones."""

import base64
from typing import Any

import pytest
from google.protobuf import json_format

from a2a_bridge.codec import DecodeError, budget, decoder
from a2a_bridge.codec.decode import LONG_TEXT, without_long_texts
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

TEXT = "aé漢😀" * LONG_TEXT
RAW = base64.b64encode(bytes(range(256)) * (LONG_TEXT // 64)).decode()

decode = decoder(hub.Task)


def task(part: dict[str, Any], **members: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "short"}, part]}
    return {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_WORKING", "message": message},
        **members,
    }


@each(
    "tree",
    [
        task({"text": TEXT}),
        task({"text": "a" * (LONG_TEXT + 1), "filename": TEXT}),
        task({"raw": RAW}),
        task({"raw": RAW.replace("+", "-").replace("/", "_").rstrip("=")}),
        task({"url": TEXT}, artifacts=[{"artifactId": TEXT, "parts": [{"text": TEXT}, {"raw": RAW}]}]),
        task({"data": {"text": TEXT}}, metadata={"text": TEXT}),
        task({"text": TEXT}, history=[{"message_id": TEXT, "role": "ROLE_USER", "parts": [{"text": TEXT}]}]),
        task({"text": TEXT, "unknown": TEXT}),
    ],
)
def test_they_are_those_of_the_document(tree: dict[str, Any]) -> None:
    expected = json_format.ParseDict(tree, hub.Task(), ignore_unknown_fields=True)
    assert decode(tree) == expected


def test_they_are_not_copied_into_the_wire_text() -> None:
    found: list[Any] = []
    tree = task({"text": TEXT}, artifacts=[{"artifactId": "a", "parts": [{"raw": RAW}]}])
    assert len(str(without_long_texts(plan_of(hub.Task), tree, found))) < LONG_TEXT
    assert [one.path for one in found] == [("status", "message", "parts", 1), ("artifacts", 0, "parts", 0)]
    assert tree["status"]["message"]["parts"][1]["text"] == TEXT


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"text": "a" * LONG_TEXT + "\ud800"}, "status.message.parts[1].text"),
        ({"raw": RAW + "!"}, "status.message.parts[1].raw"),
        ({"text": TEXT, "raw": RAW}, "status.message.parts[1].raw"),
        ({"text": TEXT, "filename": 1}, "status.message.parts[1].filename"),
    ],
    ids=["surrogate", "base64", "oneof", "beside"],
)
def test_their_errors_name_the_field(part: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(task(part))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'{"a":"' + b"," * 99 + b'"}', 2),
        (rb'["\\","\"[","\\\",",1]', 5),
        (b"[1,2,3]", 4),
        (b'["' + b'\\"' * 1000 + b'"]', 2),
    ],
    ids=["one", "escapes", "no strings", "many quotes"],
)
def test_values_are_counted_outside_of_strings(text: bytes, values: int) -> None:
    assert budget.json_values(text, values - 1) == values
