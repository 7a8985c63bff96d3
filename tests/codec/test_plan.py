"""Plans and the functions made from them, on message types that A2A does not have."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.codec import budget, compile_required, decoder, dumps, encoder, loads, missing_required
from a2a_bridge.codec.budget import ALLOWANCE, LengthyError, within_budget
from a2a_bridge.codec.decode import LONG_TEXT
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.codec.structs import Rounded
from a2a_bridge.codec.unknown import KEPT, drop_members, holds_members
from a2a_bridge.pb import google_protobuf, google_rpc
from a2a_bridge.pb import lf_a2a_v1 as a2a
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Value
from a2a_bridge.testing.each import each
from tests.codec.documents import CLASSES
from tests.patience import PATIENCE
from tests.strategies import messages

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "i64": FIELD.TYPE_INT64,
    "u32": FIELD.TYPE_UINT32,
    "u64": FIELD.TYPE_UINT64,
    "flag": FIELD.TYPE_BOOL,
    "octets": FIELD.TYPE_BYTES,
}


def pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    tree = file.message_type.add(name="Tree")
    tree.field.add(
        name="name_of", number=16, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL, json_name="{title}"
    )
    tree.field.add(
        name="left", number=2, type=FIELD.TYPE_MESSAGE, type_name=".t.Tree", label=FIELD.LABEL_OPTIONAL
    )
    tree.field.add(
        name="more", number=3000, type=FIELD.TYPE_MESSAGE, type_name=".t.Tree", label=FIELD.LABEL_REPEATED
    )
    tree.field.add(name="class", number=5, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    numbers = file.message_type.add(name="Numbers")
    for number, (name, kind) in enumerate(SCALARS.items(), 1):
        numbers.field.add(name=name, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
        numbers.field.add(name=f"{name}s", number=number + 20, type=kind, label=FIELD.LABEL_REPEATED)
    file.message_type.add(name="Single").field.add(
        name="x", number=1, type=FIELD.TYPE_DOUBLE, label=FIELD.LABEL_OPTIONAL
    )
    outer = file.message_type.add(name="Outer")
    outer.field.add(
        name="self", number=1, type=FIELD.TYPE_MESSAGE, type_name=".t.Outer", label=FIELD.LABEL_OPTIONAL
    )
    outer.field.add(
        name="single", number=2, type=FIELD.TYPE_MESSAGE, type_name=".t.Single", label=FIELD.LABEL_OPTIONAL
    )
    keyed = file.message_type.add(name="Keyed")
    entry = keyed.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    keyed.field.add(
        name="m", number=1, type=FIELD.TYPE_MESSAGE, type_name=".t.Keyed.MEntry", label=FIELD.LABEL_REPEATED
    )
    made = descriptor_pool.DescriptorPool()
    made.AddSerializedFile(file.SerializeToString())
    return made


POOL = pool()


def cls(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"t.{name}"))


def test_types_that_contain_themselves() -> None:
    tree: dict[str, Any] = {"{title}": "ß" * 100}
    for _ in range(5):
        tree = {"left": tree, "class": "c", "more": [{}, tree], "{title}": "n"}
    message = codec.decoder(cls("Tree"))(tree)
    assert message == json_format.ParseDict(tree, cls("Tree")())
    assert codec.encoder(cls("Tree"))(message) == tree


@pytest.mark.parametrize("depth", [101, 300, 900])
def test_types_that_contain_themselves_too_often(depth: int) -> None:
    tree: dict[str, Any] = {}
    for _ in range(depth):
        tree = {"left": tree}
    with pytest.raises(codec.DecodeError) as raised:
        codec.decoder(cls("Tree"))(tree)
    assert raised.value.path.startswith("left.left")


@pytest.mark.parametrize(
    "tree",
    [
        {
            "i64": "-9223372036854775808",
            "u32": 4294967295,
            "u64": "18446744073709551615",
            "flag": True,
            "octets": "AA==",
        },
        {
            "i64s": ["1", "-1"],
            "u32s": [0, 300],
            "u64s": ["0"],
            "flags": [True, False],
            "octetss": ["", "/w=="],
        },
        {},
    ],
)
def test_kinds_that_a2a_does_not_use(tree: dict[str, Any]) -> None:
    message = codec.decoder(cls("Numbers"))(tree)
    assert message == json_format.ParseDict(tree, cls("Numbers")())
    assert codec.encoder(cls("Numbers"))(message) == json_format.MessageToDict(message) == tree


@pytest.mark.parametrize(
    ("name", "value"), [("u32", -1), ("u64", -1), ("i64", 2**63), ("u64", str(2**64)), ("u32", 2**32)]
)
def test_integers_are_bounded_by_their_type(name: str, value: Any) -> None:
    with pytest.raises(codec.DecodeError):
        codec.decoder(cls("Numbers"))({name: value})


@pytest.mark.parametrize("name", ["Single", "Outer", "Keyed"])
def test_a_type_without_a_rule_is_rejected_whenever_it_is_asked_for(name: str) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="no rule"):
            codec.decoder(cls(name))


@pytest.mark.parametrize(
    "known", [google_protobuf.Any, google_protobuf.Duration, google_rpc.Status, google_rpc.RetryInfo]
)
def test_well_known_types_that_a2a_has_no_place_for_are_rejected(known: Any) -> None:
    with pytest.raises(TypeError, match="no rule"):
        codec.encoder(known)


@pytest.mark.parametrize(
    "known", [google_rpc.ErrorInfo, google_rpc.BadRequest, google_rpc.Help, google_rpc.QuotaFailure]
)
def test_error_details_are_ordinary_messages(known: Any) -> None:
    assert codec.encoder(known)(codec.decoder(known)({})) == {}


def test_required_members_come_from_the_descriptor() -> None:
    fields = {field.name: field for field in plan_of(a2a.Task).fields}
    assert {name for name, field in fields.items() if field.required} == {"id", "status"}
    assert plan_of(a2a.Part).required_oneofs == ("content",)
    assert {field.oneof for field in plan_of(a2a.Part).fields} == {"content", None}
    assert all(field.oneof is None for field in plan_of(a2a.GetTaskRequest).fields)


def test_types_of_one_name_in_two_pools_stay_apart() -> None:
    other = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.message_type.add(name="Tree").field.add(
        name="name", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL
    )
    other.AddSerializedFile(file.SerializeToString())
    namesake = message_factory.GetMessageClass(other.FindMessageTypeByName("t.Tree"))
    assert codec.encoder(namesake)(codec.decoder(namesake)({"name": "n"})) == {"name": "n"}
    assert codec.encoder(cls("Tree"))(codec.decoder(cls("Tree"))({"name": "n"})) == {}


@pytest.mark.process
def test_threads_may_ask_first_at_the_same_time() -> None:
    script = """
