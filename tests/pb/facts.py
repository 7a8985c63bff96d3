"""Flattens a file descriptor into comparable facts, without comments and file options."""

from collections.abc import Iterator
from typing import Any

from google.api import annotations_pb2, client_pb2, field_behavior_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

FieldProto = descriptor_pb2.FieldDescriptorProto
Fact = tuple[str, Any]


def facts(file: FileDescriptor) -> dict[str, Any]:
    """`path -> value` for every fact of the protocol in `file`, such as `Task.id number -> 1`."""
    proto = descriptor_pb2.FileDescriptorProto()
    # Through bytes: the options of a private pool know their extensions by the default pool only.
    proto.ParseFromString(file.serialized_pb)
    found: dict[str, Any] = {"package": proto.package, "syntax": proto.syntax}
    for message in proto.message_type:
        found.update(_message(message, file.message_types_by_name[message.name], message.name))
    for enum in proto.enum_type:
        found.update(_enum(enum, enum.name))
    for service in proto.service:
        found[f"{service.name} operations"] = sorted(method.name for method in service.method)
        for method in service.method:
            found.update(_method(method, f"{service.name}.{method.name}"))
    return found


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """One line per fact that differs or that only one side has."""
    absent = "absent"
    return [
        f"{path}: ours {ours.get(path, absent)!r}, theirs {theirs.get(path, absent)!r}"
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path, absent) != theirs.get(path, absent)
    ]


def _message(proto: descriptor_pb2.DescriptorProto, live: Descriptor, path: str) -> Iterator[Fact]:
    yield f"{path} fields", sorted(field.name for field in proto.field)
    yield f"{path} deprecated", proto.options.deprecated
    yield f"{path} is a map entry", proto.options.map_entry
    yield f"{path} reserved", [(r.start, r.end) for r in proto.reserved_range] + list(proto.reserved_name)
    yield f"{path} extension ranges", [(r.start, r.end) for r in proto.extension_range]
    for index, oneof in enumerate(proto.oneof_decl):
        yield (
            f"{path} oneof {oneof.name}",
            [f.name for f in proto.field if f.HasField("oneof_index") and f.oneof_index == index],
        )
    for field in proto.field:
        yield from _field(field, live.fields_by_name[field.name], f"{path}.{field.name}")
    for nested in proto.nested_type:
        yield from _message(nested, live.nested_types_by_name[nested.name], f"{path}.{nested.name}")
    for enum in proto.enum_type:
        yield from _enum(enum, f"{path}.{enum.name}")


def _field(proto: descriptor_pb2.FieldDescriptorProto, live: FieldDescriptor, path: str) -> Iterator[Fact]:
    behavior = field_behavior_pb2.FieldBehavior
    yield f"{path} number", proto.number
    yield (
        f"{path} type",
        FieldProto.Type.Name(proto.type) + (f" {proto.type_name}" if proto.type_name else ""),
    )
    yield f"{path} label", FieldProto.Label.Name(proto.label)
    yield f"{path} json name", live.json_name
    yield f"{path} presence", live.has_presence
    yield f"{path} optional", proto.proto3_optional
    yield f"{path} packed", live.is_packed
    yield f"{path} default", proto.default_value
    yield f"{path} deprecated", proto.options.deprecated
    yield (
        f"{path} behavior",
        [behavior.Name(value) for value in proto.options.Extensions[field_behavior_pb2.field_behavior]],
    )


def _enum(proto: descriptor_pb2.EnumDescriptorProto, path: str) -> Iterator[Fact]:
    yield f"{path} values", {value.name: value.number for value in proto.value}
    yield f"{path} deprecated values", [value.name for value in proto.value if value.options.deprecated]
    yield f"{path} aliases allowed", proto.options.allow_alias


def _method(proto: descriptor_pb2.MethodDescriptorProto, path: str) -> Iterator[Fact]:
    yield f"{path} request", proto.input_type
    yield f"{path} response", proto.output_type
    yield f"{path} streaming", {"client": proto.client_streaming, "server": proto.server_streaming}
    yield f"{path} deprecated", proto.options.deprecated
    yield f"{path} signatures", list(proto.options.Extensions[client_pb2.method_signature])
    rule = proto.options.Extensions[annotations_pb2.http]
    for index, binding in enumerate([rule, *rule.additional_bindings]):
        verb = binding.WhichOneof("pattern")
        yield (
            f"{path} http rule {index}",
            {
                "verb": verb,
                "path": getattr(binding, verb or "", None),
                "body": binding.body,
                "answer": binding.response_body,
            },
        )
