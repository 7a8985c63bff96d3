"""The intended differences of the codec from json_format, one by one, with the result of json_format."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format

from a2a_bridge import codec
from a2a_bridge.codec import Rounded, structs
from a2a_bridge.pb import lf_a2a_v1 as a2a
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Timestamp, Value
from a2a_bridge.testing.each import each


def rejection(cls: Any, tree: Any, **options: Any) -> codec.DecodeError:
    with pytest.raises(codec.DecodeError) as raised:
        codec.decoder(cls, **options)(tree)
    return raised.value


def theirs(cls: Any, tree: Any) -> Any:
    return json_format.ParseDict(tree, cls(), ignore_unknown_fields=True)


def reprint(text: str) -> str:
    """A JSON text through a Value and back."""
    value = codec.decode_bytes(Value, text)
    return codec.dumps(codec.encoder(Value)(value)).decode()


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> Rounded:
    fresh = Rounded()
    monkeypatch.setattr("a2a_bridge.codec.decode.rounded", fresh)
    monkeypatch.setattr("a2a_bridge.codec.structs.rounded", fresh)
    return fresh


# --- Numbers inside Struct and Value ---
@each("text", ["7", "0", "-1", "255", "256", "9007199254740991", "-9007199254740991", "[1,2]"])
def test_integral_numbers_print_as_integers(text: str) -> None:
    assert reprint(text) == text
    assert json.dumps(json_format.MessageToDict(codec.decode_bytes(Value, text))) != text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("-0.0", "-0.0"),
        ("7.0", "7"),
        ("0.0", "0"),
        ("-0", "0"),
        ("1e3", "1000"),
        ("9007199254740992", "9007199254740992"),
        ("18446744073709551616", "1.8446744073709552e+19"),
    ],
)
def test_how_other_integral_numbers_print(text: str, printed: str) -> None:
    assert reprint(text) == printed


@pytest.mark.parametrize(
    "number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 - 1, 2**64 + 1, 10**30, -(2**63) - 1]
)
def test_an_integer_no_double_holds_is_rounded_and_counted(number: int, rounded: Rounded) -> None:
    text = json.dumps({"data": {"n": number}, "x": 1})
    part = codec.decode_bytes(a2a.Part, text)
    assert part == theirs(a2a.Part, json.loads(text))
    assert part.data.struct_value["n"] == float(number)
    assert rounded.count >= 1


@pytest.mark.parametrize("number", [2**53, 2**60, 2**63, -(2**62)])
def test_a_large_integer_that_a_double_equals_is_not_counted(number: int, rounded: Rounded) -> None:
    assert codec.decode_bytes(Value, str(number)).number_value == number
    assert rounded.count == 0


@pytest.mark.parametrize("text", ["1e20", "1.5e300", "18446744073709551617.0", "-1e19", str(2**200)])
def test_a_number_beyond_64_bits_is_counted_since_it_may_have_been_an_integer(
    text: str, rounded: Rounded
) -> None:
    assert codec.decode_bytes(Value, text).number_value == float(text)
    assert rounded.count == 1


def test_rounding_calls_the_hook_once_with_the_path(rounded: Rounded) -> None:
    paths: list[str] = []
    rounded.on_first = paths.append
    for _ in range(2):
        codec.decode_bytes(a2a.Part, json.dumps({"data": [1, 2**53 + 1], "metadata": {"a b": 2**54 + 1}}))
    assert rounded.count == 4
    assert paths == ["data[1]"]


def test_nothing_is_counted_when_the_document_is_rejected(rounded: Rounded) -> None:
    assert rejection(a2a.Part, {"data": 2**53 + 1, "filename": 5}).violations == (
        ("filename", "expected a string, got a number"),
    )
    assert rounded.count == 0


def test_the_package_counts_into_the_object_it_exports() -> None:
    before = codec.rounded.count
    codec.decoder(Value)(2**53 + 1)
    assert codec.rounded.count == before + 1


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_numbers_beyond_a_double_are_rejected(number: float) -> None:
    assert rejection(Struct, {"a": number}).path == "a"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_from_protobuf_peers_are_not_printed(number: float) -> None:
    part = a2a.Part()
    part.data.struct_value["list"] = [1, {"bad": number}]
    with pytest.raises(codec.EncodeError) as raised:
        codec.encoder(a2a.Message)(a2a.Message(parts=[a2a.Part(), part]))
    assert raised.value.path == "parts[1].data.list[1].bad"
    metadata = Struct()
    metadata["x"] = number
    with pytest.raises(codec.EncodeError) as raised:
        codec.encoder(a2a.Task)(a2a.Task(metadata=metadata))
    assert raised.value.path == "metadata.x"


# --- Writing ---
def test_required_members_are_always_printed_and_other_defaults_never() -> None:
    assert codec.encoder(a2a.ListTasksResponse)(a2a.ListTasksResponse(tasks=[a2a.Task()])) == {
        "tasks": [{"id": ""}],
        "nextPageToken": "",
        "pageSize": 0,
        "totalSize": 0,
    }
    assert codec.encoder(a2a.Message)(a2a.Message()) == {
        "messageId": "",
        "role": "ROLE_UNSPECIFIED",
        "parts": [],
    }
    assert codec.encoder(a2a.ClientCredentialsOAuthFlow)(a2a.ClientCredentialsOAuthFlow()) == {
        "tokenUrl": "",
        "scopes": {},
    }
    assert codec.encoder(a2a.AgentExtension)(a2a.AgentExtension()) == {}


def test_a_required_message_that_is_not_set_is_not_printed() -> None:
    assert codec.encoder(a2a.Task)(a2a.Task(id="t")) == {"id": "t"}
    assert codec.encoder(a2a.Task)(a2a.Task(status=a2a.TaskStatus())) == {
        "id": "",
        "status": {"state": "TASK_STATE_UNSPECIFIED"},
    }


def test_optional_members_are_printed_exactly_if_they_are_set() -> None:
    encode = codec.encoder(a2a.AgentCapabilities)
    assert encode(a2a.AgentCapabilities(streaming=False)) == {"streaming": False}
    assert encode(a2a.AgentCapabilities()) == {}
    assert codec.encoder(a2a.GetTaskRequest)(a2a.GetTaskRequest(id="1", history_length=0)) == {
        "id": "1",
        "historyLength": 0,
    }


def test_an_enum_number_without_a_name_is_printed_as_the_number_and_read_back() -> None:
    message = a2a.Message(role=17)  # type: ignore[arg-type]
    assert codec.encoder(a2a.Message)(message)["role"] == 17
    assert codec.decoder(a2a.Message)({"role": 17}) == message


@each(
    ("text", "meaning"),
    [
        ("2026-11-22T07:44:47.738103", "2026-11-22T07:44:47.738103Z"),  # fasta2a, and any datetime.utcnow()
        ("2026-11-22 07:44:47.738103+00:00", "2026-11-22T07:44:47.738103Z"),  # str() of a datetime
        ("2026-11-22t07:44:47z", "2026-11-22T07:44:47Z"),
        ("2026-11-22T09:44:47+0200", "2026-11-22T07:44:47Z"),
        ("2026-11-22T05:44:47-02", "2026-11-22T07:44:47Z"),
        ("2026-11-22T07:44:47.1234567891234Z", "2026-11-22T07:44:47.123456789Z"),
        ("2026-11-22T07:44:47,5Z", "2026-11-22T07:44:47.500Z"),
        ("2026-11-22T07:44Z", "2026-11-22T07:44:00Z"),
        ("2026-11-22", "2026-11-22T00:00:00Z"),
        ("2026-11-22T24:00:00Z", "2026-11-23T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999999Z"),
        ("0001-01-01T00:30:00-00:30", "0001-01-01T01:00:00Z"),
    ],
)
def test_times_are_read_as_software_writes_them(text: str, meaning: str) -> None:
    status = codec.decoder(a2a.TaskStatus)({"state": "TASK_STATE_WORKING", "timestamp": text})
    assert codec.encoder(a2a.TaskStatus)(status)["timestamp"] == meaning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22.11.2026",
        "2026-11-22T25:00:00Z",
        "2026-11-22T24:01:00Z",
        "2026-11-22T07:44:47+24:00",
        "1763797487",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_invalid_times_are_rejected(text: str) -> None:
    assert rejection(a2a.TaskStatus, {"timestamp": text}).path == "timestamp"


@pytest.mark.parametrize("name", ["task_state_canceled", "TASK_STATE_CANCELLED", "Task-State-Canceled"])
def test_names_of_enums_in_other_letters(name: str) -> None:
    assert codec.decoder(a2a.TaskStatus)({"state": name}).state == a2a.TASK_STATE_CANCELED


def test_a_timestamp_outside_the_years_of_rfc_3339_is_not_printed() -> None:
    for stamp in (
        Timestamp(seconds=253402300800),
        Timestamp(seconds=-62135596801),
        Timestamp(nanos=10**9),
        Timestamp(nanos=-1),
    ):
        with pytest.raises(codec.EncodeError) as raised:
            codec.encoder(a2a.Task)(a2a.Task(status=a2a.TaskStatus(timestamp=stamp)))
        assert raised.value.path == "status.timestamp"


def test_a_value_that_holds_nothing_is_null() -> None:
    assert codec.encoder(a2a.Part)(a2a.Part(data=Value())) == {"data": None}
    assert codec.encoder(ListValue)(ListValue(values=[Value()])) == [None]


# --- Reading ---
def test_unknown_members_are_ignored() -> None:
    tree = {"id": "t", "kind": "task", "status": {"state": 2, "final": True, "x": {"y": [None]}}}
    assert codec.decoder(a2a.Task)(tree) == a2a.Task(
        id="t", status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING)
    )
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(tree, a2a.Task())


def test_an_unknown_enum_name_is_rejected_although_unknown_members_are_ignored() -> None:
    tree = {"messageId": "m", "role": "user"}
    assert (theirs(a2a.Message, tree).role, rejection(a2a.Message, tree).path) == (0, "role")


@pytest.mark.parametrize("number", [1.5, True, "1.5", " 1", "+1", "1_0", "\u0661"])
def test_enum_numbers_and_integers_are_digits_only(number: Any) -> None:
    assert rejection(a2a.Message, {"role": number}).path == "role"
    assert rejection(a2a.GetTaskRequest, {"historyLength": number}).path == "historyLength"


@pytest.mark.parametrize(
    ("text", "number"), [("10.0", 10), ("1e1", 10), ("-5", -5), ("-50.0e-1", -5), ("2147483647", 2**31 - 1)]
)
def test_integers_may_be_text_with_a_fraction_of_zero_or_an_exponent(text: str, number: int) -> None:
    # As in ProtoJSON; json_format does it from protobuf 6 on.
    assert codec.decoder(a2a.GetTaskRequest)({"historyLength": text}).history_length == number


@pytest.mark.parametrize("other", [None, "", "c"])
def test_two_variants_of_one_field_are_rejected(other: Any) -> None:
    for tree in ({"contextId": "c", "context_id": other}, {"context_id": other, "contextId": "c"}):
        theirs(a2a.Message, tree)
        assert rejection(a2a.Message, tree).path == "contextId"


@pytest.mark.parametrize("other", [{"text": ""}, {"raw": ""}, {"url": "u"}, {"text": "a" * 100_000}])
def test_null_data_beside_another_content_is_an_absent_member(other: dict[str, Any]) -> None:
    part = codec.decoder(a2a.Part)(other)
    assert part.WhichOneof("content") == next(iter(other))
    for tree in (
        {"data": None, **other},
        {**other, "data": None},
        {**other, "data": None, "x": 1, "raw_": None},
    ):
        assert codec.decoder(a2a.Part)(tree) == part
        assert codec.decoder(a2a.Message)({"parts": [tree]}).parts[0] == part
    null = {"data": None}
    for tree in (null, {**null, **dict.fromkeys(other)}, {**dict.fromkeys(other), **null}):
        assert codec.decoder(a2a.Part)(tree).data.WhichOneof("kind") == "null_value"


def test_null_data_does_not_hide_other_errors() -> None:
    assert rejection(a2a.Part, {"data": None, "text": "a", "url": "b"}).path == "url"
    assert rejection(a2a.Part, {"data": None, "text": 5}).path == "text"
    assert rejection(a2a.Part, {"data": None, "text": None, "filename": 5}).path == "filename"


def test_two_members_of_any_oneof_are_rejected() -> None:
    assert rejection(a2a.Part, {"text": "a", "url": "b"}).path == "url"
    assert rejection(a2a.SendMessageResponse, {"task": {}, "message": {}}).path == "message"
    assert rejection(a2a.OAuthFlows, {"device_code": {}, "implicit": {}}).path == "implicit"


def test_a_null_member_of_a_oneof_is_an_absent_one() -> None:
    assert codec.decoder(a2a.Part)({"text": None, "url": "u", "raw": None}) == a2a.Part(url="u")


BYTES = bytes(range(248, 256)) + b"any"
STANDARD = base64.b64encode(BYTES).decode()


@pytest.mark.parametrize(
    "text",
    [
        STANDARD,
        STANDARD.rstrip("="),
        base64.urlsafe_b64encode(BYTES).decode(),
        base64.urlsafe_b64encode(BYTES).decode().rstrip("="),
        f"{STANDARD[:4]}\r\n{STANDARD[4:]}\n",
        f" {STANDARD[:3]}\t{STANDARD[3:]}",
        STANDARD.replace("+", "-"),
    ],
)
def test_base64_is_read_in_any_form_and_printed_in_the_standard_one(text: str) -> None:
    part = codec.decoder(a2a.Part)({"raw": text})
    assert part == a2a.Part(raw=BYTES)
    assert codec.encoder(a2a.Part)(part) == {"raw": STANDARD}


@pytest.mark.parametrize("text", ["!!!!", "QUJD*", "QQ==QQ==", "A", "AAAAA", "QUI\u00e4", "Q=UI"])
def test_invalid_base64_is_rejected_and_not_skipped(text: str) -> None:
    assert rejection(a2a.Part, {"raw": text}).path == "raw"


@pytest.mark.parametrize("tree", [[], "", "ab", None, 5, True, [{}]])
def test_a_message_is_an_object_and_nothing_else(tree: Any) -> None:
    assert rejection(a2a.Task, tree).path == ""
    if tree is not None:
        assert rejection(a2a.Task, {"status": tree}).path == "status"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_half_a_surrogate_pair_is_rejected_wherever_it_stands(text: str) -> None:
    assert rejection(a2a.Part, {"text": text}).path == "text"
    assert rejection(a2a.Part, {"raw": text}).path == "raw"
    assert rejection(a2a.Part, {"data": [text]}).path == "data[0]"
    assert rejection(a2a.Part, {"metadata": {text: 1}}).path.startswith('metadata["')
    assert rejection(a2a.ClientCredentialsOAuthFlow, {"scopes": {text: "x"}}).path.startswith('scopes["')


# --- Depth ---
def nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


DEEPEST = {
    "objects": (structs.LEVELS // structs.OBJECT_LEVELS, lambda inner: {"a": inner}),
    "arrays": (structs.BARE_LEVELS // structs.ARRAY_LEVELS, lambda inner: [inner]),
}


@pytest.mark.parametrize("shape", DEEPEST)
def test_the_deepest_value_fits_into_any_message(shape: str) -> None:
    levels, wrap = DEEPEST[shape]
    deepest = nested(levels, wrap)
    message = codec.decoder(a2a.Message)(
        {"parts": [{"data": deepest, "metadata": {"m": nested(levels - 2, wrap)}}]}
    )
    task = a2a.Task(history=[message], status=a2a.TaskStatus(message=message))
    for outer in (
        a2a.StreamResponse(task=task),
        a2a.StreamResponse(status_update=a2a.TaskStatusUpdateEvent(status=task.status)),
        a2a.ListTasksResponse(tasks=[task]),
    ):
        assert type(outer).FromString(outer.SerializeToString()) == outer
        assert codec.decoder(type(outer))(codec.encoder(type(outer))(outer)) == outer


@each("shape", DEEPEST)
@each("more", [1, 2, 10, 500, 900])
def test_a_value_that_protobuf_could_not_carry_on_is_rejected(shape: str, more: int) -> None:
    levels, wrap = DEEPEST[shape]
    tree = {"parts": [{"text": ""}, {"data": nested(levels + more, wrap)}]}
    assert rejection(a2a.Message, tree).path.startswith("parts[1].data")
    assert rejection(a2a.Message, tree).problem == structs.TOO_DEEP
    with pytest.raises(codec.DecodeError):
        codec.decode_bytes(a2a.Message, json.dumps(tree))


def test_json_format_builds_messages_that_cannot_be_read_again_and_we_do_not() -> None:
    tree = {"data": nested(45, lambda inner: {"a": inner})}
    preserved = theirs(a2a.Part, tree)
    with pytest.raises(Exception):  # noqa: B017 - either direction may be the one that fails
        a2a.Part.FromString(preserved.SerializeToString())
    assert rejection(a2a.Part, tree).problem == structs.TOO_DEEP
