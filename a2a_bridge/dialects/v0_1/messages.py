"""Messages, artifacts, tasks, their status and stream events of 0.1 ↔ 0.3: JSON trees on both sides. Single
events, not streams.

Rules:
1. A null member counts as absent. `sessionId` is `contextId`; content without a member in 0.1 is written
   under its name in 0.3, which readers of 0.1 ignore and readers of this module restore.
2. A message of 0.1 has no id. It gets one of the form `v0.1-<where>-<what>` that depends only on its place
   and its content, so that a repeated request has the same ids; such an id is not sent back.
3. The identity of an artifact is its index: `artifactId` is `index-<n>`.
4. The states `rejected` and `auth-required` are `failed` and `input-required` in 0.1. MARK in the metadata of
   the task or event holds the original state, for readers that know it.
5. A stream of 0.1 holds status events and artifact events only, and a response to a message is always a task.
   A message is wrapped in a completed status that carries it, with MARK, which allows unwrapping.
6. The chunk flags are in the artifact in 0.1 and in the event in 0.3.
7. A stream cannot hold a whole task: `gateway.identity` splits it before. If a whole task still comes here it
   becomes its status; a task sent by a peer is read as a task.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from a2a_bridge.codec import DecodeError
from a2a_bridge.codec.structs import number
from a2a_bridge.dialects.v0_1.parts import (
    STASH,
    Unit,
    coders,
    decode_part,
    decode_unit,
    encode_part,
    encode_unit,
    without_nulls,
)

#: in the metadata of tasks and events on a wire of 0.1: their original meaning
MARK = STASH
#: in MARK: the original state; and whether the task or event represents a message (0.1 has no other response)
STATE = "state"
MESSAGE = "message"
#: in MARK in the metadata of an artifact of the hub: the index if its id does not give it. Never on a wire
INDEX = "index"

_DOWNGRADED = {"rejected": "failed", "auth-required": "input-required"}
_SYNTHETIC = re.compile(r"v0\.1-[0-9a-f]{12}-([0-9a-f]{20})")
_INDEX = re.compile(r"index-(0|-?[1-9][0-9]{0,17})")


#: members that may be null in 0.1, which counts as absent
_NULLABLE_STATUS = frozenset({"message", "timestamp"})
_NULLABLE_MESSAGE = frozenset({"metadata", "messageId", "taskId", "contextId", "parts"})
_NULLABLE_ARTIFACT = frozenset(
    {"name", "description", "metadata", "index", "append", "lastChunk", "artifactId"}
)
_NULLABLE_TASK = frozenset({"sessionId", "contextId", "artifacts", "history", "metadata"})


def artifact_id(index: int) -> str:
    """The artifact id for an index."""
    return f"index-{index}"


def index_of(artifact_id: Any) -> int | None:
    """The index in an artifact id; None for an id of another form."""
    match = _INDEX.fullmatch(artifact_id) if type(artifact_id) is str else None
    return int(match[1]) if match else None


def message_id(role: Any, parts: Any, metadata: Any, where: str) -> str:
    """The id of a message of 0.1 at the place `where`, such as the id of the task. From parts of 0.3."""
    return f"v0.1-{_digest(where)[:12]}-{_digest([role, parts, metadata])[:20]}"


def place_id(message_id: str, where: str) -> str:
    """A synthetic message id for another place; ids of other forms are returned unchanged."""
    match = _SYNTHETIC.fullmatch(message_id)
    return f"v0.1-{_digest(where)[:12]}-{match[1]}" if match else message_id


def decode_message(wire: Any, where: str) -> Any:
    """A message of 0.1 as one of 0.3. where: distinguishes equal messages."""
    if type(wire) is not dict:
        return wire
    made = with_children(wire, _decode_bare_message, {"parts": _decode_parts})
    if "messageId" not in made:
        made["messageId"] = message_id(made.get("role"), made.get("parts"), made.get("metadata"), where)
    return made


def encode_message(tree: Any) -> Any:
    """A message of 0.3 as one of 0.1."""
    if type(tree) is not dict:
        return tree
    tree = dict(tree)
    match = _SYNTHETIC.fullmatch(tree["messageId"]) if type(tree.get("messageId")) is str else None
    if match and _digest([tree.get("role"), tree.get("parts"), tree.get("metadata")])[:20] == match[1]:
        del tree["messageId"]
    return with_children(tree, _encode_bare_message, {"parts": _encode_parts})


def decode_artifact(wire: Any, path: str, place: int = 0) -> Any:
    """An artifact of 0.1 as one of 0.3. place: as in `encode_artifact`, for one that has an id beside its
    index. Raises DecodeError for an invalid index.
    """
    if type(wire) is not dict:
        return wire
    index = wire.get("index")
    if index is not None and (isinstance(index, bool) or not isinstance(index, (int, float)) or index % 1):
        raise DecodeError(f"{path}.index", "expected an integer")
    if index is not None and abs(index) >= 10**18:
        raise DecodeError(f"{path}.index", "is out of range")
    down = partial(_down_artifact, place=place)
    return with_children(wire, lambda bare: decode_unit(bare, _up_artifact, down), {"parts": _decode_parts})


def encode_artifact(tree: Any, place: int = 0) -> Any:
    """An artifact of 0.3 as one of 0.1. place: the index to use if its id holds none."""
    if type(tree) is not dict:
        return tree
    down = partial(_down_artifact, place=place)
    return with_children(tree, lambda bare: encode_unit(bare, _up_artifact, down), {"parts": _encode_parts})


def decode_task(wire: Any) -> Any:
    """A task of 0.1 as one of 0.3."""
    if type(wire) is not dict:
        return wire
    where = wire.get("id") if type(wire.get("id")) is str else ""

    def history(messages: list[Any]) -> list[Any]:
        return [decode_message(one, f"{where}/history/{place}") for place, one in enumerate(messages)]

    made = with_children(wire, _decode_bare_task, {"history": history, "artifacts": _decode_artifacts})
    return with_status_message(made, lambda one: decode_message(one, f"{where}/status"))


def encode_task(tree: Any) -> Any:
    """A task of 0.3 as one of 0.1."""
    if type(tree) is not dict:
        return tree
    made = with_children(
        tree, _encode_bare_task, {"history": _encode_messages, "artifacts": _encode_artifacts}
    )
    return with_status_message(made, encode_message)


def up_status(unit: Unit) -> Unit:
    """The status in a task or event of 0.1 without its nulls, and with its original state."""
    status = unit.get("status")
    if type(status) is not dict:
        return unit
    status = without_nulls(status, _NULLABLE_STATUS)
    unit = {**unit, "status": status}
    mark = mark_of(unit)
    state = mark.get(STATE) if len(mark) == 1 else None
    if type(state) is str and _DOWNGRADED.get(state) == status.get("state"):
        status["state"] = state
        unit = without_mark(unit)
    return unit


def down_status(unit: Unit) -> Unit:
    """The reverse: states that 0.1 lacks are replaced, and the metadata holds the original ones."""
    status = unit.get("status")
    state = status.get("state") if type(status) is dict else None
    if type(status) is not dict or type(state) is not str or state not in _DOWNGRADED:
        return unit
    unit = {**unit, "status": {**status, "state": _DOWNGRADED[state]}}
    return with_mark(unit, {STATE: state})


def mark_of(unit: Unit) -> dict[str, Any]:
    """MARK in the metadata of a task or event; empty if there is none."""
    metadata = unit.get("metadata")
    mark = metadata.get(MARK) if type(metadata) is dict else None
    return mark if type(mark) is dict else {}


def with_mark(unit: Unit, mark: dict[str, Any]) -> Unit:
    """A copy with MARK in its metadata. A unit that has it, or has invalid metadata, is unchanged."""
    metadata = unit.get("metadata")
    if metadata is not None and (type(metadata) is not dict or MARK in metadata):
        return unit
    return {**unit, "metadata": {**(metadata or {}), MARK: mark}}


def without_mark(unit: Unit) -> Unit:
    """A copy without MARK, and without metadata if it held nothing else."""
    metadata = {name: value for name, value in unit["metadata"].items() if name != MARK}
    unit = {**unit, "metadata": metadata}
    if not metadata:
        del unit["metadata"]
    return unit


def with_status_message(unit: Unit, code: Callable[[Any], Any]) -> Unit:
    """A copy with the status message converted by `code`."""
    status = unit.get("status")
    if type(status) is not dict or "message" not in status:
        return unit
    return {**unit, "status": {**status, "message": code(status["message"])}}


def with_children(
    unit: Unit, code: Callable[[Unit], Unit], children: Mapping[str, Callable[[list[Any]], list[Any]]]
) -> Unit:
    """`unit` converted by `code` without its status message, which stays, and without the lists of units in
    it, which `children` converts. Null lists count as absent.
    """
    lists = {name: unit[name] for name in children if unit.get(name) is not None}
    status = unit.get("status")
    message = status.get("message") if type(status) is dict else None
    bare = {name: value for name, value in unit.items() if name not in lists}
    if message is not None and type(status) is dict:
        bare["status"] = {name: value for name, value in status.items() if name != "message"}
    made = code(bare)
    if message is not None:
        made = {**made, "status": {**made["status"], "message": message}}
    return made | {
        name: children[name](value) if type(value) is list else value for name, value in lists.items()
    }


def _each(code: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda items: [code(one) for one in items]


_decode_parts, _encode_parts = _each(decode_part), _each(encode_part)
_encode_messages = _each(encode_message)


def _decode_artifacts(artifacts: list[Any]) -> list[Any]:
    return [
        decode_artifact(one, f"artifacts[{at}]", place)
        for at, (one, place) in enumerate(zip(artifacts, _places(artifacts), strict=True))
    ]


def _encode_artifacts(artifacts: list[Any]) -> list[Any]:
    return [encode_artifact(one, place) for one, place in zip(artifacts, _places(artifacts), strict=True)]


def _up_artifact(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE_ARTIFACT)
    index = made.pop("index", 0)
    made.setdefault("artifactId", artifact_id(int(index)))
    return made


def _down_artifact(tree: Unit, place: int) -> Unit:
    made = dict(tree)
    mark = mark_of(made)
    if mark.keys() == {INDEX} and isinstance(mark[INDEX], (int, float)):
        place = int(mark[INDEX])
        made = without_mark(made)
    index = index_of(made.get("artifactId"))
    if index is not None:
        del made["artifactId"]
    return {**made, "index": place if index is None else index}


def _places(artifacts: list[Any]) -> Iterator[int]:
    """For each artifact, of either version, the index that it gets if its id contains none: the first unused
    index.
    """
    ids = [one.get("artifactId") if type(one) is dict else None for one in artifacts]
    indexes = [
        one.get("index") if type(one) is dict and ids[at] is None else None
        for at, one in enumerate(artifacts)
    ]
    taken = {index_of(one) for one in ids} | {one for one in indexes if type(one) is int}
    place = 0
    for one in ids:
        while place in taken:
            place += 1
        yield place
        if one is not None and index_of(one) is None:
            place += 1


def _up_task(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE_TASK)
    session = made.pop("sessionId", made.get("contextId", ""))
    return {**up_status(made), "contextId": session, "kind": "task"}


def _down_task(tree: Unit) -> Unit:
    made = {name: value for name, value in tree.items() if name not in ("kind", "contextId")}
    if tree.get("contextId") not in (None, ""):
        made["sessionId"] = tree["contextId"]
    return down_status(made)


_decode_bare_message, _encode_bare_message = coders(
    lambda wire: {**without_nulls(wire, _NULLABLE_MESSAGE), "kind": "message"},
    lambda tree: {name: value for name, value in tree.items() if name != "kind"},
)
_decode_bare_task, _encode_bare_task = coders(_up_task, _down_task)


def _digest(value: Any) -> str:
    text = json.dumps(_without_stashes(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _without_stashes(value: Any) -> Any:
    # The variant of a part makes no difference to its content.
    if type(value) is list:
        return [_without_stashes(one) for one in value]
    if type(value) is dict:
        return {name: _without_stashes(one) for name, one in value.items() if name != STASH}
    if isinstance(value, float) and value - value == 0:
        return number(value)  # its value after a round trip
    if type(value) is int and abs(value) < 2**64:
        return number(float(value))  # an integer that no double holds comes back as the nearest one
    return value


_NULLABLE = frozenset({"metadata", "sessionId", "contextId", "taskId"})
_CHUNK = ("append", "lastChunk")


def decode_event(wire: Any) -> Any:
    """An event of a stream of 0.1 as one of 0.3."""
    if type(wire) is not dict:
        return wire
    if "artifact" in wire:
        return _decode_artifact_event(wire)
    if "status" not in wire and "parts" in wire:
        return decode_message(wire, "")
    if "final" in wire or not wire.keys() & {"artifacts", "history", "sessionId"}:
        return _decode_status_event(wire)
    return decode_task(wire)


def encode_event(tree: Any) -> Any:
    """An event of a stream of 0.3 as one of 0.1."""
    if type(tree) is not dict or not tree:
        return tree
    match tree.get("kind"):
        case "artifact-update":
            return _encode_artifact_event(tree)
        case "message":
            return _encode_status_event({**_wrap(tree), "kind": "status-update", "final": True})
        case "task":
            members = ("id", "contextId", "status", "metadata")
            made = {name: tree[name] for name in members if name in tree}
            made["taskId"] = made.pop("id", None)
            return _encode_status_event(made)
    return _encode_status_event(tree)


def decode_result(wire: Any) -> Any:
    """The response to a message, a task of 0.1, as a task or message of 0.3."""
    if type(wire) is dict and (message := _unwrap(wire)) is not None:
        return message
    return decode_task(wire)


def encode_result(tree: Any) -> Any:
    """The response to a message of 0.3 as a task of 0.1."""
    if type(tree) is dict and tree.get("kind") == "message":
        made = _wrap(tree)
        return encode_task({**made, "id": made.pop("taskId")})
    return encode_task(tree)


def _wrap(message: Unit) -> Unit:
    """The representation of a message in 0.1: the common members of a status event and a task."""
    # The code that answers the call knows the requested task; this function sees only the message.
    context = message.get("contextId")
    made = {
        "taskId": message.get("taskId") or message.get("messageId", ""),
        "contextId": context if type(context) is str else "",
        "status": {"state": "completed", "message": message},
    }
    return with_mark(made, {MESSAGE: True})


def _unwrap(wire: Unit) -> Any:
    """The message in a task or event that represents one; None for any other."""
    status = wire.get("status")
    if mark_of(wire) != {MESSAGE: True} or type(status) is not dict or status.get("state") != "completed":
        return None
    message = status.get("message")
    return decode_message(message, str(wire.get("id"))) if type(message) is dict else None


def _decode_status_event(wire: Unit) -> Any:
    message = _unwrap(wire)
    if message is not None:
        return message
    where = wire.get("id")
    made = with_children(wire, _decode_bare_status_event, {})
    return with_status_message(made, lambda one: decode_message(one, f"{where}/status"))


def _encode_status_event(tree: Unit) -> Unit:
    return with_status_message(with_children(tree, _encode_bare_status_event, {}), encode_message)


def _decode_artifact_event(wire: Unit) -> Any:
    artifact = wire["artifact"]
    flags = {}
    if type(artifact) is dict:
        flags = {name: artifact[name] for name in _CHUNK if name in artifact}
    made = decode_unit({**wire, "artifact": flags}, _up_artifact_event, _down_artifact_event)
    inner = {name: value for name, value in artifact.items() if name not in flags} if flags else artifact
    return {**made, "artifact": decode_artifact(inner, "artifact")}


def _encode_artifact_event(tree: Unit) -> Unit:
    made = encode_unit({**tree, "artifact": {}}, _up_artifact_event, _down_artifact_event)
    artifact = encode_artifact(tree.get("artifact"))
    if type(artifact) is dict:
        artifact = {**artifact, **made["artifact"]}
    return {**made, "artifact": artifact}


def _up_common(wire: Unit) -> Unit:
    made = without_nulls(wire, _NULLABLE)
    if "id" in made:
        made["taskId"] = made.pop("id")
    session = made.pop("sessionId", made.get("contextId", ""))
    return {**made, "contextId": session}


def _down_common(tree: Unit) -> Unit:
    made = {name: value for name, value in tree.items() if name not in ("kind", "contextId", "taskId")}
    if "taskId" in tree:
        made["id"] = tree["taskId"]
    if tree.get("contextId") not in (None, ""):
        made["sessionId"] = tree["contextId"]
    return made


def _up_status_event(wire: Unit) -> Unit:
    made = _up_common(wire)
    if made.get("final") is None:
        made["final"] = False
    return {**up_status(made), "kind": "status-update"}


def _up_artifact_event(wire: Unit) -> Unit:
    made = _up_common(wire)
    flags = made.get("artifact")
    if type(flags) is dict:
        made |= without_nulls(flags, _CHUNK)
    return {**made, "artifact": {}, "kind": "artifact-update"}


def _down_artifact_event(tree: Unit) -> Unit:
    made = _down_common(tree)
    flags = {name: made.pop(name) for name in _CHUNK if name in made}
    return {**made, "artifact": flags}


_decode_bare_status_event, _encode_bare_status_event = coders(
    _up_status_event, lambda tree: down_status(_down_common(tree))
)
