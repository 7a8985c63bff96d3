"""Names of contexts for an agent that cannot tell callers apart. Pure.

Callers may choose the id of a context, so two of them may choose the same one. Rules:
1. The agent gets a name that is made of the caller and the id: two callers never share a context, and it is
   the same name after a restart and in every gateway.
2. It is a UUID of version 5, which no agent makes at random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar
from uuid import UUID, uuid5

from google.protobuf.message import Message

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.messages import payload_of
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the namespace of these names
_SPACE = UUID("6a5b0d1c-8f0e-4c67-9d5f-0a2e3f7b9c41")

M = TypeVar("M", bound=Message)


def name_for(scope: Scope, context_id: str) -> str:
    """The name for the agent of a context id that a caller chose."""
    words = json.dumps([scope.tenant, scope.owner, context_id])
    return str(uuid5(_SPACE, words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")))


def may_be_made_here(context_id: str) -> bool:
    """Whether an id looks like one of `name_for`."""
    return len(context_id) == 36 and context_id[14] == "5"


def with_context(message: M, name: str, shown: str) -> M:
    """A copy of a response or event in which a context has another name. The input is not changed: events
    have several readers.
    """
    made = type(message)()
    made.CopyFrom(message)
    for one in _find_named(made):
        if one.context_id == name:
            one.context_id = shown
    return made


def _find_named(message: Any) -> Iterator[Any]:
    """The parts of a response or event that have a context id, the whole first."""
    message = payload_of(message)
    if message is None:
        return
    yield message
    if isinstance(message, hub.Task):
        yield from message.history
    if isinstance(message, hub.Task | hub.TaskStatusUpdateEvent) and message.status.HasField("message"):
        yield message.status.message
