"""What older callers say of a push config that 1.0 has no place for: how it comes, and how it goes back. No keeping.

Rules:
1. What was said beside a config comes back, as a reply parameter, to older callers that get, list or create it: one
   text for one config, and for a list what its binding takes: a text about the array, or an array of texts.
2. What was said within a message of the config in it counts as if that had been registered by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from a2a_bridge.codec import dumps_ascii
from a2a_bridge.core.call import CallContext
from a2a_bridge.dialects import JSONRPC, residue
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.push")

#: bytes of what is kept beside one config
LONGEST = 4096

#: where a list is the bare array, and no member of anything
_BARE_LISTS = JSONRPC.name
_INLINE = "/configuration/pushNotificationConfig"
_OF_CONFIG = "/pushNotificationConfig"


def told(context: CallContext) -> str:
    """What a call says beside the config that it registers; empty for nothing, or for too much."""
    text = context.aside
    return text if len(text) <= LONGEST else ""


def told_within(request: hub.SendMessageRequest) -> str:
    """What a message said beside the config in it."""
    if not request.HasField("metadata"):
        return ""
    entries = [
        [_OF_CONFIG + entry[0].removeprefix(_INLINE), *entry[1:]]
        for entry in residue.carried(request, residue.KIND) or ()
        if entry[0].startswith(_INLINE)
    ]
    text = residue.write(residue.KIND, entries) if entries else ""
    return text if len(text) <= LONGEST else ""


def recall(context: CallContext, asides: str | Sequence[str]) -> None:
    """Says it again with the answer about one config, or about a list of them."""
    if isinstance(asides, str):
        text = asides
    else:
        text = _together(asides) if context.origin.binding == _BARE_LISTS else _each(asides)
    if text:
        # In place of what the agent may have said: this is what the caller has said.
        context.reply.aside = text


def _each(asides: Sequence[str]) -> str:
    """What was said beside the configs of a list, one by one."""
    return dumps_ascii([aside or None for aside in asides]) if any(asides) else ""


def _together(asides: Sequence[str]) -> str:
    """What was said beside the configs of a list that is an array: said of the array."""
    entries = [
        [f"/{place}{entry[0]}", *entry[1:]]
        for place, aside in enumerate(asides)
        for entry in residue.read(aside, residue.KIND) or ()
    ]
    try:
        return residue.write(residue.KIND, entries) if entries else ""
    except residue.TooMuch as error:
        logger.warning("what was said beside push notification configs %s", error)
        return ""
