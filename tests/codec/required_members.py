"""Adds to other implementations' JSON the REQUIRED members with their default values, which only ours prints."""

from typing import Any

from a2a_bridge.pb import google_protobuf
from a2a_bridge.pb._pool import POOL

REQUIRED = POOL.FindExtensionByName("google.api.field_behavior")


def with_required(descriptor: Any, tree: Any) -> Any:
    """Adds them in place, at every level, by the descriptor alone; returns the tree."""
    if descriptor.full_name.startswith("google.protobuf."):
        return tree
    for field in descriptor.fields:
        options = google_protobuf.FieldOptions.FromString(field.GetOptions().SerializeToString())
        inner = field.message_type
        entry = inner is not None and inner.GetOptions().map_entry
        if list(options.Extensions[REQUIRED]) == [2] and not field.has_presence:
            empty: Any = field.default_value
            if entry:
                empty = {}
            elif field.enum_type is not None:
                empty = field.enum_type.values_by_number[0].name
            tree.setdefault(field.json_name, list(empty) if isinstance(empty, list) else empty)
        if inner is None or field.json_name not in tree:
            continue
        value = tree[field.json_name]
        if entry:
            inner = inner.fields_by_name["value"].message_type
            items = list(value.values()) if inner is not None else []
        else:
            items = value if isinstance(value, list) else [value]
        for item in items:
            with_required(inner, item)
    return tree
