"""The content beside messages is checked where it comes back: invalid content does no harm."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, dumps_ascii, loads
from a2a_bridge.codec.budget import LengthyError, within_budget
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import KNOWN, scalars, signed_extras, unmapped
from a2a_bridge.dialects.unmapped import HUB, KEY, KIND, PROTO, difference, restore, restore_copy, same
from a2a_bridge.dialects.unmapped_fields import UNKNOWN, merge_unknown, restore_unknown
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.samples import samples
from tests.identity import says
from tests.strategies import json_values
from tests.strategies_v0 import anything

ROWS = [
    pytest.param(row, id=f"{dialect.version}-{kind.name}-{row.operation.name}")
    for dialect in KNOWN
    for kind, form in dialect.forms.items()
    for row in form.rows
]
every_row = pytest.mark.parametrize("row", ROWS)
ASKING = [one for one in ROWS if one.values[0].extras.request is not None]
ANSWERING = [one for one in ROWS if one.values[0].extras.response is not None]
JUNK = [
    "",
    "x",
    "{",
    "{}",
    "[]",
    "null",
    "5",
    '""',
    '{"v":1}',
    '{"v":9,"kind":[]}',
    '[["a"]]',
    "\\ud800",
    "[" * 3000,
]
texts = st.one_of(st.sampled_from(JUNK), json_values().map(dumps_ascii))


def wires(row: Any, which: str) -> list[Any]:
    """The samples of a row on the wire, as far as it can express them."""
    found = []
    for message in samples(getattr(row.operation, which)):
        try:
            wire = getattr(row, f"encode_{which}")(message)
        except A2AError:
            continue
        found.append(wire if isinstance(wire, bytes) else loads(dumps(wire)))
    return found


@pytest.mark.parametrize("row", ASKING)
@settings(max_examples=25)
@given(text=texts)
def test_junk_beside_a_request(row: Any, text: str) -> None:
    for wire in wires(row, "request"):
        recalled = row.extras.request.restore(wire, {SIDE_CHANNEL: text})
        assert isinstance(recalled, bytes) or dumps(recalled)


@pytest.mark.parametrize("row", ANSWERING)
@settings(max_examples=25)
@given(text=texts)
def test_junk_beside_a_response(row: Any, text: str) -> None:
    for wire in wires(row, "response"):
        recalled = row.extras.response.restore(wire, {SIDE_CHANNEL: text})
        assert isinstance(recalled, bytes) or dumps(recalled)


@every_row
def test_nothing_beside_a_message_leaves_it_as_it_is(row: Any) -> None:
    for which in ("request", "response"):
        beside = getattr(row.extras, which)
        if beside is not None:
            for wire in wires(row, which):
                assert beside.restore(wire, {}) == wire


@every_row
def test_samples_say_nothing_beside_themselves(row: Any) -> None:
    for which in ("request", "response"):
        beside = getattr(row.extras, which)
        if beside is not None:
            for wire in wires(row, which):
                assert beside.extract(wire) == {}


# --- Preserved texts in large documents, which are not searched as bytes ---

TEXT = "text" * 50_000


def document(parts: int) -> dict[str, Any]:
    """A request with a preserved text. More than 256 parts are too many for a look at each container."""
    message = {"messageId": "m", "parts": [{"text": TEXT}] * parts, "metadata": {KEY: "preserved"}}
    return {"params": {"message": message}}


@pytest.mark.parametrize("parts", [1, 300])
def test_a_forged_text_is_removed(parts: int) -> None:
    tree: Any = signed_extras.loads(json.dumps(document(parts)).encode())
    assert "metadata" not in tree["params"]["message"]


@pytest.mark.parametrize("parts", [1, 300])
def test_a_text_of_ours_comes_back(parts: int) -> None:
    data = signed_extras.dumps(document(parts))
    assert b'"preserved"' not in data  # it has a code
    assert signed_extras.loads(data) == document(parts)


def test_megabytes_with_a_text_are_not_written_without_a_pause() -> None:
    with pytest.raises(LengthyError):
        within_budget(signed_extras.dumps, document(6))
    request = hub.SendMessageRequest()
    request.message.message_id = "m"
    request.message.metadata.update({KEY: TEXT * 6})
    wire, method = request.SerializeToString(), "/lf.a2a.v1.A2AService/SendMessage"
    with pytest.raises(LengthyError):
        within_budget(signed_extras.seal_request, wire, method)
    assert signed_extras.open_request(signed_extras.seal_request(wire, method), method) == wire


# --- Owners of texts ---

#: message -> its JSON, and the members that a text is bound to
OWNED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "Message": ({"messageId": "m", "role": "ROLE_USER", "taskId": "t"}, ["messageId", "role"]),
    "Artifact": ({"artifactId": "a", "name": "n"}, ["artifactId"]),
    "TaskArtifactUpdateEvent": (
        {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a"}},
        ["taskId", "artifact"],
    ),
    "TaskStatusUpdateEvent": ({"taskId": "t", "contextId": "c", "status": {"state": "s"}}, ["taskId"]),
    "Task": ({"id": "t", "contextId": "c", "status": {"state": "s"}}, ["id"]),
    "SendMessageRequest": ({"message": {"messageId": "m"}, "tenant": "n"}, ["message"]),
    "AgentExtension": ({"uri": "u", "required": True}, []),
    "Part": ({"text": "t", "filename": "f"}, ["text"]),
    "CancelTaskRequest": ({"id": "t", "tenant": "n"}, ["id"]),
}


def test_the_tests_have_all_owners() -> None:
    assert list(OWNED) == list(signed_extras._OWNERS)


@pytest.mark.parametrize("name", OWNED)
def test_a_text_is_bound_to_the_ids_of_its_owner(name: str) -> None:
    tree, ids = OWNED[name]
    holder = "params" if name == "AgentExtension" else "metadata"
    unit = {**tree, holder: {KEY: "preserved", "own": 1}}
    sealed: Any = loads(signed_extras.dumps(deepcopy(unit)))
    assert signed_extras.loads(dumps(sealed)) == unit
    for member, value in tree.items():
        other = {key: f"{inner}2" for key, inner in value.items()} if type(value) is dict else f"{value}2"
        moved: Any = signed_extras.loads(dumps({**sealed, member: other}))
        assert (KEY in moved[holder]) is (member not in ids), member


def test_a_message_whose_texts_have_no_owner_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_extras._require_owners()
    monkeypatch.delitem(signed_extras._OWNERS, "CancelTaskRequest")
    with pytest.raises(TypeError, match=r"lf\.a2a\.v1\.CancelTaskRequest"):
        signed_extras._require_owners()


# --- The engine for unmapped content: entries, texts and units; the tests of dialects show its use ---
@given(canonical=anything(), given_=anything())
def test_restoring_a_difference_gives_the_original(canonical: Any, given_: Any) -> None:
    again = unmapped.read(unmapped.write(KIND, difference(canonical, given_)), KIND)
    assert again is not None
    made = restore(deepcopy(canonical), again)
    if isinstance(canonical, dict) and isinstance(given_, dict):
        assert all(
            name in made and says(made[name], value)
            for name, value in given_.items()
            if name not in canonical
        )


@each(
    ("canonical", "given_", "entries"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({}, {"a": None}, [["/a", None]]),
        ({"a": 1}, {}, []),
        ({}, {"a": [], "b": {}}, [["/a", []], ["/b", {}]]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c~/": 2}}, [["/a/c~0~1", 2]]),
        ({"a": [1, 2**53]}, {"a": [1, 2**53 + 1]}, [["/a/1", 2**53 + 1, 2**53]]),
        ({"a": ["x"]}, {"a": ["y", "x"]}, [["/a", ["y", "x"], ["x"]]]),
        ({"a": True}, {"a": 1}, [["/a", 1, True]]),
    ],
)
def test_entries_are_the_difference_from_the_canonical_tree(
    canonical: Any, given_: Any, entries: Any
) -> None:
    assert difference(canonical, given_) == entries
    assert says(restore(deepcopy(canonical), entries), given_) or not entries


@each(
    "entry",
    [
        ["/a", 2],
        ["/a", 2, 3],
        ["/x/y", 1],
        ["/l/5", 1, 1],
        ["/l/0", 2],
        ["/l/x", 2],
        ["/a/b", 1],
        ["a", 1, 1],
        [""],
        ["", 2],
        ["", 2, 3],
        ["/l/01", 2, 1],
        ["/l/\u00b2", 2, 1],
        ["/l/\u00b2/x", 2],
        ["/l/" + "9" * 5000, 2, 1],
        ["/l/" + "9" * 5000 + "/x", 2],
    ],
)
def test_an_entry_whose_place_has_changed_is_left_out(entry: Any) -> None:
    tree = {"a": 1, "l": [1]}
    assert (restore(deepcopy(tree), [entry]), restore_copy(tree, [entry])) == (tree, tree)


def test_an_entry_of_the_whole_tree_and_entries_of_its_members_stand_in_any_order() -> None:
    member, whole = ["/a", 1], ["", {"b": 1}, {"a": 1}]
    assert restore({}, [member, whole]) == {"b": 1}
    assert restore({"a": 1}, [whole, member]) == {"b": 1, "a": 1}


def test_numbers_are_the_same_by_value_and_true_is_not_one() -> None:
    assert same([1, {"a": 1.0}], [1.0, {"a": 1}])
    assert not same(True, 1)
    assert not same(2**53, 2**53 + 1)
    assert not same("1", 1.0)


def test_sources_stand_side_by_side_and_the_last_takes_the_key_away() -> None:
    part = hub.Part(text="x")
    unmapped.carry(part, KIND, [["/x", 1]])
    unmapped.carry(part, PROTO, [["/y", 2]])
    assert (unmapped.find_content(part, KIND), unmapped.find_content(part, PROTO)) == (
        [["/x", 1]],
        [["/y", 2]],
    )
    assert unmapped.find_content(part, HUB) is None
    unmapped.carry(part, KIND, None)
    unmapped.carry(part, PROTO, [])
    assert part == hub.Part(text="x")


@each("text", ["", "x", "[]", "null", '{"kind":5}', '{"kind":[[1,2]]}', '{"kind":[5]}', "{"])
def test_a_text_of_another_shape_is_ignored(text: str) -> None:
    assert unmapped.read(text, KIND) is None


def test_a_large_text_is_carried() -> None:
    entries = [["/x", "y" * (1 << 20)]]
    assert unmapped.read(unmapped.write(KIND, entries), KIND) == entries


def test_stripping_leaves_the_content_of_messages() -> None:
    task = hub.Task(id="t", history=[hub.Message(message_id="m", parts=[hub.Part(text="x")])])
    plain = hub.Task.FromString(task.SerializeToString())
    assert unmapped.strip_copy(task) is task
    for unit in list(unmapped.units(task)):
        unmapped.carry(unit, KIND, [["/x", 1]])
    task.metadata["own"] = "stays"
    assert unmapped.present(task)
    stripped = unmapped.strip_copy(task)
    assert KEY.encode() not in stripped.SerializeToString()
    assert stripped.metadata["own"] == "stays"
    stripped.ClearField("metadata")
    assert stripped == plain


def test_all_messages_with_metadata_are_units() -> None:
    parts = [hub.Part(text="x")]
    message = hub.Message(parts=parts)
    status = hub.TaskStatus(message=message)
    task = hub.Task(status=status, history=[message], artifacts=[hub.Artifact(parts=parts)])
    assert len(list(unmapped.units(hub.StreamResponse(task=task)))) == 7
    for one, count in (
        (hub.SendMessageRequest(message=message), 3),
        (hub.TaskStatusUpdateEvent(status=status), 3),
        (hub.TaskArtifactUpdateEvent(artifact=hub.Artifact(parts=parts)), 3),
        (hub.ListTasksResponse(tasks=[task]), 7),
        (hub.CancelTaskRequest(), 1),
        (hub.GetTaskRequest(), 0),
    ):
        assert len(list(unmapped.units(one))) == count


def test_a_list_of_many_large_integers_is_one_entry() -> None:
    given = {"x": [2**53 + 1 + 2 * n for n in range(100)], "y": [0] * 99 + [2**53 + 1]}
    canonical = scalars.round_integers(given)
    entries = unmapped.difference(canonical, given, "/metadata")
    assert [entry[0] for entry in entries] == ["/metadata/y/99", "/metadata/x"]
    assert unmapped.restore({"metadata": deepcopy(canonical)}, entries) == {"metadata": given}
    changed = {"x": [*canonical["x"][:-1], 7], "y": canonical["y"]}
    assert unmapped.restore({"metadata": deepcopy(changed)}, entries)["metadata"]["x"] == changed["x"]


@given(st.lists(st.integers(-(2**65), 2**65), max_size=5))
@example([2**53 + 1, 1])
@example([-(2**53) - 1, 1])
@example([2**64 + 1, 1])
@example([-(2**63) - 1025, 1])
def test_integers_of_a_list_are_rounded_as_they_are_alone(integers: list[int]) -> None:
    assert repr(scalars.round_integers(integers)) == repr([scalars.round_integers(one) for one in integers])


def test_a_text_of_megabytes_is_not_read_without_a_pause() -> None:
    entries = [["/x", "A" * 2**21]]
    message = hub.Message()
    unmapped.carry(message, PROTO, entries)
    with pytest.raises(LengthyError):
        within_budget(unmapped.find_content, message, PROTO)
    assert unmapped.find_content(message, PROTO) == entries
    unmapped.carry(message, PROTO, [["/x", "A" * 1000]])
    assert within_budget(unmapped.find_content, message, PROTO) == [["/x", "A" * 1000]]


@given(canonical=anything(), given_=anything())
def test_restoring_into_a_tree_of_another_owner_leaves_it_as_it_was(canonical: Any, given_: Any) -> None:
    before = deepcopy(canonical)
    entries = difference(canonical, given_, whole=True)
    made = restore_copy(canonical, entries)
    assert dumps(canonical) == dumps(before)
    assert same(made, restore(deepcopy(canonical), deepcopy(entries)))
    assert same(made, given_)


@pytest.mark.parametrize(
    "pointer",
    [
        "/parts/\u00b2/x",
        f"/parts/{'9' * 5000}/x",
        "/parts/7/x",
        "/metadata/fields/0/x",
        "/nope/x",
        "/messageId/0/x",
    ],
)
def test_unknown_fields_without_a_place_are_left_out(pointer: str) -> None:
    message = hub.Message(message_id="m", parts=[hub.Part(text="x")])
    message.metadata["a"] = 1
    before = message.SerializeToString()
    merge_unknown(message, pointer, "gAgB")
    assert message.SerializeToString() == before


def test_unknown_fields_are_merged_at_their_place() -> None:
    message = hub.Message(parts=[hub.Part(text="x")])
    merge_unknown(message, f"/parts/0/{UNKNOWN}", "gAgB")
    assert message.parts[0].SerializeToString().endswith(b"\x80\x08\x01")


def test_an_entry_for_unknown_fields_without_a_value_changes_nothing() -> None:
    message = hub.Message(message_id="m")
    unmapped.carry(message, PROTO, [[f"/{UNKNOWN}"]])
    before = hub.Message.FromString(message.SerializeToString())
    restore_unknown(message)
    assert message == before
