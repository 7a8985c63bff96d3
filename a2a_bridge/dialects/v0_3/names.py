"""Resource names of a2a.v1 (`tasks/{id}`, `tasks/{id}/pushNotificationConfigs/{id}`) ↔ ids. No messages here.

Rules:
1. A name is matched as a whole: `tasks/a/b` is an error and never the task `a`.
2. A segment encodes "/" as %2F, and the "%" of a literal %2F or %25 as %25. Nothing else is changed, so that
   ids with other characters read the same for peers that do not decode segments. Reading is the exact
   inverse.
3. A parent is `tasks/{id}`. The collection itself is also accepted, and `task` for `tasks`, as A2A 0.3.0 and
   0.2.5 misspell it in the HTTP rule of CreateTaskPushNotificationConfig.
4. A configuration without an id has an empty last segment; a peer in the field writes `None` there.
"""

from __future__ import annotations

import re

from a2a_bridge.core.errors import A2AError, invalid_params

_ESCAPED = re.compile(r"%(2[Ff]|25)")
_TO_ESCAPE = re.compile(r"/|%(?=2[Ff]|25)")

_TASK = re.compile(r"tasks/([^/]+)")
_PARENT = re.compile(r"tasks?/([^/]+)(?:/pushNotificationConfigs/?)?")
_CONFIG = re.compile(r"tasks/([^/]+)/pushNotificationConfigs(?:/([^/]*))?")


def encode_segment(identifier: str) -> str:
    """An id as one segment of a name."""
    if "/" not in identifier and "%" not in identifier:
        return identifier
    return _TO_ESCAPE.sub(lambda match: "%2F" if match[0] == "/" else "%25", identifier)


def decode_segment(segment: str) -> str:
    """The id in a segment."""
    if "%" not in segment:
        return segment
    return _ESCAPED.sub(lambda match: "%" if match[1] == "25" else "/", segment)


def encode_task(task_id: str) -> str:
    """The name of a task; empty if there is no id, since no name expresses that."""
    return f"tasks/{encode_segment(task_id)}" if task_id else ""


def decode_task(name: str) -> str:
    """The task id in the field `name`. Raises INVALID_PARAMS."""
    match = _TASK.fullmatch(name)
    if match is None:
        raise _unreadable("name", name, "tasks/{id}")
    return decode_segment(match[1])


def decode_parent(name: str) -> str:
    """The id of the task that owns configurations, in the field `parent`. Raises INVALID_PARAMS."""
    match = _PARENT.fullmatch(name)
    if match is None:
        raise _unreadable("parent", name, "tasks/{id}")
    return decode_segment(match[1])


def encode_config(task_id: str, config_id: str) -> str:
    """The name of a push notification configuration; empty if it has no task."""
    if not task_id:
        return ""
    return f"tasks/{encode_segment(task_id)}/pushNotificationConfigs/{encode_segment(config_id)}"


def decode_config(name: str, field: str = "name") -> tuple[str, str]:
    """The ids of the task and of the configuration; the second may be empty.

    Raises INVALID_PARAMS that names the field.
    """
    match = _CONFIG.fullmatch(name)
    if match is None:
        raise _unreadable(field, name, "tasks/{id}/pushNotificationConfigs/{id}")
    return decode_segment(match[1]), decode_segment(match[2] or "")


def decode_whole_config(name: str) -> tuple[str, str]:
    """As decode_config, but both ids are required, because the request is about one configuration."""
    task_id, config_id = decode_config(name)
    if not config_id:
        raise _unreadable("name", name, "tasks/{id}/pushNotificationConfigs/{id}")
    return task_id, config_id


def _unreadable(field: str, name: str, expected: str) -> A2AError:
    return invalid_params(field, f"is not a name such as {expected}" if name else "is required")
