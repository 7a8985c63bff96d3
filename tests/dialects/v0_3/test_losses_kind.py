"""The mismatches of 0.x and 1.0, one by one and both ways, over JSON-RPC: L01 to L11."""

# ruff: noqa: N802  the mismatches have these names

from typing import Any

import pytest

from a2a_bridge import codec
from a2a_bridge.codec import ExactFloat
from a2a_bridge.dialects import annotation, unmapped
from a2a_bridge.dialects import reader as irregular
from a2a_bridge.dialects.v0_3 import shapes
from a2a_bridge.dialects.v0_3 import shapes as parts
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.dialects.v0_3.kind_hops import MESSAGE, ROW, TASK, check, reading

TIME = "2025-04-17T17:47:09Z"


def part(**members: Any) -> dict[str, Any]:
    return {"kind": "data", "data": members}


def status_update(state: str, **members: Any) -> dict[str, Any]:
    return {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": state}, **members}


def side_channel_trip(method: str, params: Any) -> tuple[Any, Any]:
    """A request in the hub, and its params after the way through, with the content beside it."""
    row = ROW[method]
    told = row.extras.request.extract(params)
    message = row.decode_request(params)
    return message, row.extras.request.restore(row.encode_request(message), told)


# --- L01 empty or absent ---
@pytest.mark.parametrize("name", ["contextId", "taskId", "extensions", "referenceTaskIds", "metadata"])
def test_L01_empty_members_of_messages_stay_and_absent_ones_stay_away(name: str) -> None:
    empty: Any = {"metadata": {}}.get(name, [] if name.endswith("s") and name != "taskId" else "")
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, {**MESSAGE, name: empty})
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, MESSAGE)


@pytest.mark.parametrize("name", ["history", "artifacts", "metadata"])
def test_L01_empty_members_of_tasks_stay(name: str) -> None:
    check(shapes.TASK.decode, shapes.TASK.encode, {**TASK, name: {} if name == "metadata" else []})


def test_L01_empty_metadata_alone_needs_no_residue() -> None:
    message = shapes.MESSAGE.decode({**MESSAGE, "metadata": {}})
    assert message.HasField("metadata")
    assert not unmapped.present(message)


@pytest.mark.parametrize("name", ["name", "description", "extensions"])
def test_L01_empty_members_of_artifacts_stay(name: str) -> None:
    tree = {"artifactId": "a", "parts": [], name: [] if name == "extensions" else ""}
    check(shapes.ARTIFACT.decode, shapes.ARTIFACT.encode, tree)


# --- L02 numbers, depth, strings ---
@each("text", ["1", "-5", "9007199254740991", "0.5", "1e300", "1e17", "0.1", "-0.0"])
def test_L02_numbers_that_a_double_prints_need_no_residue(text: str) -> None:
    number = codec.loads_exact(text)
    assert not unmapped.present(parts.PART.decode(part(n=number)))
    check(parts.PART.decode, parts.PART.encode, part(n=number))


def test_L02_integers_of_64_bits_come_back_and_larger_ones_are_rounded() -> None:
    tree = '{"kind":"data","data":{"n":[9007199254740993,18446744073709550592]},"metadata":{"m":18446744073709551617}}'
    message = reading(parts.PART.decode, tree)
    found = codec.loads_exact(codec.dumps(parts.PART.encode(message)))
    assert found == {
        "kind": "data",
        "data": {"n": [9007199254740993, 18446744073709550592]},
        "metadata": {"m": 2.0**64},
    }


@pytest.mark.parametrize("text", ["1" * 400, "1e400", "-1e400", '"\\ud800"'])
def test_L02_values_that_no_message_can_hold_are_rejected_with_their_place(text: str) -> None:
    for tree in (
        f'{{"kind":"data","data":{{"n":[{text}]}}}}',
        f'{{"kind":"text","text":"","metadata":{{"n":[{text}]}}}}',
    ):
        with pytest.raises(codec.DecodeError) as caught:
            reading(parts.PART.decode, tree)
        assert caught.value.path in ("data.n[0]", "metadata.n[0]")


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e0",
        "1e-400",
        "0.1000000000000000055511151231257827",
        "3.141592653589793238462643",
        "100.0",
        "-5e0",
    ],
)
def test_L02_how_a_number_is_written_costs_nothing_and_is_not_kept(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irregular, "read", None)
    tree = f'{{"kind":"data","data":{{"n":[{text}]}},"metadata":{{"m":{text}}}}}'
    message = parts.PART.decode(codec.loads(tree))
    assert not unmapped.present(message)
    assert codec.loads(codec.dumps(parts.PART.encode(message))) == codec.loads(tree)


