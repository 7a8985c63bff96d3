"""Random JSON for message classes, from a seed, mostly valid, where json_format and the codec agree."""

import base64
import random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_bridge.pb import lf_a2a_v1

CLASSES = [cls for name in lf_a2a_v1.__all__ if hasattr(cls := getattr(lf_a2a_v1, name), "FromString")]

WORDS = [
    "",
    "a",
    "text/plain",
    "Grüße",
    "日本語",
    "🦜 parrot",
    "null",
    "0",
    "\u0000",
    '\n"\\',
    "x" * 127,
    "ß" * 64,
    "long " * 60,
    "\u07ff\u0800\uffff\U00010000",
    "{braces}",
]
TIMES = [
    "2025-01-31T12:00:00Z",
    "1970-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "2024-02-29T00:00:00.000001Z",
    "2025-06-01T10:20:30.1+02:00",
    "2025-06-01T10:20:30-11:30",
    "2025-06-01T10:20:30.120000Z",
]
#: those that the codec understands beyond these are in test_differences
BAD_TIMES = ["", "yesterday", "2025-02-30T00:00:00Z", "0001-01-01T00:00:00+01:00", "20250601T102030Z"]
NUMBERS = [
    0,
    1,
    -1,
    7,
    255,
    256,
    2**31,
    2**53 - 1,
    -(2**53) + 1,
    2**53,
    2**60,
    0.5,
    -0.0,
    1e300,
    5e-324,
    3.141592653589793,
    1e15,
    100.0,
]


class Maker:
    """Makes documents with one source of chance. `errors`: how likely a value is of a wrong kind."""

    def __init__(self, chance: random.Random, errors: float) -> None:
        self.chance, self.errors = chance, errors
        self.bad_enum = False
        """json_format drops an unknown enum name in silence if it is to ignore unknown members."""

    def document(self, descriptor: Descriptor) -> dict[str, Any]:
        chance = self.chance
        out: dict[str, Any] = {}
        taken: set[str] = set()
        fields = list(descriptor.fields)
        chance.shuffle(fields)
        density = chance.choice([0.15, 0.5, 0.95])
        for field in fields:
            if chance.random() > density:
                continue
            name = field.json_name if chance.random() < 0.7 else field.name
            if chance.random() < 0.05 and not _is_value(field):
                out[name] = None
                continue
            oneof = field.containing_oneof
            if oneof is not None:
                if oneof.full_name in taken:
                    continue
                taken.add(oneof.full_name)
            out[name] = self.field(field)
        if chance.random() < 0.05:
            out[f"x{chance.randrange(9)}"] = chance.choice([None, 1, "x", [1, {}], {"id": 5}])
        return out

    def field(self, field: FieldDescriptor) -> Any:
        chance, message = self.chance, field.message_type
        if message is not None and message.GetOptions().map_entry:
            if self.wrong():
                return chance.choice([5, True, "x", [1]])
            value = message.fields_by_name["value"]
            return {chance.choice(WORDS): self.value(value) for _ in range(chance.randrange(3))}
        if _is_repeated(field):
            if self.wrong():
                return chance.choice([5, True, "x", {}, {"a": 1}])
            items = [self.value(field) for _ in range(chance.choice([0, 1, 1, 2, 3]))]
            if self.wrong():
                items.append(None)
            return items
        return self.value(field)

    def value(self, field: FieldDescriptor) -> Any:
        chance = self.chance
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            if self.wrong():
                self.bad_enum = True
                return chance.choice(["NO_SUCH_NAME", "", [], {}])
            known = chance.choice(list(field.enum_type.values))
            return chance.choice(
                [known.name, known.name, known.number, str(known.number), float(known.number), 99]
            )
        if field.type == FieldDescriptor.TYPE_BYTES:
            if self.wrong():
                return chance.choice([5, True, [], {}, 1.5, "A", "AAAAA"])
            return self.base64()
        if field.type == FieldDescriptor.TYPE_STRING:
            return chance.choice([5, True, [], {}, 1.5]) if self.wrong() else chance.choice(WORDS)
        if field.type == FieldDescriptor.TYPE_BOOL:
            return chance.choice([0, 1, "true", "false", [], {}]) if self.wrong() else chance.random() < 0.5
        if self.wrong():
            return chance.choice(["", "x", 1.5, "1.5", True, [], {}, 2**31, -(2**31) - 1, 1e40])
        number = chance.choice([0, 1, -1, 100, 2**31 - 1, -(2**31), chance.randrange(10**6)])
        return chance.choice([number, float(number), str(number)])

    def message(self, descriptor: Descriptor) -> Any:
        chance = self.chance
        match descriptor.full_name:
            case "google.protobuf.Struct":
                if self.wrong():
                    return chance.choice([5, True, "x", [], [1]])
                return {chance.choice(WORDS): self.free(3) for _ in range(chance.randrange(4))}
            case "google.protobuf.Value":
                return self.free(4)
            case "google.protobuf.Timestamp":
                if self.wrong():
                    return chance.choice([*BAD_TIMES, 5, True, [], {}])
                return chance.choice(TIMES)
        return chance.choice([5, True, 1.5, [1]]) if self.wrong() else self.document(descriptor)

    def free(self, levels: int) -> Any:
        chance = self.chance
        kind = chance.randrange(8 if levels else 5)
        if kind < 2:
            return chance.choice(WORDS)
        if kind < 4:
            return chance.choice(NUMBERS)
        if kind == 4:
            return chance.choice([None, True, False])
        if kind == 5:
            return [self.free(levels - 1) for _ in range(chance.randrange(4))]
        return {chance.choice(WORDS): self.free(levels - 1) for _ in range(chance.randrange(4))}

    def base64(self) -> str:
        chance = self.chance
        text = base64.b64encode(chance.randbytes(chance.choice([0, 1, 2, 3, 7, 100]))).decode()
        if chance.random() < 0.3:
            text = text.translate(str.maketrans("+/", "-_"))
        if chance.random() < 0.3:
            text = text.rstrip("=")
        return text

    def wrong(self) -> bool:
        return self.chance.random() < self.errors


def _is_value(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == "google.protobuf.Value"


def _is_repeated(field: FieldDescriptor) -> bool:
    if hasattr(FieldDescriptor, "is_repeated"):
        return field.is_repeated
    return field.label == FieldDescriptor.LABEL_REPEATED
