"""Going on with a stream that broke: ids of events, the extension that offers it, the mark of a gap. No
transport.

Rules:
1. An id is `number` or `epoch-number`, of at most 64 characters, and opaque to whoever gets it. It is of one
   task.
2. In one stream each id counts one more than the id before. Only a snapshot that is marked with a gap begins
   anew, and says its own id in the mark, for bindings that tell the first id alone.
3. A snapshot has the id of the last event that it holds, so that a caller can go on after it too.
4. What was asked for and is not kept, or never was, is a gap: said in the response parameters and in the
   snapshot that stands for it. Text that can be no id is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from a2a_bridge.core.call import LAST_EVENT_PARAMETER, CallContext
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the extension in the card of an agent whose streams can be resumed; also the key of the mark of a gap
RESUME_URI = "urn:a2a-bridge:resume:v1"
DESCRIPTION = (
    "Events of a stream have ids (SSE: id, gRPC: metadata a2a-event-id and counting on). "
    "SubscribeToTask with Last-Event-ID goes on after that event."
)
#: the value of RESUME_PARAMETER where events are lost
GAP = "gap"
#: how the parameter is called where people read of it
LAST_EVENT_ID = "Last-Event-ID"

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COUNTED = re.compile(r"((?:[A-Za-z0-9_-]*-)?)(0|[1-9][0-9]{0,18})")


class GapMark(NamedTuple):
    """What a snapshot says of a gap. after: the id that was asked for. id: of the last event that it
    holds.
    """

    after: str
    id: str


def is_id(text: str) -> bool:
    """Whether a text can be the id of an event."""
    # The first look is for plain numbers, of which there is one at each event.
    return (text.isascii() and text.isalnum() and len(text) <= 64) or bool(_ID.fullmatch(text))


def asked_after(context: CallContext) -> str:
    """The id after which a subscription is to go on; empty when it is to begin with a snapshot.

    Raises INVALID_PARAMS naming `Last-Event-ID` for what can be no id.
    """
    parameters = context.parameters
    if not parameters:
        return ""
    asked = parameters.get(LAST_EVENT_PARAMETER)
    if not asked:
        return ""
    if not is_id(asked):
        raise invalid_params(LAST_EVENT_ID, "is not an event id: 1 to 64 of A-Z a-z 0-9 _ -")
    return asked


def event_id(number: int, epoch: str = "") -> str:
    """The id of an event. epoch: tells numberings apart that begin anew; without `-`."""
    return f"{epoch}-{number}" if epoch else str(number)


def number_of(id_: str, epoch: str = "") -> int | None:
    """The number in an id of this epoch; None for an id of any other, which is a gap."""
    found = _COUNTED.fullmatch(id_)
    if found is None or found[1] != (f"{epoch}-" if epoch else ""):
        return None
    return int(found[2])


def counted_on(first: str) -> Iterator[str]:
    """The ids from `first` on, one more each; nothing when it does not end in a number."""
    found = _COUNTED.fullmatch(first)
    if found is None:
        return iter(())
    prefix = found[1]
    if prefix:
        return (f"{prefix}{number}" for number in count(int(found[2])))
    return map(str, count(int(found[2])))


def mark_gap(task: hub.Task, after: str, id_: str) -> None:
    """Notes in a snapshot, in place, that events after `after` are lost, and that it holds those up to
    `id_`.
    """
    mark = task.metadata.fields[RESUME_URI].struct_value.fields
    mark["gap"].bool_value = True
    mark["after"].string_value = after
    mark["id"].string_value = id_


def gap_of(event: hub.StreamResponse) -> GapMark | None:
    """The mark of a gap in an event; None when there is none."""
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
    """Whether a message is a snapshot that is marked as a gap. Quick for all others."""
    return message.HasField("task") and gap_of(message) is not None


def offers_resume(card: hub.AgentCard) -> bool:
    """Whether the agent of a card says that its streams can be resumed."""
    return any(one.uri == RESUME_URI for one in card.capabilities.extensions)


def offer_resume(card: hub.AgentCard) -> hub.AgentCard:
    """The card with the extension: a copy, unless it has it already or its agent does not stream."""
    if not card.capabilities.streaming or offers_resume(card):
        return card
    offering = hub.AgentCard()
    offering.CopyFrom(card)
    offering.capabilities.extensions.add(uri=RESUME_URI, description=DESCRIPTION, required=False)
    return offering