def test_L02_integers_stay_integers_towards_0x() -> None:
    message = hub.Part()
    message.data.struct_value["n"] = 1
    assert codec.dumps(parts.PART.encode(message)) == b'{"kind":"data","data":{"n":1}}'


@pytest.mark.parametrize(("depth", "array"), [(10, True), (43, True), (10, False), (29, False)])
def test_L02_trees_of_any_depth_that_messages_may_have_come_back(depth: int, array: bool) -> None:
    tree: Any = "bottom"
    for _ in range(depth):
        tree = [tree] if array else {"d": tree}
    check(
        shapes.MESSAGE.decode,
        shapes.MESSAGE.encode,
        {**MESSAGE, "parts": [part(x=tree)], "metadata": {"x": tree}},
    )


@pytest.mark.parametrize(("depth", "array"), [(44, True), (30, False), (200, False), (900, True)])
def test_L02_trees_too_deep_for_other_bindings_are_rejected(depth: int, array: bool) -> None:
    tree: Any = "bottom"
    for _ in range(depth):
        tree = [tree] if array else {"d": tree}
    with pytest.raises(codec.DecodeError) as caught:
        shapes.MESSAGE.decode({**MESSAGE, "parts": [part(x=tree)], "metadata": {"x": tree}})
    found = [(path.partition(".x")[0], problem) for path, problem in caught.value.violations]
    assert found == [("metadata", "is nested too deeply"), ("parts[0].data", "is nested too deeply")]
    check(
        shapes.MESSAGE.decode,
        shapes.MESSAGE.encode,
        {**MESSAGE, "stranger": tree} if depth < 400 else MESSAGE,
    )


def test_L02_the_last_of_duplicate_keys_wins() -> None:
    message = parts.PART.decode(codec.loads('{"kind":"data","data":{"a":1,"a":2}}'))
    assert parts.PART.encode(message) == part(a=2)


def test_L02_null_in_free_data_is_a_value() -> None:
    assert not unmapped.present(parts.PART.decode(part(a=None)))
    check(parts.PART.decode, parts.PART.encode, part(a=None, b=[None]))


@pytest.mark.parametrize("name", ["contextId", "metadata", "extensions", "referenceTaskIds"])
def test_L02_null_for_an_optional_member_is_absence_that_comes_back(name: str) -> None:
    message = shapes.MESSAGE.decode({**MESSAGE, name: None})
    assert unmapped.strip_copy(message) == shapes.MESSAGE.decode(MESSAGE)
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, {**MESSAGE, name: None})


