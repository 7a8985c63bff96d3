"""Artifacts, statuses and tasks, `kind` shape ↔ hub (spec 0.3.0, 6.1 to 6.3, 6.7). Not the events that tell of them.

Written as `parts` is: quick functions for what an encoder writes, the slow path for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.codec.errors import Irregular
from a2a_bridge.codec.meter import spend_on
from a2a_bridge.codec.structs import LEVELS, read_struct
from a2a_bridge.codec.values import timestamp_text
from a2a_bridge.codec.wire import VARINT
from a2a_bridge.dialects.residue import KEY
from a2a_bridge.dialects.v0_3 import scalars
from a2a_bridge.dialects.v0_3.irregular import Facts, Reader, Shape, decode_with, marked, restored, text_with
from a2a_bridge.dialects.v0_3.messages import (
    MESSAGE,
    encode_message,
    is_enum,
    message_text,
    parts_inside,
    strings,
)
from a2a_bridge.dialects.v0_3.parts import encode_part, part_text
from a2a_bridge.dialects.v0_3.scalars import STATE_ALIASES, STATE_NAMES, STATES, struct, timestamp_octets
from a2a_bridge.pb import lf_a2a_v1 as hub

_WRITTEN_STATES = {name: f"\x08{VARINT[number]}" for name, number in STATES.items()}


def write_artifact(tree: Any) -> str:
    """Wire text of a canonical artifact. Raises Irregular for any other."""
    get = tree.get
    rest = len(tree) - 2
    value = get("artifactId")
    if type(value) is not str:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    out = f"\n{VARINT[len(value)]}{value}"
    value = get("name")
    if value:
        rest -= 1
        if type(value) is not str:
            raise Irregular
        if not value.isascii():
            value = value.encode().decode("latin-1")
        out += f"\x12{VARINT[len(value)]}{value}"
    value = get("description")
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
        out += f'"{VARINT[len(body)]}{body}'
    if not rest:
        return out
    value = get("metadata")
    if value is not None:
        rest -= 1  # residue
        if KEY in value:  # residue
            raise Irregular  # residue
        body = struct(value, LEVELS)
        out += f"*{VARINT[len(body)]}{body}"
    value = get("extensions")
    if value is not None:
        rest -= 1  # residue
        out += strings(value, "2")
    if rest:  # residue
        raise Irregular  # residue
    return out


def encode_artifact(artifact: Any) -> JsonObject:
    """An artifact as a 0.x peer gets it. Raises ValueError for what JSON cannot say."""
    tree: JsonObject = {
        "artifactId": artifact.artifact_id,
        "parts": [encode_part(part) for part in spend_on(artifact.parts)[:]],
    }
    value = artifact.name
    if value:
        tree["name"] = value
    value = artifact.description
    if value:
        tree["description"] = value
    value = artifact.extensions
    if value:
        tree["extensions"] = value[:]
    if artifact.HasField("metadata"):
        metadata = read_struct(artifact.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:  # residue
            return restored(ARTIFACT, tree)  # residue
    return tree


def status_text(tree: Any) -> str:
    """Wire text of a canonical status, which is part of a larger unit. Raises Irregular for any other."""
    get = tree.get
    rest = len(tree) - 1
    out = _WRITTEN_STATES[get("state")]
    if not rest:
        return out
    value = get("message")
    if value is not None:
        rest -= 1  # residue
        body = message_text(value)
        out += f"\x12{VARINT[len(body)]}{body}"
    value = get("timestamp")
    if value is not None:
        rest -= 1  # residue
        body = timestamp_octets(value)
        out += f"\x1a{VARINT[len(body)]}{body}"
    if rest:  # residue
        raise Irregular  # residue
    return out


def encode_status(status: Any) -> JsonObject:
    """A status whose state has a name. Raises KeyError for others, and ValueError for what JSON cannot say."""
    tree: JsonObject = {"state": STATE_NAMES[status.state]}
    if status.HasField("message"):
        tree["message"] = encode_message(status.message)
    if status.HasField("timestamp"):
        tree["timestamp"] = timestamp_text(status.timestamp)
    return tree


def write_task(tree: Any) -> str:
    """Wire text of a canonical task. Raises Irregular for any other."""
    get = tree.get
    if get("kind") != "task":
        raise Irregular
    rest = len(tree) - 4
    value = get("id")
    if type(value) is not str:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    out = f"\n{VARINT[len(value)]}{value}"
    value = get("contextId")
    if type(value) is not str:
        raise Irregular
    if not value.isascii():
        value = value.encode().decode("latin-1")
    out += f"\x12{VARINT[len(value)]}{value}"
    body = status_text(get("status"))
    out += f"\x1a{VARINT[len(body)]}{body}"
    value = get("artifacts")
    if value is not None:
        rest -= 1
        if type(value) is not list or not value:
            raise Irregular
        for item in value:
            body = artifact_text(item)
            out += f'"{VARINT[len(body)]}{body}'
    value = get("history")
    if value is not None:
        rest -= 1
        if type(value) is not list or not value:
            raise Irregular
        for item in value:
            body = message_text(item)
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
    if rest:  # residue
        raise Irregular  # residue
    return out


def encode_task(task: Any) -> JsonObject:
    """A task as a 0.x peer gets it. Raises ValueError for what JSON cannot say."""
    if not task.HasField("status") or task.status.state not in STATE_NAMES:
        return marked(TASK, task)
    tree: JsonObject = {
        "kind": "task",
        "id": task.id,
        "contextId": task.context_id,
        "status": encode_status(task.status),
    }
    value = task.artifacts
    if value:
        tree["artifacts"] = [encode_artifact(item) for item in spend_on(value)[:]]
    value = task.history
    if value:
        tree["history"] = [encode_message(item) for item in spend_on(value)[:]]
    if task.HasField("metadata"):
        metadata = read_struct(task.metadata)
        tree["metadata"] = metadata
        if KEY in metadata:  # residue
            return restored(TASK, tree)  # residue
    return tree


def _read_artifact(reader: Reader) -> None:
    reader.string("artifactId", required=True)
    if reader.given.get("parts") is None:
        reader.wrong("parts", "is required")
    reader.units("parts", required=True)
    reader.string("name")
    reader.string("description")
    reader.strings("extensions")
    reader.metadata()


def read_status(reader: Reader) -> None:
    """Reads the member `status`; of one that is missing, the state is unknown."""
    given = reader.object("status")
    if given is None:
        reader.tree["status"] = {"state": "unknown"}
        return
    status = Reader(given, f"{reader.path}.status" if reader.path else "status")
    state = given.get("state")
    name = STATE_ALIASES.get(state, state) if type(state) is str else "unknown" if state is None else ""
    if name not in STATES:
        status.wrong("state", f"is none of {', '.join(STATES)}")
    status.tree["state"] = name
    status.unit("message")
    time = given.get("timestamp")
    if type(time) is str:
        canonical = scalars.canonical_time(time)
        if canonical is not None:
            status.tree["timestamp"] = canonical
    elif time is not None:
        status.expected("timestamp", "a date and time")
    reader.tree["status"] = reader.within(status)


def _read_task(reader: Reader) -> None:
    reader.kind("task")
    reader.string("id", required=True)
    reader.string("contextId", required=True)
    read_status(reader)
    reader.units("artifacts")
    reader.units("history")
    reader.metadata()


def status_inside(tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    """The message of a status."""
    if "message" in tree.get("status", ()):
        yield "status.message", MESSAGE, tree["status"]["message"]


def _task_inside(tree: JsonObject) -> Iterator[tuple[str, Shape, Any]]:
    yield from status_inside(tree)
    for index, item in enumerate(tree.get("artifacts", ())):
        yield f"artifacts[{index}]", ARTIFACT, item
    for index, item in enumerate(tree.get("history", ())):
        yield f"history[{index}]", MESSAGE, item


def is_state(tree: JsonObject, value: Any) -> bool:
    """Whether a number may be the state of a status that says `unknown`."""
    return is_enum(value) and value not in STATE_NAMES and tree["status"].get("state") == "unknown"


def is_no_status(tree: JsonObject, value: Any) -> bool:
    """Whether a status may stand for none."""
    return value is True and tree["status"] == {"state": "unknown"}


def impose_status(message: Any, facts: Facts) -> None:
    """The state of a status, or its absence."""
    if "state" in facts:
        message.status.state = facts["state"]
    if "noStatus" in facts:
        message.ClearField("status")


def status_facts(message: Any) -> Facts:
    """What a status says that has no name in 0.x."""
    if not message.HasField("status"):
        message.status.SetInParent()
        return {"noStatus": True}
    state = message.status.state
    if state in STATE_NAMES:
        return {}
    message.status.state = 0
    return {"state": state}


ARTIFACT = Shape(hub.Artifact, "*", _read_artifact, write_artifact, encode_artifact, parts_inside)
STATUS_CHECKS = {"state": is_state, "noStatus": is_no_status}
TASK = Shape(
    hub.Task,
    "2",
    _read_task,
    write_task,
    encode_task,
    _task_inside,
    checks=STATUS_CHECKS,
    impose=impose_status,
    facts_of=status_facts,
)

artifact_text = text_with(ARTIFACT)
task_text = text_with(TASK)
decode_artifact = decode_with(ARTIFACT, artifact_text)
decode_task = decode_with(TASK, task_text)
