"""Unknown members of JSON are kept in the message, at their place, and written again."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.codec import decoder, dumps, encoder, loads
from a2a_bridge.codec.decode import LONG_TEXT
from a2a_bridge.codec.unknown import KEPT, drop_members, holds_members
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

SCHEME = {"httpAuthSecurityScheme": {"scheme": "bearer", "later": 1}, "later": 2}
VALUES = (
    "null",
    "0",
    "-1.5e-7",
    "18446744073709551615",
    '""',
    '"ü 漢 😀 \\u0000 \\ud800"',
    "[]",
    "{}",
    '{"a":[{"b":null},[[1]]],"messageId":7}',
    "[" * 900 + "]" * 900,
)

decode, encode = decoder(hub.Task, keeps=True), encoder(hub.Task, keeps=True)


def task(**members: Any) -> dict[str, Any]:
    return {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, **members}


@each("text", VALUES)
def test_every_value_comes_back_at_every_level(text: str) -> None:
    value = loads(text)
    part = {"text": "x", "later": value}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "y"}, part], "later": value}
    tree = task(history=[message, message], later=value, fromTheFuture=value)
    tree["status"] |= {"message": message, "later": value}
    assert dumps(encode(decode(tree))) == dumps(ordered(tree))


def ordered(tree: dict[str, Any]) -> dict[str, Any]:
    """Unknown members come last, and known ones in the order of their fields."""
    status = tree["status"]
    inner = {name: status[name] for name in ("state", "message", "later")}
    names = ("id", "status", "history", "later", "fromTheFuture")
    return {**{name: tree[name] for name in names}, "status": inner}


def test_maps_have_them_too() -> None:
    tree = {"name": "a", "securitySchemes": {"s": SCHEME, "": {}}, "skills": [{"id": "1", "later": 3}]}
    made = encoder(hub.AgentCard, keeps=True)(decoder(hub.AgentCard, keeps=True)(tree))
    assert made["securitySchemes"] == tree["securitySchemes"]
    assert made["skills"][0]["later"] == 3


def test_other_variants_nulls_long_texts_and_rounded_numbers_are_no_obstacle() -> None:
    text = "a" * (LONG_TEXT + 1)
    tree = task(context_id="c", metadata=None, later={"text": text})
    tree["history"] = [{"message_id": "m", "parts": [{"text": text, "later": text}]}]
    tree["artifacts"] = [{"artifactId": "a", "parts": [{"data": 2**63 + 1, "later": 2**63 + 1}]}]
    made = encode(decode(tree))
    assert made["later"] == {"text": text}
    assert made["contextId"] == "c"
    assert "context_id" not in made
    assert "metadata" not in made
    assert made["history"][0]["parts"][0] == {"text": text, "later": text}
    assert made["artifacts"][0]["parts"][0]["later"] == 2**63 + 1


def test_copies_and_bytes_keep_them_and_merging_adds_them() -> None:
    one, other = decode(task(later=1, first=True)), decode(task(later=2))
    copy = hub.Task()
    copy.CopyFrom(one)
    assert encode(hub.Task.FromString(copy.SerializeToString()))["later"] == 1
    copy.MergeFrom(other)
    made = encode(copy)
    assert (made["later"], made["first"]) == (2, True)


def test_a_member_that_has_become_a_field_is_not_written_twice() -> None:
    message = decode(task(later=1))
    raw_bytes = message.SerializeToString().replace(b'"later"', b'"status"').replace(b"\x0b{", b"\x0c{")
    assert encode(hub.Task.FromString(raw_bytes)) == task()


def test_dropping_leaves_everything_else() -> None:
    message = decode(task(later=1, history=[{"messageId": "m", "later": 2}]))
    other = b"\xa2\x38\x05later\xa3\x38\x08\x01\xa4\x38\xa5\x38\x01\x02\x03\x04"  # a text, a group, 32 bits
    message.history[0].MergeFromString(other)
    drop_members(message)
    raw_bytes = message.SerializeToString()
    assert not holds_members(raw_bytes)
    assert raw_bytes.find(other) >= 0
    assert encode(message) == task(history=[{"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": []}])


def test_without_keeps_they_are_left_out() -> None:
    tree = task(later=1)
    assert decoder(hub.Task)(tree).SerializeToString() == decoder(hub.Task)(task()).SerializeToString()
    assert encoder(hub.Task)(decode(tree)) == task()


def test_messages_are_searched_once_the_process_keeps_members(monkeypatch: pytest.MonkeyPatch) -> None:
    made = decode(task(later=1))
    monkeypatch.setattr(KEPT, "count", 0)
    assert decode(task()) == hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    assert KEPT.count == 0
    assert "later" not in encode(made)  # nobody has counted, so nobody searches
    decode({"id": "another", "status": {"later": 1}})
    assert KEPT.count
    assert encode(made)["later"] == 1