from concurrent.futures import ThreadPoolExecutor
import sys
sys.setswitchinterval(1e-6)
from a2a_bridge import codec
from a2a_bridge.pb import lf_a2a_v1 as a2a
tree = {"history": [{"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"n": 1}}]}], "id": "t"}
def work(number):
    cls = (a2a.Task, a2a.StreamResponse, a2a.SendMessageResponse)[number % 3]
    document = tree if number % 3 == 0 else {"task": tree}
    printed = codec.encoder(cls)(codec.decoder(cls)(document))
    return printed == document and codec.missing_required(codec.decoder(a2a.Task)(tree)) == ["status"]
with ThreadPoolExecutor(12) as pool:
    assert all(pool.map(work, range(48)))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


def test_functions_are_made_once() -> None:
    assert codec.decoder(a2a.Task) is codec.decoder(a2a.Task)
    assert codec.decoder(a2a.Task) is not codec.decoder(a2a.Task, keeps=True)
    assert codec.encoder(a2a.Task) is codec.encoder(a2a.Task)
    assert plan_of(a2a.Task) is plan_of(a2a.Task)


# --- Which REQUIRED members a message lacks ---

MESSAGE: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": ""}]}
WORKING: dict[str, Any] = {"state": "TASK_STATE_WORKING"}


@each(
    ("cls", "tree", "missing"),
    [
        (a2a.SendMessageRequest, {}, "message"),
        (a2a.SendMessageRequest, {"message": {}}, "message.messageId message.role message.parts"),
        (a2a.SendMessageRequest, {"message": MESSAGE}, ""),
        (a2a.Message, MESSAGE | {"parts": [{"text": "x"}, {}]}, "parts[1]"),
        (a2a.SendMessageRequest, {"message": MESSAGE | {"parts": [{"filename": "f"}]}}, "message.parts[0]"),
        (a2a.Task, {"id": "1"}, "status"),
        (a2a.Task, {"status": {"message": MESSAGE}}, "id status.state"),
        (
            a2a.Task,
            {"id": "1", "status": WORKING | {"message": {"role": "ROLE_AGENT", "parts": [{}]}}},
            "status.message.messageId status.message.parts[0]",
        ),
        (
            a2a.StreamResponse,
            {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a"}}},
            "artifactUpdate.artifact.parts",
        ),
        (a2a.ListTasksResponse, {}, "tasks nextPageToken"),
        (a2a.ListTasksResponse, {"tasks": [{"id": "1", "status": WORKING}], "nextPageToken": "n"}, ""),
        (
            a2a.SendMessageRequest,
            {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {"authentication": {}}}},
            "configuration.taskPushNotificationConfig.url configuration.taskPushNotificationConfig.authentication.scheme",
        ),
        (a2a.OAuthFlows, {"clientCredentials": {}}, "clientCredentials.tokenUrl"),
        (a2a.GetExtendedAgentCardRequest, {}, ""),
        (Struct, {}, ""),
    ],
)
def test_missing_members_are_named_by_their_json_path(cls: Any, tree: Any, missing: str) -> None:
    assert missing_required(codec.decoder(cls)(tree)) == missing.split()


def test_a_part_lacks_itself_unless_it_has_any_content() -> None:
    assert missing_required(a2a.Part()) == [""]
    assert missing_required(a2a.Part(data=Value(null_value=0))) == []  # type: ignore[arg-type]


def test_the_values_of_maps_are_looked_into() -> None:
    card = a2a.AgentCard(name="n")
    card.security_schemes["key"].api_key_security_scheme.name = "k"
    card.security_schemes["two words"].http_auth_security_scheme.SetInParent()
    found = missing_required(card)
    assert "securitySchemes.key.apiKeySecurityScheme.location" in found
    assert 'securitySchemes["two words"].httpAuthSecurityScheme.scheme' in found


def test_the_function_of_a_class_is_made_once() -> None:
    assert compile_required(a2a.Task) is compile_required(a2a.Task)


def test_asking_sets_nothing() -> None:
    message = a2a.SendMessageRequest()
    missing_required(message)
    assert not message.HasField("message")
    assert message.SerializeToString() == b""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.DESCRIPTOR.name)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_complete_messages_lack_nothing(cls: Any, data: Any) -> None:
    assert missing_required(data.draw(messages(cls, complete=True))) == []


# --- Struct, Value and ListValue: long lists, numbers of all sizes, bytes that others send ---

_NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 0.0, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1e308]),
)


