"""Plans and the functions made from them, on message types that A2A does not have."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from a2a_bridge import codec
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.pb import google_protobuf, google_rpc
from a2a_bridge.pb import lf_a2a_v1 as a2a
from tests.patience import PATIENCE

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
