"""Conversion between models and hub messages, for code written against the types of 0.3.

It does not handle JSON itself: a model is written as a tree, and the functions for trees do the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, RootModel

from a2a_bridge.codec import DecodeError, EncodeError
from a2a_bridge.core import errors as core
from a2a_bridge.core.errors import Reason, Violation
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v0_3 import card, errors, parts, push_configs, requests, shapes
from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, read, write
from a2a_bridge.pb import lf_a2a_v1 as hub

_ROWS = {row.address: row for row in requests.ROWS}

#: name of a model -> the reader of its tree
DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "TextPart": parts.PART.decode,
    "FilePart": parts.PART.decode,
    "DataPart": parts.PART.decode,
    "Message": shapes.MESSAGE.decode,
    "Artifact": shapes.ARTIFACT.decode,
    "Task": shapes.TASK.decode,
    "TaskStatusUpdateEvent": lambda tree: shapes.EVENT.decode(tree).status_update,
    "TaskArtifactUpdateEvent": lambda tree: shapes.EVENT.decode(tree).artifact_update,
    "AgentCard": card.decode_card,
    "MessageSendParams": _ROWS["message/send"].decode_request,
    "TaskQueryParams": _ROWS["tasks/get"].decode_request,
    "TaskPushNotificationConfig": push_configs.TASK_CONFIG.decode,
}

#: message of the hub -> the writer of its tree, and the name of the model for the tree
ENCODERS: Mapping[type, tuple[Callable[[Any], Any], str]] = {
    hub.Part: (parts.PART.encode, "Part"),
    hub.Message: (shapes.MESSAGE.encode, "Message"),
    hub.Artifact: (shapes.ARTIFACT.encode, "Artifact"),
    hub.Task: (shapes.TASK.encode, "Task"),
    hub.TaskStatusUpdateEvent: (
        lambda update: shapes.EVENT.encode(hub.StreamResponse(status_update=update)),
        "TaskStatusUpdateEvent",
    ),
    hub.TaskArtifactUpdateEvent: (
        lambda update: shapes.EVENT.encode(hub.StreamResponse(artifact_update=update)),
        "TaskArtifactUpdateEvent",
    ),
    hub.StreamResponse: (shapes.EVENT.encode, "StreamResult"),
    hub.SendMessageResponse: (shapes.RESULT.encode, "SendResult"),
    hub.AgentCard: (card.encode_card, "AgentCard"),
    hub.SendMessageRequest: (_ROWS["message/send"].encode_request, "MessageSendParams"),
    hub.GetTaskRequest: (_ROWS["tasks/get"].encode_request, "TaskQueryParams"),
    hub.TaskPushNotificationConfig: (push_configs.TASK_CONFIG.encode, "TaskPushNotificationConfig"),
    core.A2AError: (lambda error: errors.encode_jsonrpc(error).body, "AnyError"),
}


def decode_model(model: BaseModel) -> Any:
    """A model as its hub message. Raises as `models.decode` does."""
    return decode_by(DECODERS, model)


def encode_message(message: Any, types: Mapping[str, Any]) -> Any:
    """A hub message as one of these types. Raises as `models.encode` does."""
    return encode_by(ENCODERS, message, types)


def decode_by(decoders: Mapping[str, Callable[[Any], Any]], model: BaseModel) -> Any:
    """Reads a model with the reader of its type."""
    while isinstance(model, RootModel):
        model = model.root
    names = (cls.__name__ for cls in type(model).__mro__ if issubclass(cls, A2ABaseModel))
    found = next((name for name in names if name in decoders), None)
    tree = write(model)
    if found is None:
        if isinstance(tree, dict) and isinstance(tree.get("code"), int):
            return errors.decode_jsonrpc(ErrorReply(200, tree))
        raise TypeError(f"{type(model).__name__} has no message of its own in the hub")
    try:
        _check_finite(tree)
        return decoders[found](tree)
    except DecodeError as error:
        violations = [Violation(path, problem) for path, problem in error.violations]
        raise core.A2AError(Reason.INVALID_PARAMS, str(error), violations=violations) from None
    except (EncodeError, RecursionError) as error:
        problem = error.problem if isinstance(error, EncodeError) else "is nested too deeply"
        raise core.invalid_params("", f"the {found} {problem}") from None


def encode_by(
    encoders: Mapping[type, tuple[Callable[[Any], Any], str]], message: Any, types: Mapping[str, Any]
) -> Any:
    """A message as the model of its type."""
    found = encoders.get(type(message))
    if found is None:
        raise TypeError(f"{type(message).__name__} has no model")
    write_tree, name = found
    model = types[name] if isinstance(types[name], type) else _root(types[name])
    try:
        made = _read(model, write_tree, message)
    except EncodeError as error:
        raise core.invalid_params(error.path, error.problem) from None
    return made.root if isinstance(made, RootModel) and name != "Part" else made


@cache
def _root(union: Any) -> type[BaseModel]:
    return RootModel[union]


def _read(model: Any, write_tree: Callable[[Any], Any], message: Any) -> Any:
    try:
        return read(model, write_tree(message))
    except core.A2AError:
        if isinstance(message, core.A2AError):
            raise
        # A peer wrote members outside of the schema, and the codec keeps them. Without them it has a model.
        bare = unmapped.stripped(message)
        if bare is message:
            raise
        return read(model, write_tree(bare))


def _check_finite(tree: Any) -> None:
    rest = [tree]
    while rest:
        item = rest.pop()
        if type(item) is dict:
            rest.extend(item.values())
        elif type(item) is list:
            rest.extend(item)
        elif type(item) is float and not math.isfinite(item):
            raise EncodeError("", "holds a number that is not finite")
