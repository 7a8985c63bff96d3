"""Push notification configurations, `kind` shape ↔ hub (spec 0.3.0, 6.8 to 6.10). Not the requests about
them.

Rules:
1. 0.3 nests the configuration beside the id of the task, the hub has one flat message.
2. 0.3 lists authentication schemes, the hub has one: the first suitable one (Bearer, then Basic, then the
   first of all). An empty list is no authentication for the hub, where a scheme is required.
3. Neither side has metadata here. Content that the hub cannot hold travels in a side channel, which
   bindings and the gateway keep. Content without a name in 0.3 is written as
   further members with the names of the hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.shape import decode_inline, inline, read_inline
from a2a_bridge.dialects.unmapped import KIND, PROTO
from a2a_bridge.pb import lf_a2a_v1 as hub

MOST_SIDE_CHANNEL = 4096
"""Maximum number of characters of the text beside a message: it travels as a header."""


class TooLargeError(ValueError):
    """The text beside a message would exceed the size of a header."""


_USUAL_SCHEMES = ("bearer", "basic")


def usable_scheme(schemes: Sequence[str]) -> str:
    """The scheme to which credentials most likely belong; empty if there is none."""
    for usual in _USUAL_SCHEMES:
        for scheme in schemes:
            if scheme.lower() == usual:
                return scheme
    return next(filter(None, schemes), "")


_MEMBERS = (
    Member("url", always=True, required=True),
    Member("id"),
    Member("token"),
    Member(
        "authentication",
        inline(
            hub.AuthenticationInfo,
            Member("schemes", of="scheme", always=True, chosen=usable_scheme),
            Member("credentials"),
        ),
    ),
)
CONFIG = inline(hub.TaskPushNotificationConfig, *_MEMBERS)
#: a configuration in the params of a message
NESTED_CONFIG = inline(
    hub.TaskPushNotificationConfig, *_MEMBERS, Member("taskId", later=True), Member("tenant", later=True)
)
TASK_CONFIG = inline(
    hub.TaskPushNotificationConfig,
    Member("taskId", always=True),
    Member("pushNotificationConfig", CONFIG, flat=True, always=True, required=True),
    Member("tenant", later=True),
)

encode_push_config = TASK_CONFIG.encode
read_push_config = partial(read_inline, TASK_CONFIG)


def decode_push_config(tree: Json) -> hub.TaskPushNotificationConfig:
    """{taskId, pushNotificationConfig} → hub. Raises DecodeError."""
    config: hub.TaskPushNotificationConfig = decode_inline(TASK_CONFIG, tree)
    return config


def irregularities(tree: Json, canonical: Json) -> str:
    """The content of a tree beyond its canonical form, as ASCII JSON; empty if none. Raises TooLargeError."""
    entries = unmapped.difference(canonical, tree)
    if not entries:
        return ""
    text = unmapped.write(KIND, entries)
    if len(text) > MOST_SIDE_CHANNEL:
        raise TooLargeError(f"holds more than {MOST_SIDE_CHANNEL} bytes that A2A 1.0 has no place for")
    return text


#: several schemes: both shapes of 0.x have them at the same place in a configuration, 1.0 has only one
_SCHEMES = "/pushNotificationConfig/authentication/schemes"


def schemes_told(text: object, source: str) -> list[unmapped.Entry]:
    """The entries about schemes from the other shape of 0.x, which this shape can express too."""
    return [entry for entry in unmapped.read(text, source) or () if entry[0].startswith(_SCHEMES)]


def with_push_config(tree: JsonObject, text: str) -> JsonObject:
    """A canonical tree with the content of the text restored. Changes it in place."""
    made: JsonObject = unmapped.restore(tree, unmapped.read(text, KIND) or schemes_told(text, PROTO))
    return made


def side_channel(text: str) -> Mapping[str, str]:
    """The service parameters with the content that the hub cannot hold."""
    return {SIDE_CHANNEL: text} if text else {}


def checked_side_channel(tree: Json, canonical: Json) -> Mapping[str, str]:
    """The same for a tree and its canonical form. Raises INVALID_PARAMS if it is too large."""
    try:
        return side_channel(irregularities(tree, canonical))
    except TooLargeError as error:
        raise invalid_params("", str(error)) from None
