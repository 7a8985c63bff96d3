"""The well-known types of the private pool. They behave like google.protobuf's own but are other classes."""

from a2a_bridge.pb import _pool

Any = _pool.message("google.protobuf.Any", __name__)
Duration = _pool.message("google.protobuf.Duration", __name__)
Empty = _pool.message("google.protobuf.Empty", __name__)
ListValue = _pool.message("google.protobuf.ListValue", __name__)
MethodOptions = _pool.message("google.protobuf.MethodOptions", __name__)
FieldOptions = _pool.message("google.protobuf.FieldOptions", __name__)
Struct = _pool.message("google.protobuf.Struct", __name__)
Timestamp = _pool.message("google.protobuf.Timestamp", __name__)
Value = _pool.message("google.protobuf.Value", __name__)
NullValue = _pool.enum("google.protobuf.NullValue")
NULL_VALUE = 0

__all__ = [
    "NULL_VALUE",
    "Any",
    "Duration",
    "Empty",
    "FieldOptions",
    "ListValue",
    "MethodOptions",
    "NullValue",
    "Struct",
    "Timestamp",
    "Value",
]
