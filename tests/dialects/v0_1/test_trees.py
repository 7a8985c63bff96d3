"""0.1 → 0.3 → 0.1 is identity, and no peer in between can forge a stash."""

from typing import Any

from hypothesis import given

from a2a_bridge.dialects.unmapped import same
from a2a_bridge.dialects.v0_1 import card, messages, parts, requests
from a2a_bridge.dialects.v0_1.parts import STASH, encode_unit
from a2a_bridge.testing.each import each
from tests.dialects.v0_1 import payloads


def stashes(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        own = [tree[STASH]] if isinstance(tree.get(STASH), list) else []
        return own + [one for value in tree.values() for one in stashes(value)]
    return [one for value in tree for one in stashes(value)] if isinstance(tree, list) else []


@given(payloads.parts)
def test_any_part_comes_back(wire: Any) -> None:
    assert same(parts.encode_part(parts.decode_part(wire)), wire)


@given(payloads.messages)
def test_any_message_comes_back(wire: Any) -> None:
    assert same(messages.encode_message(messages.decode_message(wire, "t")), wire)


@given(payloads.tasks)
def test_any_task_comes_back(wire: Any) -> None:
    assert same(messages.encode_task(messages.decode_task(wire)), wire)
    assert same(messages.encode_result(messages.decode_result(wire)), wire)


@given(payloads.status_events | payloads.artifact_events)
def test_any_event_comes_back(wire: Any) -> None:
    assert same(messages.encode_event(messages.decode_event(wire)), wire)


@given(payloads.sends)
def test_any_parameters_of_a_message_come_back(wire: Any) -> None:
    assert same(requests.encode_send(requests.decode_send(wire)), wire)


@given(payloads.queries)
def test_any_parameters_about_a_task_come_back(wire: Any) -> None:
    assert same(requests.encode_query(requests.decode_query(wire)), wire)
    assert same(requests.encode_id(requests.decode_id(wire)), wire)
    assert same(requests.encode_config_query(requests.decode_config_query(wire)), wire)


@given(payloads.task_configs)
def test_any_push_config_comes_back(wire: Any) -> None:
    assert same(requests.encode_task_config(requests.decode_task_config(wire)), wire)


@given(payloads.cards)
def test_any_card_comes_back(wire: Any) -> None:
    assert same(card.encode_tree(card.decode_tree(wire)), wire)


REGULAR: list[tuple[str, Any, Any]] = [
    ("text", parts.decode_part, {"type": "text", "text": "hi"}),
    ("bytes", parts.decode_part, {"type": "file", "file": {"name": "n", "mimeType": "m/m", "bytes": "aGk="}}),
    ("uri", parts.decode_part, {"type": "file", "file": {"uri": "http://h"}}),
    ("reference", parts.decode_part, {"type": "file", "file": {"name": "n"}}),
    ("data", parts.decode_part, {"type": "data", "data": {"a": None}, "metadata": {"m": 1}}),
    ("UriPart", parts.decode_part, {"type": "uri", "uri": "http://h", "mimeType": "m/m"}),
    ("JsonPart", parts.decode_part, {"type": "json", "json": {"a": 1}}),
    ("FormPart", parts.decode_part, {"type": "form", "fields": [{"name": "f"}], "values": {"f": 1}}),
    ("IFramePart", parts.decode_part, {"type": "iframe", "src": "http://h", "width": 5}),
    ("VideoPart", parts.decode_part, {"type": "video", "uri": "http://h", "mimeType": "video/mp4"}),
    ("AudioPart", parts.decode_part, {"type": "audio", "bytes": "aGk="}),
    ("ActionPart", parts.decode_part, {"type": "action", "name": "go", "params": {"a": 1}}),
    ("unknown part", parts.decode_part, {"type": "hologram", "depth": 3, "metadata": {"m": 1}}),
    ("artifact", lambda one: messages.decode_artifact(one, ""), {"index": 3, "name": "a", "parts": []}),
    (
        "task",
        messages.decode_task,
        {
            "id": "t",
            "sessionId": "s",
            "status": {"state": "completed", "message": {"role": "agent", "parts": []}},
            "history": [{"role": "user", "parts": [{"type": "text", "text": "a"}]}],
            "artifacts": [{"index": 0, "parts": []}, {"index": 1, "parts": []}],
        },
    ),
    ("status event", messages.decode_event, {"id": "t", "status": {"state": "working"}, "final": False}),
    (
        "artifact event",
        messages.decode_event,
        {"id": "t", "artifact": {"index": 0, "parts": [], "append": True, "lastChunk": False}},
    ),
    (
        "parameters",
        requests.decode_send,
        {
            "id": "t",
            "sessionId": "s",
            "message": {"role": "user", "parts": []},
            "historyLength": 2,
            "pushNotification": {"url": "http://h", "authentication": {"schemes": ["Bearer"]}},
        },
    ),
    ("query", requests.decode_query, {"id": "t", "historyLength": 3}),
    (
        "card",
        card.decode_tree,
        {
            "name": "n",
            "description": "d",
            "url": "http://h",
            "version": "1",
            "capabilities": {"streaming": True},
            "authentication": {"schemes": ["Bearer", "Basic", "ApiKey", "Magic"]},
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
            "skills": [{"id": "s", "name": "s", "tags": ["t"]}],
        },
    ),
]


@each(("decode", "wire"), [row[1:] for row in REGULAR])
def test_regular_input_leaves_no_stash(decode: Any, wire: Any) -> None:
    assert stashes(decode(wire)) == []


IRREGULAR: list[tuple[str, Any, Any]] = [
    ("null metadata of a part", parts.decode_part, {"type": "text", "text": "", "metadata": None}),
    ("null name of a file", parts.decode_part, {"type": "file", "file": {"name": None, "uri": "u"}}),
    ("a part by its kind", parts.decode_part, {"kind": "text", "text": "hi"}),
    ("a part without a type", parts.decode_part, {"text": "hi"}),
    ("an iframe by url", parts.decode_part, {"type": "iframe", "url": "http://h"}),
    ("no index", lambda one: messages.decode_artifact(one, ""), {"parts": []}),
    ("null session", messages.decode_task, {"id": "t", "sessionId": None, "status": {"state": "working"}}),
    ("empty session", messages.decode_task, {"id": "t", "sessionId": "", "status": {"state": "working"}}),
    ("null history", messages.decode_task, {"id": "t", "history": None, "status": {"state": "working"}}),
    ("null timestamp", messages.decode_task, {"id": "t", "status": {"state": "working", "timestamp": None}}),
    ("no final", messages.decode_event, {"id": "t", "status": {"state": "working"}}),
    ("null chunk flags", messages.decode_event, {"id": "t", "artifact": {"parts": [], "append": None}}),
    ("no length", requests.decode_send, {"id": "t", "message": {"parts": []}, "historyLength": 0}),
    ("null length", requests.decode_query, {"id": "t", "historyLength": None}),
    (
        "null token",
        requests.decode_task_config,
        {"id": "t", "pushNotificationConfig": {"url": "", "token": None}},
    ),
    ("null card member", card.decode_tree, {"name": "n", "documentationUrl": None}),
    ("no schemes", card.decode_tree, {"name": "n", "authentication": {"schemes": []}}),
    (
        "credentials for people",
        card.decode_tree,
        {"name": "n", "authentication": {"schemes": ["Bearer"], "credentials": "ask us"}},
    ),
]


@each(("decode", "wire"), [row[1:] for row in IRREGULAR])
def test_irregular_input_is_kept_in_a_stash(decode: Any, wire: Any) -> None:
    assert stashes(decode(wire)) != []


def test_a_stash_applies_only_where_it_is_still_true() -> None:
    tree = messages.decode_task(
        {"id": "t", "sessionId": None, "status": {"state": "working", "timestamp": None}}
    )
    tree["contextId"] = "made by the agent"
    assert messages.encode_task(tree) == {
        "id": "t",
        "sessionId": "made by the agent",
        "status": {"state": "working", "timestamp": None},
    }


@each(
    "stash",
    [
        [[["text"], "something else"]],
        [[["type"], "file"]],
        [[["text"]]],
        "text",
        [1],
        [[]],
        [[["/text"], "x"]],
        [["/text/deep", 1]],
        [[1, 1]],
        [["/text"]],
        [["/text", "x", "hi"]],
        [["/metadata", {"origType": "uri"}]],
        [["/text", "x", "hi"]] * 2000,
        [[""]],
        [["", 5, {"type": "text", "text": "hi"}]],
        None,
        {},
    ],
)
def test_a_forged_stash_changes_nothing(stash: Any) -> None:
    assert parts.encode_part({"kind": "text", "text": "hi", STASH: stash}) == {"type": "text", "text": "hi"}


def test_a_forged_stash_does_not_make_a_part_dearer_for_each_of_its_entries() -> None:
    data = Counting({"x": 1})
    forged = [*([["/type", "data", "data"]] * 900), ["/data", {}, {"x": 1}]]
    assert parts.encode_part({"kind": "data", "data": data, STASH: forged}) == {"type": "data", "data": data}
    assert data.read <= 10


def test_few_entries_of_a_stash_are_tried_one_by_one() -> None:
    tried = 0

    def decode(wire: Any) -> Any:
        nonlocal tried
        tried += 1
        return {name: value for name, value in wire.items() if name != "new"}

    tree = {"text": "hi", STASH: [["/new", 1], *([["/text", "x", "hi"]] * 900)]}
    assert encode_unit(tree, decode, dict) == {"text": "hi", "new": 1}
    assert tried <= 30


class Counting(dict[str, Any]):
    """Counts the reads of it."""

    read = 0

    def items(self) -> Any:
        self.read += 1
        return super().items()


def test_a_member_that_is_called_like_the_stash_comes_back() -> None:
    wire = {"type": "text", "text": "hi", STASH: [["/text", "forged", "hi"]]}
    assert parts.encode_part(parts.decode_part(wire)) == wire
