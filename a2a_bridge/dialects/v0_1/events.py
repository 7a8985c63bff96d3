"""Stream events and responses of 0.1 ↔ those of 0.3: JSON trees on both sides. Single events, not streams.

Rules:
1. A stream of 0.1 holds status events and artifact events only, and a response to a message is always a task.
   A message is wrapped in a completed status that carries it, with MARK, which allows unwrapping.
2. The chunk flags are in the artifact in 0.1 and in the event in 0.3.
3. A stream cannot hold a whole task: `gateway.identity` splits it before. If one still comes here it becomes
   its status; a task sent by a peer is read as a task.
"""

from __future__ import annotations

from typing import Any

from a2a_bridge.dialects.v0_1.messages import (
    MESSAGE,
    decode_artifact,
    decode_message,
    decode_task,
    down_status,
    encode_artifact,
    encode_message,
    encode_task,
    mark_of,
    up_status,
    with_children,
    with_mark,
    with_status_message,
)
from a2a_bridge.dialects.v0_1.stash import Unit, coders, decode_unit, encode_unit, without_nulls

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
    if type(tree) is not dict:
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


def _down_status_event(tree: Unit) -> Unit:
    return down_status(_down_common(tree))


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


_decode_bare_status_event, _encode_bare_status_event = coders(_up_status_event, _down_status_event)
