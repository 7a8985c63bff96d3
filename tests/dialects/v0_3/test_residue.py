"""The residue: what it carries, what it leaves alone, and that it changes nothing the hub says."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.codec import ExactFloat
from a2a_bridge.dialects import residue
from a2a_bridge.dialects.residue import KEY, KIND, same
from a2a_bridge.dialects.respelling import describe, respelled
from a2a_bridge.dialects.v0_3.parts import decode_part, encode_part
from a2a_bridge.dialects.v0_3.shapes import (
    decode_event,
    decode_message,
    decode_task,
    encode_event,
    encode_message,
    encode_task,
)
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing import strategies_v0
from tests.dialects.v0_3.kind_hops import check, proto_json, reading

MESSAGE: dict[str, Any] = {
    "kind": "message",
    "messageId": "m",
    "role": "user",
    "parts": [{"kind": "text", "text": "hi"}],
}
TASK: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}


def text_in(unit: Any) -> str:
    return unit.metadata.fields[KEY].string_value


def forge(unit: Any, text: str) -> Any:
    unit.metadata.fields[KEY].string_value = text
    return unit


# diff and patch


@given(canonical=strategies_v0.anything(), given_=strategies_v0.anything())
def test_patching_a_difference_gives_what_was_given(canonical: Any, given_: Any) -> None:
    entries = codec.loads_exact(codec.dumps_ascii(residue.diff(canonical, given_)))
    assert residue.patch(canonical, entries) == given_


@pytest.mark.parametrize(
    ("canonical", "given_", "entries"),
    [
        ({"a": 1}, {"a": 1}, 0),
        ({"a": 1}, {"a": ExactFloat("1.0")}, 0),
        ({"a": [7, 0.5]}, {"a": [7.0, ExactFloat("5e-1")]}, 0),
        ({"a": 2**53}, {"a": 2**53 + 1}, 1),
        ({"a": ExactFloat("0.5")}, {"a": ExactFloat("0.50")}, 0),
        ({"a": 0.5}, {"a": ExactFloat("5e-1")}, 0),
        ({"a": True}, {"a": 1}, 1),
        ({"a": None}, {}, 1),
        ({"a/b": 1, "m~n": {"": 2}}, {"a/b": 2, "m~n": {"": 3}}, 2),
        ({"a": [1, 2]}, {"a": [1, 3]}, 1),
        ({"a": [1, 2]}, {"a": [1]}, 1),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 0),
    ],
)
def test_only_differences_are_entries(canonical: Any, given_: Any, entries: int) -> None:
    found = residue.diff(canonical, given_)
    assert len(found) == entries
    assert same(residue.patch(canonical, found), given_)


def test_patching_leaves_the_canonical_tree_as_it_was() -> None:
    canonical = {"a": {"b": [1, {"c": 2}]}, "d": {}}
    before = codec.dumps(canonical)
    residue.patch(canonical, residue.diff(canonical, {"a": {"b": [1, {"c": 3}]}, "d": {"e": 1}}))
    assert codec.dumps(canonical) == before


@pytest.mark.parametrize(
    "entry",
    [
        ["/a", "00000000", 5],
        ["/a", None, 5],
        ["/x", "00000000", 5],
        ["/x/y", None, 5],
        ["/l/9", None, 5],
        ["/l/-1", None, 5],
        ["/l/01x", None, 5],
        ["a", None, 5],
        ["/l/0", "00000000"],
    ],
)
def test_entries_whose_old_value_is_not_there_are_left_out(entry: list[Any]) -> None:
    tree = {"a": 1, "l": [1]}
    assert residue.patch(tree, [entry]) == tree


@pytest.mark.parametrize("given_", [[2**53 + 1] * 1_000_000, [{"a": 1}] * 1_000_000])
def test_a_difference_ends_where_it_cannot_be_carried_any_more(given_: list[Any]) -> None:
    canonical = [None] * len(given_)
    looked_at = 0

    def count(_frame: Any, event: str, _: Any) -> None:
        nonlocal looked_at
        looked_at += event == "call"

    sys.setprofile(count)
    try:
        with pytest.raises(residue.TooMuch):
            residue.diff(canonical, given_)
    finally:
        sys.setprofile(None)
    assert looked_at < 100_000


def test_what_is_too_deep_to_be_read_again_is_not_carried() -> None:
    tree: Any = 1
    for _ in range(residue.DEEPEST + 1):
        tree = [tree]
    with pytest.raises(residue.TooMuch, match="nested"):
        residue.diff({}, {"a": tree})


# what a middle man changes


def test_a_change_in_between_survives_and_unrelated_entries_still_apply() -> None:
    given_ = {**TASK, "status": {"state": "working", "timestamp": "yesterday"}, "history": [], "x": 1}
    task = reading(decode_task, codec.dumps(given_))
    task.status.state = hub.TASK_STATE_COMPLETED
    task.context_id = "other"
    wanted = {**given_, "status": {"state": "completed", "timestamp": "yesterday"}, "contextId": "other"}
    assert encode_task(task) == wanted


def test_an_entry_whose_member_was_changed_gives_way() -> None:
    given_ = {**TASK, "status": {"state": "working", "timestamp": "2025-04-17T17:47:09+02:00"}, "x": 1}
    task = decode_task(given_)
    task.status.timestamp.FromSeconds(0)
    assert encode_task(task) == {
        **TASK,
        "status": {"state": "working", "timestamp": "1970-01-01T00:00:00Z"},
        "x": 1,
    }


def test_a_member_that_was_filled_in_between_is_not_emptied_again() -> None:
    task = decode_task({**TASK, "history": [], "artifacts": []})
    task.history.append(decode_message(MESSAGE))
    assert encode_task(task) == {**TASK, "history": [MESSAGE], "artifacts": []}


def test_units_within_keep_theirs_when_they_move() -> None:
    task = decode_task({**TASK, "history": [{**MESSAGE, "x": 1}, MESSAGE], "y": 2})
    moved = [task.history[1], task.history[0]]
    task.status.message.CopyFrom(task.history[0])
    del task.history[:]
    task.history.extend(moved)
    assert encode_task(task) == {
        **TASK,
        "status": {"state": "working", "message": {**MESSAGE, "x": 1}},
        "history": [MESSAGE, {**MESSAGE, "x": 1}],
        "y": 2,
    }


def test_metadata_that_was_added_in_between_is_kept() -> None:
    part = decode_part({"kind": "text", "text": "a", "x": 1})
    part.metadata["k"] = "v"
    assert encode_part(part) == {"kind": "text", "text": "a", "x": 1, "metadata": {"k": "v"}}


@pytest.mark.parametrize("number", range(4))
def test_each_field_of_a_message_can_change_alone(number: int) -> None:
    given_ = {**MESSAGE, "taskId": "", "extensions": [], "x": ExactFloat("1.0")}
    message = decode_message(given_)
    name, value = [("messageId", "n"), ("taskId", "t"), ("contextId", "c"), ("extensions", ["e"])][number]
    field = {"messageId": "message_id", "taskId": "task_id", "contextId": "context_id"}.get(name, name)
    if isinstance(value, list):
        message.extensions.extend(value)
    else:
        setattr(message, field, value)
    assert encode_message(message) == {**given_, name: value}


# forged, foreign, broken

FORGED = [
    '{"v":1,"kind":[["/role","%s","agent"]]}',
    '{"v":1,"kind":[["/messageId","%s","evil"]]}',
    '{"v":1,"kind":[["/parts","%s",[]]]}',
    '{"v":1,"kind":[["","%s",{"kind":"task"}]]}',
    '{"v":1,"kind":[["","%s"]]}',
    '{"v":1,"kind":[["/contextId",null,"c"]]}',
    '{"v":1,"kind":[["/metadata",null,{"a":1}]]}',
    '{"v":1,"kind":[["/role","%s",5]]}',
    '{"v":1,"kind":[["/parts/0/text","%s","evil"]]}',
]


@pytest.mark.parametrize("text", FORGED)
def test_a_residue_that_would_change_what_the_hub_says_is_user_data(text: str) -> None:
    message = decode_message(MESSAGE)
    refused = 0
    for value in ("user", "m", [{"kind": "text", "text": "hi"}], MESSAGE, "hi"):
        forge(message, text.replace("%s", residue._checksum(value)))
        tree = encode_message(message)
        assert {**tree, "metadata": 0} == {**MESSAGE, "metadata": 0}
        if "metadata" in tree:  # else the checksum does not fit, as in one that has grown old
            refused += 1
            assert reading(decode_message, codec.dumps(tree)) == message
    assert refused == (1 if "%s" in text else 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "junk",
        '{"v":1,',
        '{"v":1,"kind":5}',
        '{"v":1,"kind":[5]}',
        '{"v":1,"kind":[["/x"]]}',
        '{"v":1,"kind":[["/x",null,1,2,3]]}',
        '{"v":1,"kind":[[1,null,1]]}',
        '{"v":2,"kind":[["/x",null,1]]}',
        '{"v":1,"kind":[["/x",null,1]',
        '{"v":1,"hub":{"role":0}}',
        '{"v":1,"kind":"' + "x" * residue.LARGEST + '"}',
        "[" * 5000,
        '{"v":1,"kind":' + "[" * 5000,
    ],
)
def test_what_is_no_residue_is_user_data_on_both_sides(text: str) -> None:
    message = forge(decode_message(MESSAGE), text)
    if len(text) < residue.LARGEST:
        assert reading(decode_message, codec.dumps(encode_message(message))) == message
    else:
        with pytest.raises(ValueError, match="more than"):
            encode_message(message)
    if len(text) < residue.LARGEST // 2:
        check(decode_message, encode_message, {**MESSAGE, "metadata": {KEY: text}})


@pytest.mark.parametrize("value", [5, True, None, [1], {"a": {"b": 1}}, 0.5])
def test_any_value_under_the_key_is_user_data(value: Any) -> None:
    message = decode_message(MESSAGE)
    message.metadata[KEY] = value
    assert reading(decode_message, codec.dumps(encode_message(message))) == message
    check(decode_message, encode_message, {**MESSAGE, "metadata": {KEY: value, "k": 1}})


def test_a_residue_of_another_source_does_not_reach_the_wire() -> None:
    task = decode_task(TASK)
    residue.carry(task, residue.PROTO, [["/x", None, 1]])
    assert encode_task(task) == TASK


def test_sources_stand_side_by_side() -> None:
    task = decode_task({**TASK, "x": 1})
    residue.carry(task, residue.PROTO, [["/y", None, 2]])
    assert residue.carried(task, residue.PROTO) == [["/y", None, 2]]
    assert encode_task(task) == {**TASK, "x": 1}


def test_a_residue_on_a_0x_wire_is_the_users_and_comes_back() -> None:
    """A bridge that did not strip, or somebody who copied a message of the hub."""
    text = text_in(decode_message({**MESSAGE, "x": 1}))
    given_ = {**MESSAGE, "metadata": {KEY: text}}
    check(decode_message, encode_message, given_)
    assert decode_message(given_).HasField("metadata")


# twice through bridges


def test_two_bridges_with_1_0_between_them_lose_nothing() -> None:
    given_ = {**MESSAGE, "x": [ExactFloat("1.0")], "metadata": {"n": 2**60 + 1}, "taskId": ""}
    first = reading(decode_message, codec.dumps(given_))
    over_there = proto_json(first)
    back = codec.loads_exact(codec.dumps(encode_message(over_there)))
    again = reading(decode_message, codec.dumps(back))
    assert again == first
    assert same(codec.loads_exact(codec.dumps(encode_message(proto_json(again)))), given_)


def test_two_bridges_with_0_3_between_them_lose_nothing() -> None:
    message = hub.Message(message_id="m", parts=[hub.Part(), hub.Part(text="a", filename="f")])
    message.parts[1].metadata[KEY] = "mine"
    there = codec.loads(codec.dumps(encode_message(message)))
    second = decode_message(there)
    assert second == message
    assert encode_message(second) == there


def test_an_unknown_member_added_to_facts_on_the_way_is_kept_beside_them() -> None:
    message = hub.Message(message_id="m")
    there = {**codec.loads(codec.dumps(encode_message(message))), "x": 1}  # type: ignore[dict-item]
    second = decode_message(there)
    assert second.role == hub.ROLE_UNSPECIFIED
    assert encode_message(second) == there


def test_a_fact_that_the_tree_contradicts_is_user_data() -> None:
    there = encode_message(hub.Message(message_id="m"))
    there["role"] = "user"
    assert decode_message(there).role == hub.ROLE_USER
    check(decode_message, encode_message, there)


# size


def test_up_to_the_limit_all_is_carried() -> None:
    check(decode_message, encode_message, {**MESSAGE, "x": "y" * (residue.LARGEST - 100)})


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({**MESSAGE, "x": "y" * residue.LARGEST}, ""),
        ({**MESSAGE, "parts": [{"kind": "text", "text": "a"}, {"kind": "text", "text": "a", "x": "é" * 20000}]}, "parts[1]"),
        ({**MESSAGE, "parts": [{"kind": "file", "file": {"bytes": "not base64! " * 10000}}]}, "parts[0]"),
    ],
)  # fmt: skip
def test_beyond_the_limit_it_is_refused_with_the_place(tree: Any, path: str) -> None:
    with pytest.raises(codec.DecodeError) as raised:
        decode_message(tree)
    assert raised.value.violations == (
        (path, f"holds more than {residue.LARGEST} bytes that A2A 1.0 has no place for"),
    )


# strip

FULL = {
    **TASK,
    "x": 1,
    "status": {"state": "working", "message": {**MESSAGE, "x": 1}},
    "history": [{**MESSAGE, "parts": [{"kind": "text", "text": "a", "x": 1}]}],
    "artifacts": [{"artifactId": "a", "x": 1, "parts": [{"kind": "text", "text": "a", "x": 1}]}],
}


@pytest.mark.parametrize(
    "tree",
    [
        FULL,
        {**MESSAGE, "x": 1},
        {"kind": "status-update", "taskId": "t", "contextId": "c", "status": FULL["status"], "final": False, "x": 1},
        {"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": FULL["artifacts"][0], "x": 1},
    ],
)  # fmt: skip
def test_stripping_leaves_what_the_canonical_tree_says(tree: Any) -> None:
    event = decode_event(tree)
    assert residue.present(event)
    stripped = residue.stripped(event)
    assert not residue.present(stripped)
    assert KEY.encode() not in stripped.SerializeToString()
    assert residue.present(event), "the original is not touched"
    assert "x" not in str(encode_event(stripped)).replace("text", "").replace("contextId", "")
    residue.strip(event)
    assert event == stripped


def test_metadata_that_holds_more_stays() -> None:
    task = decode_task({**TASK, "x": 1, "metadata": {"k": "v"}})
    residue.strip(task)
    assert encode_task(task) == {**TASK, "metadata": {"k": "v"}}


def test_what_has_nothing_to_strip_is_given_back_itself() -> None:
    task = decode_task({**TASK, "metadata": {"k": KEY}})
    assert residue.stripped(task) is task
    assert not residue.present(task)


def test_junk_under_the_key_is_not_stripped() -> None:
    task = forge(decode_task(TASK), "junk")
    assert residue.stripped(task) is task


def test_all_messages_with_metadata_are_units() -> None:
    request = hub.SendMessageRequest(message=decode_message({**MESSAGE, "x": 1}))
    residue.carry(request, KIND, [["/x", None, 1]])
    listed = hub.ListTasksResponse(tasks=[decode_task({**TASK, "x": 1})])
    cancel = hub.CancelTaskRequest()
    residue.carry(cancel, KIND, [["/x", None, 1]])
    for message in (request, listed, cancel):
        assert residue.present(message)
        residue.strip(message)
        assert not residue.present(message)


# respelled base64


@given(octets=st.binary(min_size=60, max_size=300), width=st.integers(1, 90), data=st.data())
def test_usual_variants_of_base64_need_only_a_recipe(octets: bytes, width: int, data: st.DataObject) -> None:
    import base64

    canonical = base64.b64encode(octets).decode()
    variant = canonical
    if data.draw(st.booleans()):
        variant = variant.replace("+", "-").replace("/", "_")
    if data.draw(st.booleans()):
        variant = variant.rstrip("=")
    if data.draw(st.booleans()):
        line = data.draw(st.sampled_from(["\n", "\r\n"]))
        variant = line.join(variant[at : at + width] for at in range(0, len(variant), width)) + data.draw(
            st.sampled_from(["", line])
        )
    if variant == canonical or len(variant) < 64:
        return
    recipe = describe(canonical, variant)
    assert recipe is not None
    assert len(codec.dumps(recipe)) < 70
    assert respelled(canonical, recipe) == variant


def test_megabytes_with_broken_lines_are_carried_by_a_recipe() -> None:
    import base64

    text = base64.encodebytes(bytes(range(256)) * 8000).decode()
    tree = {"kind": "file", "file": {"bytes": text}}
    part = decode_part(tree)
    assert len(text_in(part)) < 200
    assert encode_part(part) == tree


@pytest.mark.parametrize(
    "recipe",
    [{"width": 0, "line": "\n"}, {"width": "x"}, {"line": "\n"}, {"last": "xx"}, {"last": 5}, {"width": 5, "line": "evil"}],
)  # fmt: skip
def test_what_is_no_recipe_respells_nothing(recipe: Any) -> None:
    assert respelled("YWJj", recipe) is None
