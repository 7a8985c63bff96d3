"""The private descriptor pool and the two functions the generated modules are made of."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

POOL = descriptor_pool.DescriptorPool()


def _load() -> None:
    blob = files(__package__ or "a2a_bridge.pb").joinpath("descriptors.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(blob).file:
        POOL.AddSerializedFile(file.SerializeToString())


_load()


def message(full_name: str, module: str) -> Any:
    """The class of a message. `module` becomes its `__module__`, so that pickle finds it again."""
    cls = message_factory.GetMessageClass(POOL.FindMessageTypeByName(full_name))
    cls.__module__ = module
    return cls


def enum(full_name: str) -> Any:
    """The wrapper of an enum: `.Name(number)`, `.Value(name)`, `.items()`."""
    return enum_type_wrapper.EnumTypeWrapper(POOL.FindEnumTypeByName(full_name))
