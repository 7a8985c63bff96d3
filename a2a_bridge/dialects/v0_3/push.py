"""Push notifications of 0.3 and 0.2 (spec 0.3.0, 9.5) and their configurations, `kind` shape ↔ hub (6.8 to
6.10). Not the requests about configurations, nor the headers of a notification, which versions share.

Rules for configurations:
1. 0.3 nests the configuration beside the id of the task, the hub has one flat message.
2. 0.3 lists authentication schemes, the hub has one: the first suitable one (Bearer, then Basic, then the
   first of all). An empty list is no authentication for the hub, where a scheme is required.
3. Neither side has metadata here: content that the hub cannot hold travels beside it (see `side_channel`).
   Content without a name in 0.3 is written as further members with the names of the hub.

A notification holds the current task, whatever the event. Those versions do not define the body strictly, so
the decoder accepts more than the encoder writes: any event of theirs, and the StreamResponse of 1.0, which
newer SDKs also send under the name of an older version.
"""

from collections.abc import Sequence
from typing import Any

from a2a_bridge.codec import JsonObject
from a2a_bridge.dialects.boundary import Conversion, UnknownKindError, request_decoder, response_encoder
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.shape import inline
from a2a_bridge.dialects.v0_3.shapes import EVENT, kind_of
from a2a_bridge.dialects.v1_0 import forms as newer
from a2a_bridge.pb import lf_a2a_v1 as hub

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
#: a configuration within TASK_CONFIG
CONFIG = inline(hub.TaskPushNotificationConfig, *_MEMBERS, elsewhere=("taskId", "tenant"))
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


#: the task; without one, the event itself
_encode: Any = response_encoder(hub.StreamResponse, EVENT.encode)


def _read_event(tree: Any) -> Any:
    """An event; an empty one for a kind that is not known here, as in a stream."""
    try:
        return EVENT.decode(tree)
    except UnknownKindError:
        if not isinstance(tree.get("kind"), str):
            raise
        return hub.StreamResponse()


_decode_event = request_decoder(Conversion(EVENT.encode, _read_event))


def _decode(tree: JsonObject) -> hub.StreamResponse:
    """Raises INVALID_PARAMS naming the members at fault."""
    if kind_of(tree) is None and "kind" not in tree:
        return newer.PUSH_FORM.decode(tree)
    event: hub.StreamResponse = _decode_event(tree)
    return event


FORM = PushForm("application/json", _encode, _decode, whole_tasks=True)
