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
    "TextPart": parts.decode_part,
    "FilePart": parts.decode_part,
    "DataPart": parts.decode_part,
    "Message": shapes.decode_message,
    "Artifact": shapes.decode_artifact,
    "Task": shapes.decode_task,
    "TaskStatusUpdateEvent": lambda tree: shapes.decode_event(tree).status_update,
    "TaskArtifactUpdateEvent": lambda tree: shapes.decode_event(tree).artifact_update,
    "AgentCard": card.decode_card,
    "MessageSendParams": _ROWS["message/send"].decode_request,
    "TaskQueryParams": _ROWS["tasks/get"].decode_request,
    "TaskPushNotificationConfig": push_configs.decode_push_config,
}

#: message of the hub -> the writer of its tree, and the name of the model for the tree
ENCODERS: Mapping[type, tuple[Callable[[Any], Any], str]] = {
    hub.Part: (parts.encode_part, "Part"),
    hub.Message: (shapes.encode_message, "Message"),
    hub.Artifact: (shapes.encode_artifact, "Artifact"),
    hub.Task: (shapes.encode_task, "Task"),
    hub.TaskStatusUpdateEvent: (
        lambda update: shapes.encode_event(hub.StreamResponse(status_update=update)),
        "TaskStatusUpdateEvent",
    ),
    hub.TaskArtifactUpdateEvent: (
        lambda update: shapes.encode_event(hub.StreamResponse(artifact_update=update)),
        "TaskArtifactUpdateEvent",
    ),
    hub.StreamResponse: (shapes.encode_event, "StreamResult"),
    hub.SendMessageResponse: (shapes.encode_result, "SendResult"),
    hub.AgentCard: (card.encode_card, "AgentCard"),
    hub.SendMessageRequest: (_ROWS["message/send"].encode_request, "MessageSendParams"),
    hub.GetTaskRequest: (_ROWS["tasks/get"].encode_request, "TaskQueryParams"),
    hub.TaskPushNotificationConfig: (push_configs.encode_push_config, "TaskPushNotificationConfig"),
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
