"""Names of members in errors of requests: those of the hub ↔ those of the two shapes of 0.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.dialect import MemberNames, Rule, renaming

#: members of the hub's configuration, which 0.x nests
_OF_CONFIG = r"^(?=(?:id|url|token|authentication)\b)"
_INLINE = "configuration.taskPushNotificationConfig"
_ENCODE_SCHEMES: Rule = (r"\bauthentication\.scheme$", "authentication.schemes")
_DECODE_SCHEMES: Rule = (r"\bauthentication\.schemes$", "authentication.scheme")

#: MessageSendParams
ENCODE_KIND: tuple[Rule, ...] = (
    (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotificationConfig"),
    _ENCODE_SCHEMES,
)
DECODE_KIND: tuple[Rule, ...] = (
    (r"^configuration\.pushNotificationConfig\b", _INLINE),
    _DECODE_SCHEMES,
)
_KIND = MemberNames(renaming(*ENCODE_KIND), renaming(*DECODE_KIND))
#: SendMessageRequest of a2a.v1
_PROTO = MemberNames(
    renaming(
        (r"^message\.parts(\[\d+\])\.data\b", r"message.content\1.data.data"),
        (r"^message\.parts\b", "message.content"),
        (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotification"),
        _ENCODE_SCHEMES,
    ),
    renaming(
        (r"^message\.content(\[\d+\])\.data\.data\b", r"message.parts\1.data"),
        (r"^message\.content\b", "message.parts"),
        (r"^configuration\.pushNotification\b", _INLINE),
        _DECODE_SCHEMES,
    ),
)


def _by_operation(send: MemberNames, config: str) -> Mapping[ops.Operation[Any, Any], MemberNames]:
    """config: the path of the configuration in a request to create one."""
    nested = config.replace(".", r"\.")
    created = MemberNames(
        renaming((_OF_CONFIG, f"{config}."), _ENCODE_SCHEMES),
        renaming((rf"^{nested}\.", ""), _DECODE_SCHEMES),
    )
    return {ops.SEND_MESSAGE: send, ops.SEND_STREAMING_MESSAGE: send, ops.CREATE_PUSH_CONFIG: created}


#: the shape of JSON-RPC
KIND = _by_operation(_KIND, "pushNotificationConfig")
#: a2a.v1
PROTO = _by_operation(_PROTO, "config.pushNotificationConfig")
