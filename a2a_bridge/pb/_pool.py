"""The private descriptor pool and the two functions the generated modules are made of; no names of
messages.
"""

from __future__ import annotations

import copyreg
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.internal import enum_type_wrapper

POOL = descriptor_pool.DescriptorPool()


def _load() -> None:
    blob = files(__package__ or "a2a_bridge.pb").joinpath("descriptors.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(blob).file:
        POOL.AddSerializedFile(file.SerializeToString())


_load()


def message(full_name: str, module: str) -> Any:
    """The class of a message, which `module` is to hold under the message's own name.

    It and the classes nested in it can be imported by `__module__` and `__qualname__`, and be pickled.
    """
    return _settle(POOL.FindMessageTypeByName(full_name), module, "")


def _settle(descriptor: Descriptor, module: str, within: str) -> Any:
    cls: Any = message_factory.GetMessageClass(descriptor)
    cls.__module__ = module
    cls.__qualname__ = within + descriptor.name
    # protobuf's own way looks nested messages up in its default pool: there it finds nothing, or, once
    # another package has registered the same name, a class that is not ours.
    copyreg.pickle(cls, _reduce)
    for nested in descriptor.nested_types:
        inner = _settle(nested, module, f"{cls.__qualname__}.")
        # protobuf without its C extension does not hang nested classes on the outer one.
        if not hasattr(cls, nested.name):
            setattr(cls, nested.name, inner)
    return cls


def _reduce(value: Any) -> tuple[Any, tuple[str, bytes]]:
    return _restore, (value.DESCRIPTOR.full_name, value.SerializePartialToString())


def _restore(full_name: str, content: bytes) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(full_name)).FromString(content)


def enum(full_name: str) -> Any:
    """The wrapper of an enum: `.Name(number)`, `.Value(name)`, `.items()`."""
    return enum_type_wrapper.EnumTypeWrapper(POOL.FindEnumTypeByName(full_name))


def method_classes(method: str) -> tuple[Any, Any]:
    """The classes of request and response of a gRPC method, given as `/package.Service/Method`."""
    service, _, name = method.strip("/").rpartition("/")
    found = POOL.FindServiceByName(service).methods_by_name[name]
    return message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(
        found.output_type
    )
