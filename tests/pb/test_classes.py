"""The classes of the private pool behave as classes of a module do; their wire format is tested elsewhere."""

import copy
import datetime
import importlib
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_bridge.pb import _pool, a2a_v1, google_protobuf, google_rpc, lf_a2a_v1
from a2a_bridge.testing.each import each

MODULES = (lf_a2a_v1, a2a_v1, google_rpc, google_protobuf)
#: How deep filled() goes; messages refer to themselves.
DEPTH = 3


def classes() -> Iterator[type[Message]]:
    """Every message class of the modules, nested ones and map entries included."""
    waiting = [
        value
        for module in MODULES
        for name in module.__all__
        if isinstance(value := getattr(module, name), type)
    ]
    while waiting:
        cls: Any = waiting.pop()
        yield cls
        waiting += [getattr(cls, nested.name) for nested in cls.DESCRIPTOR.nested_types]


ALL = sorted(classes(), key=lambda cls: cls.DESCRIPTOR.full_name)


def filled(cls: Any, depth: int = DEPTH) -> Any:
    """A message with every field set that fits, oneofs by their last member."""
    message = cls()
    for field in cls.DESCRIPTOR.fields:
        if field.message_type is None:
            value = plain(field)
            if is_repeated(field):
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        elif depth and field.message_type.GetOptions().map_entry:
            entry = filled(GetMessageClass(field.message_type), depth - 1)
            target = getattr(message, field.name)
            if isinstance(entry.value, Message):
                target[entry.key].CopyFrom(entry.value)
            else:
                target[entry.key] = entry.value
        elif depth and is_repeated(field):
            getattr(message, field.name).add().CopyFrom(
                filled(GetMessageClass(field.message_type), depth - 1)
            )
        elif depth:
            getattr(message, field.name).CopyFrom(filled(GetMessageClass(field.message_type), depth - 1))
    return message


def plain(field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return {field.TYPE_STRING: "x", field.TYPE_BYTES: b"x"}.get(field.type, 1)


def is_repeated(field: Any) -> bool:
    """Old protobufs know only `label`, new ones warn about it."""
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def test_the_modules_hold_every_message_of_their_files() -> None:
    for module in (lf_a2a_v1, a2a_v1):
        assert {m.name for m in module.DESCRIPTOR.message_types_by_name.values()} <= set(module.__all__)
    assert len(ALL) > 110


@each("cls", ALL)
def test_a_class_is_found_under_its_module_name(cls: Any) -> None:
    found: Any = importlib.import_module(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name)
    assert found is cls
    assert pickle.loads(pickle.dumps(cls)) is cls


@each("cls", ALL)
def test_a_message_survives_pickle_copy_and_bytes(cls: Any) -> None:
    message = filled(cls)
    assert message.ByteSize() > 0 or not cls.DESCRIPTOR.fields
    twins = [pickle.loads(pickle.dumps(message, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    twins += [copy.copy(message), copy.deepcopy(message), cls.FromString(message.SerializeToString())]
    for twin in twins:
        assert type(twin) is cls
        assert twin is not message
        assert twin == message


def test_a_deep_copy_is_independent() -> None:
    task = lf_a2a_v1.Task(id="t", history=[{"message_id": "m"}])
    twin = copy.deepcopy(task)
    twin.history[0].message_id = "other"
    assert task.history[0].message_id == "m"


def test_messages_inside_other_objects_pickle() -> None:
    violation = google_rpc.BadRequest.FieldViolation(field="message.parts")
    assert pickle.loads(pickle.dumps({"v": [violation]})) == {"v": [violation]}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_enums_and_their_values_agree(module: ModuleType) -> None:
    for name in module.__all__:
        wrapper = getattr(module, name)
        if not isinstance(wrapper, type) and hasattr(wrapper, "items"):
            for value, number in wrapper.items():
                assert getattr(module, value) == wrapper.Value(value) == getattr(wrapper, value) == number
                assert wrapper.Name(number) == value


def test_struct_takes_and_gives_python_values() -> None:
    struct = google_protobuf.Struct()
    struct.update({"text": "a", "number": 1.5, "list": [True, None, {"deep": "b"}]})
    assert (struct["text"], struct["list"][2]["deep"]) == ("a", "b")
    assert struct.fields["list"].list_value.values[1].HasField("null_value")
    assert lf_a2a_v1.Task(metadata=struct).metadata == struct


def test_timestamp_takes_and_gives_datetimes() -> None:
    moment = datetime.datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=datetime.UTC)
    stamp = google_protobuf.Timestamp()
    stamp.FromDatetime(moment)
    assert stamp.ToJsonString() == "2026-02-03T04:05:06.789Z"
    assert stamp.ToDatetime(datetime.UTC) == moment
    assert lf_a2a_v1.TaskStatus(timestamp=stamp).timestamp == stamp


def test_any_packs_messages_of_the_pool() -> None:
    info = google_rpc.ErrorInfo(reason="TASK_NOT_FOUND", metadata={"taskId": "7"})
    packed = google_protobuf.Any()
    packed.Pack(info)
    status = google_rpc.Status.FromString(google_rpc.Status(code=5, details=[packed]).SerializeToString())
    unpacked = google_rpc.ErrorInfo()
    assert status.details[0].Is(google_rpc.ErrorInfo.DESCRIPTOR)
    assert status.details[0].Unpack(unpacked)
    assert unpacked == info


def test_json_format_knows_the_pool() -> None:
    from google.protobuf import json_format

    task = lf_a2a_v1.Task(id="t", status={"state": lf_a2a_v1.TASK_STATE_WORKING})
    text = json_format.MessageToJson(task, descriptor_pool=_pool.POOL)
    assert json_format.Parse(text, lf_a2a_v1.Task(), descriptor_pool=_pool.POOL) == task
