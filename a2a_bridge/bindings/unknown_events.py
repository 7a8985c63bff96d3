"""Events of a stream that this version does not know: messages without a member of `payload`.

Rules:
1. A gateway hands them on, because their content is kept in the message (`codec.unknown`). They do not change
   what is known of a task.
2. They are numbered like all events. A wire that cannot carry the content of one leaves it out, unless the
   caller counts the events: then it gets an event without content.
3. What is left out is logged once for each name.
"""

from __future__ import annotations

import logging
from contextlib import aclosing

from a2a_bridge.codec.unknown import unknown_names
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.resume import RESUME_URI, resume_id
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.events")
#: names that are remembered: agents choose them
_MOST = 256
_noted: set[str] = set()


def counts(context: CallContext, event: Event) -> bool:
    """Whether a caller relies on the number of an event."""
    return bool(event.id) and (RESUME_URI in context.extensions or bool(resume_id(context)))


def leave_out(message: hub.StreamResponse) -> None:
    """Logs that an unknown event is left out."""
    names = unknown_names(message) or "none"
    if names not in _noted and len(_noted) < _MOST:
        _noted.add(names)
        _log.warning("an event of the agent is left out: its member (%s) is not known here", names)


async def known_only(events: Events) -> Events:
    """The events without the unknown ones."""
    async with aclosing(events):
        async for event in events:
            if event.message.WhichOneof("payload") is None:
                leave_out(event.message)
            else:
                yield event
