"""Resuming an interrupted stream: event ids, the extension that announces it, the gap annotation. No
transport.

Rules:
1. An id is `number` or `epoch-number`, of at most 64 characters, and opaque to its receivers. It is scoped to
   one task.
2. Within a stream each id is one higher than the one before. Only a snapshot annotated as a gap restarts the
   sequence. The annotation contains its id, for bindings that send only the first id.
3. A snapshot has the id of the last event that it includes, so that a caller can resume after it too.
4. A requested id that is no longer kept, or never existed, causes a gap: it is reported in the response
   parameters and in the snapshot that replaces the lost events. Text that cannot be an id is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from a2a_bridge.core.call import LAST_EVENT_PARAMETER, CallContext
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the extension in the card of an agent with resumable streams; also the key of the gap annotation
RESUME_URI = "urn:a2a-bridge:resume:v1"
DESCRIPTION = (
    "Events of a stream have ids (SSE: id, gRPC: metadata a2a-event-id and counting on). "
    "SubscribeToTask with Last-Event-ID goes on after that event."
)
#: the value of RESUME_PARAMETER if events are lost
GAP = "gap"
#: the name of the parameter in error texts
LAST_EVENT_ID = "Last-Event-ID"

_COUNTED = re.compile(r"((?:[A-Za-z0-9_-]*-)?)(0|[1-9][0-9]{0,18})")


class GapMark(NamedTuple):
    """The gap annotation of a snapshot."""

    #: the requested id
    after: str
    #: the id of the last event that the snapshot includes
    id: str


def is_id(text: str) -> bool:
    """Whether a text can be the id of an event."""
    # One comes with each event, and a regular expression takes three times as long.
    return len(text) <= 64 and text.isascii() and text.replace("-", "0").replace("_", "0").isalnum()


def resume_id(context: CallContext) -> str:
    """The id after which a subscription resumes; empty if it starts with a snapshot. Raises INVALID_PARAMS
    naming `Last-Event-ID` for text that cannot be an id.
    """
    parameters = context.parameters
    if not parameters:
        return ""
    event = parameters.get(LAST_EVENT_PARAMETER)
    if not event:
        return ""
    if not is_id(event):
        raise invalid_params(LAST_EVENT_ID, "is not an event id: 1 to 64 of A-Z a-z 0-9 _ -")
    return event


def event_id(number: int, epoch: str = "") -> str:
    """The id of an event. epoch: distinguishes numberings that restart; without `-`."""
    return f"{epoch}-{number}" if epoch else str(number)


def number_of(id_: str, epoch: str = "") -> int | None:
    """The number in an id of this epoch; None for an id of another epoch, which is a gap."""
    found = _COUNTED.fullmatch(id_)
    if found is None or found[1] != (f"{epoch}-" if epoch else ""):
        return None
    return int(found[2])


def count_on(first: str) -> Iterator[str]:
    """The consecutive ids from `first` on; none if it does not end in a number."""
    found = _COUNTED.fullmatch(first)
    if found is None:
        return iter(())
    prefix = found[1]
    if prefix:
        return (f"{prefix}{number}" for number in count(int(found[2])))
    return map(str, count(int(found[2])))


def mark_gap(task: hub.Task, after: str, id_: str) -> None:
    """Annotates a snapshot in place: events after `after` are lost, and the snapshot includes the events up
    to `id_`.
    """
    mark = task.metadata.fields[RESUME_URI].struct_value.fields
    mark["gap"].bool_value = True
    mark["after"].string_value = after
    mark["id"].string_value = id_


def gap_of(event: hub.StreamResponse) -> GapMark | None:
    """The gap annotation of an event; None if there is none."""
    if not event.HasField("task") or not event.task.HasField("metadata"):
        return None
    fields = event.task.metadata.fields
    if RESUME_URI not in fields:
        return None
    mark = fields[RESUME_URI].struct_value.fields
    if "gap" not in mark or not mark["gap"].bool_value:
        return None
    return GapMark(
        mark["after"].string_value if "after" in mark else "", mark["id"].string_value if "id" in mark else ""
    )


def is_gap(message: hub.StreamResponse) -> bool:
    """Whether a message is a snapshot with a gap annotation. Fast for all other messages."""
    return message.HasField("task") and gap_of(message) is not None


def offers_resume(card: hub.AgentCard) -> bool:
    """Whether the card of an agent announces resumable streams."""
    return any(one.uri == RESUME_URI for one in card.capabilities.extensions)


def offer_resume(card: hub.AgentCard) -> hub.AgentCard:
    """The card with the extension: a copy, unless the card has it already or its agent does not stream."""
    if not card.capabilities.streaming or offers_resume(card):
        return card
    offering = hub.AgentCard()
    offering.CopyFrom(card)
    offering.capabilities.extensions.add(uri=RESUME_URI, description=DESCRIPTION, required=False)
    return offering