def _one_by_one(number: float) -> Any:
    return encoder(Value)(Value(number_value=number))


@given(st.lists(_NUMBERS, min_size=1, max_size=40))
@example([1e20] * 20)
@example([-1e20] * 20)
def test_a_list_of_numbers_is_the_same_as_its_numbers_one_by_one(numbers: list[float]) -> None:
    message = decoder(ListValue)(numbers)
    assert [one.number_value for one in message.values] == [float(number) for number in numbers]
    assert repr(encoder(ListValue)(message)) == repr([_one_by_one(float(number)) for number in numbers])


@given(st.lists(st.one_of(_NUMBERS, st.text(max_size=200), st.none(), st.booleans()), max_size=40))
def test_a_list_of_anything_comes_back(items: list[Any]) -> None:
    message = decoder(Value)({"items": items})
    assert encoder(Value)(message) == {
        "items": [one if type(one) is not int else float(one) for one in items]
    }


@pytest.mark.parametrize("numbers", [[1.0] * 20, [2**53 + 1] * 20, [1, 2.5] * 10])
def test_nan_within_a_list_of_numbers_is_rejected(numbers: list[float]) -> None:
    message = decoder(ListValue)(numbers)
    message.values.add(number_value=float("nan"))
    with pytest.raises(ValueError, match=r"\[20\]: is not a number"):
        encoder(ListValue)(message)


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_a_long_list_are_counted_when_they_are_rounded(
    sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = Rounded()
    monkeypatch.setattr("a2a_bridge.codec.decode.rounded", fresh)
    decoder(Struct)({"x": [sign * (2**53 + 1)] * 50 + [sign * 2**60, 7]})
    decoder(Struct)({"x": [sign * (2**53 + 1)]})
    assert fresh.count == 51


def _field(number: int, raw_bytes: bytes) -> bytes:
    return bytes((number << 3 | 2, len(raw_bytes))) + raw_bytes


@each(
    ("raw_bytes", "tree"),
    [
        (_field(9, b"x") + _field(1, _field(1, b"a") + _field(2, b"\x1a\x01b")), {"a": "b"}),
        (_field(1, _field(1, b"a") + _field(2, b"\x1a\x01b" + _field(9, b"x"))), {"a": "b"}),
        (_field(1, _field(1, b"a") + _field(2, _field(9, b"x"))), {"a": None}),
        (_field(1, _field(1, b"a") + _field(2, b"\x2a\0" + _field(9, b"x"))), {"a": {}}),
        (_field(1, _field(1, b"a") + _field(2, b"\x20\x01" + _field(9, b"x"))), {"a": True}),
        (
            _field(1, _field(1, b"a") + _field(2, b"\x32" + bytes((4,)) + b"\n\0" + b"\n\0")),
            {"a": [None, None]},
        ),
        (_field(1, _field(1, b"a") + _field(2, b"\x08\x05")), {"a": None}),
        (_field(1, _field(2, b"\x1a\x01b")), {"": "b"}),
        (_field(1, _field(1, b"a")), {"a": None}),
        (_field(1, _field(2, b"\x1a\x01b") + _field(1, b"a")), {"a": "b"}),
    ],
)
def test_unknown_fields_and_unusual_bytes_are_read(raw_bytes: bytes, tree: Any) -> None:
    assert encoder(Struct)(Struct.FromString(raw_bytes)) == tree


@pytest.mark.parametrize("tree", [[1] * (ALLOWANCE + 1), [{"a": 1}] * ALLOWANCE, [[[]]] * ALLOWANCE])
def test_values_are_counted_before_they_are_read(tree: Any) -> None:
    message = decoder(Struct)({"x": tree})
    with pytest.raises(LengthyError):
        within_budget(encoder(Struct), message)


def test_a_long_text_is_not_many_values() -> None:
    message = decoder(Struct)({"x": "a line of text\n" * (ALLOWANCE // 2), "y": loads(b"[1,2]")})
    assert within_budget(encoder(Struct), message)["y"] == [1, 2]


# --- Unknown members of JSON are kept in the message, at their place, and written again ---

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
    assert (made["securitySchemes"], made["skills"][0]["later"]) == (tree["securitySchemes"], 3)


def test_other_variants_nulls_long_texts_and_rounded_numbers_are_no_obstacle() -> None:
    text = "a" * (LONG_TEXT + 1)
    tree = task(context_id="c", metadata=None, later={"text": text})
    tree["history"] = [{"message_id": "m", "parts": [{"text": text, "later": text}]}]
    tree["artifacts"] = [{"artifactId": "a", "parts": [{"data": 2**63 + 1, "later": 2**63 + 1}]}]
    made = encode(decode(tree))
    assert (made["later"], made["contextId"]) == ({"text": text}, "c")
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


# Counting values before anything is read: never too few, exact beside strings, and done as soon as it is too


TEXTS = st.text(st.sampled_from('a,"[{]}\\é\n'), max_size=6)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def number_of(tree: Any) -> int:
    """Values of a tree; an empty container counts as two."""
    items = list(tree.values()) if type(tree) is dict else tree if type(tree) is list else None
    return 1 if items is None else 2 if not items else 1 + sum(map(number_of, items))


@pytest.fixture(scope="module", autouse=True)
def _tiny_blocks() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_BLOCK", 5)
        patch.setattr(budget, "_SHORTEST", 0.01)  # else short texts are let through unseen
        yield


@given(TREES, st.booleans())
def test_json_is_counted_beside_its_strings(tree: Any, spaced: bool) -> None:
    text = dumps(tree)
    if spaced:
        text = b" \n" + text + b"\t"
    count = number_of(tree)
    assert budget.json_values(text, count) == count
    assert budget.json_values(text, count - 1) > count - 1


@given(TREES)
def test_protobuf_is_counted_like_json(tree: Any) -> None:
    wire = hub.Part(data=decoder(Value)({"x": tree})).SerializeToString()
    count = budget.protobuf_values(hub.Part, wire, 1000)
    most = number_of(tree) + 3  # the part's field, the object, and one for an empty list
    assert count <= most
    if count > 1:
        assert budget.protobuf_values(hub.Part, wire, count - 1) > count - 1


@given(st.binary(max_size=40))
def test_any_bytes_are_counted(wire: bytes) -> None:
    assert budget.protobuf_values(hub.SendMessageRequest, wire, 3) >= 0
    assert budget.json_values(wire, 3) >= 0


MANY = hub.Part(data=decoder(Value)([1] * 500_000)).SerializeToString()
LARGE: dict[str, Callable[[], int]] = {
    "numbers": lambda: budget.json_values(b"[" + b"1.0," * 2_000_000 + b"1]", 1000),
    "empty strings": lambda: budget.json_values(b"[" + b'"",' * 2_000_000 + b"1]", 1000),
    "objects": lambda: budget.json_values(b"[" + b'{"a":1},' * 1_000_000 + b"1]", 1000),
    "brackets": lambda: budget.json_values(b"[" * 8_000_000, 1000),
    "protobuf": lambda: budget.protobuf_values(hub.Part, MANY, 1000),
    "last one wins": lambda: budget.protobuf_values(Value, b"\x08\0" * 2**20, 1000),
}


@pytest.mark.parametrize("what", LARGE)
def test_too_many_are_noticed_early(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BLOCK", 1 << 20)
    lines = 0

    def trace(_frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = LARGE[what]()
    finally:
        sys.settrace(before)
    assert found > 1000
    assert lines < 200_000  # some for each value up to the limit, not for each that is there


def test_a_long_text_is_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BLOCK", 1 << 20)
    for text in ("a,b;[{" * 100_000, '\\",' * 300_000, "\n\x12" * 300_000):
        assert budget.json_values(dumps([text]), 100) == 2
        assert budget.protobuf_values(hub.Part, hub.Part(text=text).SerializeToString(), 100) == 1
