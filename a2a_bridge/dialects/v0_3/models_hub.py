"""Conversion between models and hub messages, for code written against the types of 0.3.

It does not handle JSON itself: a model is written as a tree, and the functions for trees do the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, RootModel

from a2a_bridge.codec import EncodeError
from a2a_bridge.core import errors as core
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.boundary import Conversion, request_decoder
from a2a_bridge.dialects.dialect import CardForm, ErrorReply, Row
from a2a_bridge.dialects.v0_3 import card, errors, requests
from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, read, write
from a2a_bridge.dialects.v0_3.push import TASK_CONFIG
from a2a_bridge.dialects.v0_3.shapes import ARTIFACT, EVENT, MESSAGE, PART, RESULT, TASK
from a2a_bridge.pb import lf_a2a_v1 as hub

Coder = Callable[[Any], Any]


class Models:
    """The conversions of one version of 0.x."""

    def __init__(
        self, rows: Iterable[Row[str, Any]], card: CardForm, event: Conversion, encode_error: Coder
    ) -> None:
        """rows, encode_error: of JSON-RPC."""
        by_method = {row.address: row for row in rows}
        send, query = by_method["message/send"], by_method["tasks/get"]
        #: the name of a model, the message of the hub, the writer and the reader of their tree
        table: tuple[tuple[str, type, Coder, Coder], ...] = (
            ("Part", hub.Part, PART.encode, PART.decode),
            ("Message", hub.Message, MESSAGE.encode, MESSAGE.decode),
            ("Artifact", hub.Artifact, ARTIFACT.encode, ARTIFACT.decode),
            ("Task", hub.Task, TASK.encode, TASK.decode),
            (
                "TaskStatusUpdateEvent",
                hub.TaskStatusUpdateEvent,
                lambda update: event.encode(hub.StreamResponse(status_update=update)),
                lambda tree: event.decode(tree).status_update,
            ),
            (
                "TaskArtifactUpdateEvent",
                hub.TaskArtifactUpdateEvent,
                lambda update: event.encode(hub.StreamResponse(artifact_update=update)),
                lambda tree: event.decode(tree).artifact_update,
            ),
            ("AgentCard", hub.AgentCard, card.encode, card.decode),
            ("MessageSendParams", hub.SendMessageRequest, send.encode_request, send.decode_request),
            ("TaskQueryParams", hub.GetTaskRequest, query.encode_request, query.decode_request),
            (
                "TaskPushNotificationConfig",
                hub.TaskPushNotificationConfig,
                TASK_CONFIG.encode,
                TASK_CONFIG.decode,
            ),
        )
        self._decoders = {
            name: request_decoder(Conversion(encode, decode)) for name, _, encode, decode in table
        }
        self._decoders |= dict.fromkeys(("TextPart", "FilePart", "DataPart"), self._decoders["Part"])
        self._encoders = {
            **{message: (encode, name) for name, message, encode, _ in table},
            hub.StreamResponse: (event.encode, "StreamResult"),
            hub.SendMessageResponse: (RESULT.encode, "SendResult"),
            core.A2AError: (lambda error: encode_error(error).body, "AnyError"),
        }

    def decode_model(self, model: BaseModel) -> Any:
        """A model as its hub message. Raises as `models.decode` does."""
        while isinstance(model, RootModel):
            model = model.root
        names = (cls.__name__ for cls in type(model).__mro__ if issubclass(cls, A2ABaseModel))
        found = next((name for name in names if name in self._decoders), None)
        tree = write(model)
        if found is None:
            if isinstance(tree, dict) and isinstance(tree.get("code"), int):
                return errors.decode_jsonrpc(ErrorReply(200, tree))
            raise TypeError(f"{type(model).__name__} has no message of its own in the hub")
        try:
            _check_finite(tree)
            return self._decoders[found](tree)
        except (EncodeError, RecursionError) as error:
            problem = error.problem if isinstance(error, EncodeError) else "is nested too deeply"
            raise core.invalid_params("", f"the {found} {problem}") from None

    def encode_message(self, message: Any, types: Mapping[str, Any]) -> Any:
        """A hub message as one of these types. Raises as `models.encode` does."""
        found = self._encoders.get(type(message))
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
        bare = unmapped.strip_copy(message)
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


_MODELS = Models(requests.ROWS, card.FORM, EVENT, errors.encode_jsonrpc)
decode_model, encode_message = _MODELS.decode_model, _MODELS.encode_message