# --- L03 timestamps ---
@each(
    ("text", "canonical"),
    [
        (TIME, TIME),
        ("2025-04-17T17:47:09.680794", "2025-04-17T17:47:09.680794Z"),
        ("2025-04-17T17:47:09.1Z", "2025-04-17T17:47:09.100Z"),
        ("2025-04-17T17:47:09.000Z", TIME),
        ("2025-04-17T17:47:09.123456789123Z", "2025-04-17T17:47:09.123456789Z"),
        ("2025-04-17T19:47:09+02:00", TIME),
        ("2025-04-17T19:47:09+0200", TIME),
        ("2025-04-17T16:47:09-01", TIME),
        ("2025-04-17t17:47:09z", TIME),
        ("2025-04-17 17:47:09", TIME),
        ("2025-04-17", "2025-04-17T00:00:00Z"),
        ("2025-04-17T17:47Z", "2025-04-17T17:47:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999999Z"),
        ("2025-04-17T24:00:00Z", "2025-04-18T00:00:00Z"),
        ("2025-04-17T24:01:00Z", None),
        ("2025-02-30T00:00:00Z", None),
        ("2025-04-17T25:00:00Z", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("not a date", None),
        ("", None),
        ("2025-04-17T17:47:09+99:99", None),
        ("٢٠٢٥-04-17", None),
    ],
)
def test_L03_timestamps_are_understood_as_far_as_they_can_be_and_come_back(
    text: str, canonical: str | None
) -> None:
    tree = {**TASK, "status": {"state": "working", "timestamp": text}}
    task = shapes.TASK.decode(tree)
    assert task.status.HasField("timestamp") == (canonical is not None)
    stripped = shapes.TASK.encode(unmapped.strip_copy(task))
    assert stripped["status"].get("timestamp") == canonical
    check(shapes.TASK.decode, shapes.TASK.encode, tree)


# --- L04 final ---
@each(
    ("state", "derived"),
    [
        ("submitted", False),
        ("working", False),
        ("auth-required", False),
        ("unknown", False),
        ("completed", True),
        ("canceled", True),
        ("failed", True),
        ("rejected", True),
        ("input-required", True),
    ],
)
def test_L04_final_follows_from_the_state_and_is_noted_where_it_does_not(state: str, derived: bool) -> None:
    event = shapes.EVENT.decode(status_update(state, final=derived))
    assert not event.status_update.HasField("metadata")
    assert shapes.EVENT.encode(event) == status_update(state, final=derived)
    other = shapes.EVENT.decode(status_update(state, final=not derived))
    assert annotation.read_final(other.status_update) is not derived
    assert not unmapped.present(other), "it is no residue: those who end streams read it"
    for metadata in ({}, {"metadata": {"k": "v"}}, {"metadata": {}}):
        check(shapes.EVENT.decode, shapes.EVENT.encode, status_update(state, final=not derived, **metadata))


def test_L04_a_missing_final_stays_missing() -> None:
    event = shapes.EVENT.decode(status_update("completed"))
    assert annotation.read_final(event.status_update) is None
    check(shapes.EVENT.decode, shapes.EVENT.encode, status_update("completed"))
    check(
        shapes.EVENT.decode, shapes.EVENT.encode, status_update("working", metadata={annotation.FINAL: True})
    )


# --- L05 booleans ---
def test_L05_false_stays_apart_from_absence() -> None:
    tree = {
        "kind": "artifact-update",
        "taskId": "t",
        "contextId": "c",
        "artifact": {"artifactId": "a", "parts": []},
    }
    for append in ({}, {"append": False}, {"append": True}):
        for last in ({}, {"lastChunk": False}, {"lastChunk": True}):
            check(shapes.EVENT.decode, shapes.EVENT.encode, tree | append | last)
    assert not unmapped.present(shapes.EVENT.decode(tree | {"append": True, "lastChunk": True}))


# --- L06 the state `unknown` ---
def test_L06_unknown_is_unspecified_and_back() -> None:
    task = shapes.TASK.decode({**TASK, "status": {"state": "unknown"}})
    assert task.status.state == hub.TASK_STATE_UNSPECIFIED
    assert not unmapped.present(task)
    assert codec.encoder(hub.Task)(task)["status"] == {"state": "TASK_STATE_UNSPECIFIED"}
    check(shapes.TASK.decode, shapes.TASK.encode, {**TASK, "status": {"state": "unknown"}})


def test_L06_a_missing_state_and_a_missing_status_are_unknown_and_stay_missing() -> None:
    for tree in ({**TASK, "status": {}}, {key: value for key, value in TASK.items() if key != "status"}):
        assert shapes.TASK.decode(tree).status.state == hub.TASK_STATE_UNSPECIFIED
        check(shapes.TASK.decode, shapes.TASK.encode, tree)


def test_L06_the_other_variant_of_canceled_is_understood() -> None:
    tree = {**TASK, "status": {"state": "cancelled"}}
    assert shapes.TASK.decode(tree).status.state == hub.TASK_STATE_CANCELED
    check(shapes.TASK.decode, shapes.TASK.encode, tree)


# --- L07 tags and strangers ---
@each(
    "tree",
    [
        {key: value for key, value in MESSAGE.items() if key != "kind"},
        {key: value for key, value in TASK.items() if key != "kind"},
        {"taskId": "t", "contextId": "c", "status": {"state": "working"}, "final": False},
        {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}},
        {
            **MESSAGE,
            "parts": [{"type": "text", "text": "a"}, {"type": "data", "data": {}}, {"file": {"uri": "u"}}],
        },
        {**MESSAGE, "kind": "message", "x": {"y": [1, ExactFloat("1.0")]}, "": None},
        {**TASK, "status": {**TASK["status"], "x": 1}},
        {**MESSAGE, "parts": [{"kind": "file", "file": {"uri": "u", "x": 1}, "y": 2}]},
        {**MESSAGE, "parts": [{"kind": "file", "file": {"data": "aGk=", "name": "n"}}]},
        {**MESSAGE, "parts": [{"kind": "text", "text": "a", "mediaType": 5, "filename": ""}]},
    ],
)
def test_L07_missing_kinds_aliases_and_unknown_members_come_back(tree: Any) -> None:
    check(shapes.EVENT.decode, shapes.EVENT.encode, tree)


