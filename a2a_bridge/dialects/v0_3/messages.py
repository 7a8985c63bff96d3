"""Messages, `kind` shape ↔ hub (spec 0.3.0, 6.4). Not their parts, and not the tasks and requests that hold them.

Written as `parts` is: quick functions for what an encoder writes, the slow path for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.meter import spend_on
from a2a_bridge.codec.structs import LEVELS, read_struct
from a2a_bridge.codec.wire import VARINT
from a2a_bridge.dialects.residue import KEY
from a2a_bridge.dialects.v0_3.irregular import Facts, Reader, Shape, decode_with, marked, restored, text_with
from a2a_bridge.dialects.v0_3.parts import PART, encode_part, part_text
from a2a_bridge.dialects.v0_3.scalars import ROLE_NAMES, ROLES, struct
from a2a_bridge.pb import lf_a2a_v1 as hub

_WRITTEN_ROLES = {name: f" {VARINT[number]}" for name, number in ROLES.items()}


def strings(items: Any, tag: str) -> str:
    """Wire text of a list of strings that is not empty. Raises Irregular."""
    if type(items) is not list or not items:
        raise Irregular
    out = ""
    for item in items:
        if type(item) is not str:
            raise Irregular
        text = item if item.isascii() else item.encode().decode("latin-1")
        out += f"{tag}{VARINT[len(text)]}{text}"
    return out


def write_message(tree: Any) -> str:
    """Wire text of a canonical message. Raises Irregular for any other."""
    get = tree.get
    if get("kind") != "message":
        raise Irregular
    rest = len(tree) - 4
    value = get("messageId")
    if type(value) is not str:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    out = f"\n{VARINT[len(value)]}{value}{_WRITTEN_ROLES[get('role')]}"
    value = get("contextId")
    if value:
        rest -= 1
        if type(value) is not str:
            raise Irregular
        if not value.isascii():
            value = value.encode().decode("latin-1")
        out += f"\x12{VARINT[len(value)]}{value}"
    value = get("taskId")
    if value:
        rest -= 1
        if type(value) is not str:
            raise Irregular
        if not value.isascii():
            value = value.encode().decode("latin-1")
        out += f"\x1a{VARINT[len(value)]}{value}"
    value = get("parts")
    if type(value) is not list:
        raise Irregular
    for item in value:
        body = part_text(item)
        out += f"*{VARINT[len(body)]}{body}"
    if not rest:
        return out
    value = get("metadata")
    if value is not None:
        rest -= 1  # residue
        if KEY in value:  # residue
            raise Irregular  # residue
        body = struct(value, LEVELS)
        out += f"2{VARINT[len(body)]}{body}"
    value = get("extensions")
    if value is not None:
        rest -= 1  # residue
        out += strings(value, ":")
    value = get("referenceTaskIds")
    if value is not None:
        rest -= 1  # residue
        out += strings(value, "B")
    if rest:  # residue
        raise Irregular  # residue
    return out


def encode_message(message: Any, shape: Shape | None = None) -> JsonObject:
    """A message as a 0.x peer gets it. Raises ValueError for what JSON cannot say."""
    role = message.role
    if role not in ROLE_NAMES:
        return marked(shape or MESSAGE, message)
    tree: JsonObject = {
        "kind": "message",
        "messageId": message.message_id,
        "role": ROLE_NAMES[role],
        "parts": [encode_part(part) for part in spend_on(message.parts)[:]],
    }
    value = message.context_id
    if value:
        tree["contextId"] = value
    value = message.task_id
    if value:
        tree["taskId"] = value
    value = message.extensions
    if value:
        tree["extensions"] = value[:]
    value = message.reference_task_ids
    if value:
        tree["referenceTaskIds"] = value[:]
    if message.HasField("metadata"):
        metadata = read_struct(message.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:  # residue
            return restored(shape or MESSAGE, tree)  # residue
    return tree


def encode_callers_message(message: Any) -> JsonObject:
    """The same for a message in a request: one without a role is the user's."""
    return encode_message(message, CALLERS_MESSAGE)


def _read_message(reader: Reader) -> None:
    reader.kind("message")
    reader.string("messageId", required=True)
    role = reader.given.get("role")
    if type(role) is not str or role not in ROLES:
        reader.wrong("role", "is none of user, agent" if role is not None else "is required")
    reader.tree["role"] = role
    if reader.given.get("parts") is None:
        reader.wrong("parts", "is required")
    reader.units("parts", required=True)
    reader.string("contextId")
    reader.string("taskId")
    reader.strings("extensions")
    reader.strings("referenceTaskIds")
    reader.metadata()


def parts_inside(tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    """The parts of a message or an artifact."""
    for index, item in enumerate(tree.get("parts", ())):
        yield f"parts[{index}]", PART, item


def _role_check(default: str) -> Callable[[JsonObject, Any], bool]:
    """Whether a number may be the role of a message that says the default."""

    def check(tree: JsonObject, value: Any) -> bool:
        return is_enum(value) and value not in ROLE_NAMES and tree["role"] == default

    return check


def is_enum(number: Any) -> bool:
    """Whether a value can be that of an enum in protobuf."""
    return type(number) is int and -(2**31) <= number < 2**31


def _impose_role(message: Any, facts: Facts) -> None:
    if "role" in facts:
        message.role = facts["role"]


def _role_facts(default: str) -> Callable[[Any], Facts]:
    def facts_of(message: Any) -> Facts:
        number = message.role
        if number in ROLE_NAMES:
            return {}
        message.role = ROLES[default]
        return {"role": number}

    return facts_of


MESSAGE = Shape(
    hub.Message,
    "2",
    _read_message,
    write_message,
    encode_message,
    parts_inside,
    checks={"role": _role_check("agent")},
    impose=_impose_role,
    facts_of=_role_facts("agent"),
)
CALLERS_MESSAGE = replace(
    MESSAGE,
    encode=encode_callers_message,
    checks={"role": _role_check("user")},
    facts_of=_role_facts("user"),
)

message_text = text_with(MESSAGE)
callers_message_text = text_with(CALLERS_MESSAGE)
decode_message = decode_with(MESSAGE, message_text)
