"""Names of members in errors of requests: those of the hub → those of the two shapes of 0.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.member_names import Rename, Rule, renaming

_SCHEMES: Rule = (r"\bauthentication\.scheme$", "authentication.schemes")
#: members of the hub's configuration, which 0.x nests
_OF_CONFIG = r"^(?=(?:id|url|token|authentication)\b)"

#: MessageSendParams
KIND_SEND: tuple[Rule, ...] = (
    (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotificationConfig"),
    _SCHEMES,
)
_PROTO_SEND: tuple[Rule, ...] = (
    (r"^message\.parts(\[\d+\])\.data\b", r"message.content\1.data.data"),
    (r"^message\.parts\b", "message.content"),
    (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotification"),
    _SCHEMES,
)


def _by_operation(send: tuple[Rule, ...], config: str) -> Mapping[ops.Operation[Any, Any], Rename]:
    sent = renaming(*send)
    return {
        ops.SEND_MESSAGE: sent,
        ops.SEND_STREAMING_MESSAGE: sent,
        ops.CREATE_PUSH_CONFIG: renaming((_OF_CONFIG, f"{config}."), _SCHEMES),
    }


#: the shape of JSON-RPC
KIND = _by_operation(KIND_SEND, "pushNotificationConfig")
#: a2a.v1
PROTO = _by_operation(_PROTO_SEND, "config.pushNotificationConfig")