# --- L08 members that the protobuf of 0.3 lacks ---
def test_L08_the_kind_shape_has_them_all() -> None:
    tree = {
        **MESSAGE,
        "referenceTaskIds": ["a"],
        "parts": [{"kind": "file", "file": {"uri": "u", "name": "n"}, "metadata": {"k": 1}}],
    }
    assert not unmapped.present(shapes.MESSAGE.decode(tree))
    check(shapes.MESSAGE.decode, shapes.MESSAGE.encode, tree)


# --- L09 base64 and files ---
def file(**members: Any) -> dict[str, Any]:
    return {"kind": "file", "file": members}


@each(
    ("text", "raw_bytes"),
    [
        ("aGk=", b"hi"),
        ("aGk", b"hi"),
        ("aGl=", b"hi"),
        ("aGk=\n", b"hi"),
        ("a Gk=", b"hi"),
        ("-_8=", b"\xfb\xff"),
        ("+/8", b"\xfb\xff"),
        ("", b""),
    ],
)
def test_L09_base64_in_any_variant(text: str, raw_bytes: bytes) -> None:
    assert parts.PART.decode(file(bytes=text)).raw == raw_bytes
    check(parts.PART.decode, parts.PART.encode, file(bytes=text))


def test_L09_a_file_with_bytes_and_uri_is_its_bytes() -> None:
    part = parts.PART.decode(file(bytes="aGk=", uri="u", name="n"))
    assert (part.raw, part.filename) == (b"hi", "n")
    assert not part.HasField("metadata")  # 0.3 does not allow both, so the uri is not preserved
    assert parts.PART.encode(part) == file(bytes="aGk=", name="n")


def test_L09_a_file_with_neither_has_an_empty_url() -> None:
    assert parts.PART.decode(file(name="n")).WhichOneof("content") == "url"
    check(parts.PART.decode, parts.PART.encode, file(name="n"))
    check(parts.PART.decode, parts.PART.encode, file())


# --- L10 data that is no object ---
@each("value", [[1], 5, "x", True, None, [], 0.5])
@each("metadata", [None, {"k": 1}, {"data_part_compat": True}, {"data_part_compat": 0}])
def test_L10_other_values_are_wrapped_and_marked_towards_0x(value: Any, metadata: Any) -> None:
    message = hub.Part()
    message.data.CopyFrom(codec.decoder(type(message.data))(value))
    if metadata is not None:
        message.metadata.SetInParent()
        message.metadata.update(metadata)
    tree = parts.PART.encode(message)
    assert tree["data"] == {"value": value}
    assert reading(parts.PART.decode, codec.dumps(tree)) == message


@each("value", [{"k": 1}, 5, None])
@each("flag", [{}, {"data_part_compat": True}, {"data_part_compat": False}])
def test_L10_user_data_that_looks_wrapped_is_left_alone(value: Any, flag: Any) -> None:
    tree = {"kind": "data", "data": {"value": value}, "metadata": flag}
    assert parts.PART.decode(tree).data.WhichOneof("kind") == "struct_value"
    check(parts.PART.decode, parts.PART.encode, tree)


@each("members", [{"metadata": {}}, {"data": {"value": {"k": 1}}}, {"data": {"value": 5, "other": 1}}])
def test_L10_a_wrapped_value_that_a_peer_changed_is_user_data(members: Any) -> None:
    message = hub.Part()
    message.data.number_value = 5
    tree = parts.PART.encode(message)
    mark = {unmapped.KEY: tree["metadata"][unmapped.KEY]}
    changed = {**tree, **members}
    changed["metadata"] = {**changed["metadata"], **mark}
    found = codec.encoder(type(message.data))(parts.PART.decode(changed).data)
    assert found == changed["data"]


def test_L10_a_list_from_0_2_5_is_a_list_in_the_hub() -> None:
    message = parts.PART.decode({"kind": "data", "data": [1, "a"]})
    assert len(message.data.list_value.values) == 2
    check(parts.PART.decode, parts.PART.encode, {"kind": "data", "data": [1, ExactFloat("2.0")]})


# --- L11 members of text and data that only 1.0 has ---
def test_L11_media_types_and_names_of_text_and_data_are_further_members() -> None:
    message = hub.Part(text="# hi", media_type="text/markdown", filename="a.md")
    tree = parts.PART.encode(message)
    assert tree == {"kind": "text", "text": "# hi", "mediaType": "text/markdown", "filename": "a.md"}
    assert parts.PART.decode(tree) == message
