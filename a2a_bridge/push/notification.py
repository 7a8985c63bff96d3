"""A push notification as one HTTP request, in the version of whoever registered for it. It sends nothing.

Rules:
1. The token under both names in use, `Authorization` whenever there are credentials (spec 4.3.2 of 0.3, 4.3.3
   of 1.0): receivers of every version know one of them. A token that is a secret to sign with is not sent.
2. What cannot stand in a header, is too long or is no http(s) URL is refused when a config is registered, not
   when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from a2a_bridge.codec import JsonObject, JsonSyntaxError
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.scope import Scope
from a2a_bridge.dialects import KNOWN, V1_0, by_version
from a2a_bridge.dialects.carrying import dumps, loads
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.signing import secret_of

_PAYLOADS = ("task", "message", "statusUpdate", "artifactUpdate")
#: The names of the token's header. No specification names one; the SDKs for Python, Java and Go 0.3 send the
#: first,
#: those for Go 2 and Rust the second (a2asrv/push/sender.go, a2a-server-lf src/push.rs).
TOKEN_HEADERS = ("X-A2A-Notification-Token", "A2A-Notification-Token")


#: an event as somebody knows it: versions in which callers name their tasks need that
Named = Callable[[hub.StreamResponse], hub.StreamResponse]
#: the same per version and scope
Names = Mapping[str, Callable[[Scope, hub.StreamResponse], hub.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Notification:
    """An HTTP POST. secret: to sign it with, where the receiver has given one."""

    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    secret: bytes | None = field(default=None, repr=False)


def form_of(version: str) -> PushForm:
    """How a version spells notifications; how 1.0 does for one that is not known or has no form."""
    dialect = by_version(version) if version else None
    form = dialect.push if dialect is not None else None
    if form is None:
        form = V1_0.push
    if form is None:
        raise LookupError("1.0 has a form for push notifications")
    return form


def notification(
    config: hub.TaskPushNotificationConfig,
    event: hub.StreamResponse,
    task: hub.Task | None,
    version: str,
    named: Named | None = None,
) -> Notification:
    """What to send to a config because of an event.

    task: the task after the event, for versions whose notifications are whole tasks. Where nobody knows it,
    None: then it is made of what the event tells. named: gives the event with the names its receiver knows.
    """
    form = form_of(version)
    if form.whole_tasks and not event.HasField("task") and not event.HasField("message"):
        event = hub.StreamResponse(task=task if task is not None else task_of(event))
    if named is not None:
        event = named(event)
    headers = {"Content-Type": form.media_type}
    secret = secret_of(config.token)
    if config.token and secret is None:
        headers.update(dict.fromkeys(TOKEN_HEADERS, config.token))
    login = config.authentication
    if login.scheme and login.credentials:
        headers["Authorization"] = f"{login.scheme} {login.credentials}"
    return Notification(config.url, headers, dumps(form.encode(event)), secret)


def named_in(names: Names, version: str, scope: Scope) -> Named | None:
    """How receivers of a version and scope know tasks; None when as everybody does."""
    found = names.get(version)
    return None if found is None else partial(found, scope)


def read(body: bytes, version: str = "") -> hub.StreamResponse:
    """What a notification says. Raises PARSE_ERROR, INVALID_PARAMS.

    version: of the agent, which matters only if it is no 1.0 notification; 0.3 unless that says otherwise.
    """
    try:
        tree = loads(body)
    except JsonSyntaxError:
        raise A2AError(Reason.PARSE_ERROR, "the notification is not JSON") from None
    if not isinstance(tree, dict):
        raise invalid_params("", "a notification is a JSON object")
    form = _form_by_shape(tree, version)
    return form.decode(tree)


def _form_by_shape(tree: JsonObject, version: str) -> PushForm:
    """1.0 names the payload by its member; older versions put it there as it is, with its `kind`."""
    if "kind" in tree or not any(name in tree for name in _PAYLOADS):
        for form in (form_of(version), *(dialect.push for dialect in KNOWN)):
            if form is not None and form.whole_tasks:
                return form
    return form_of("")


def task_of(event: hub.StreamResponse) -> hub.Task:
    """A task of what an update tells about it."""
    if event.HasField("artifact_update"):
        piece = event.artifact_update
        task = hub.Task(id=piece.task_id, context_id=piece.context_id, artifacts=[piece.artifact])
        task.status.state = hub.TASK_STATE_WORKING
        return task
    update = event.status_update
    return hub.Task(id=update.task_id, context_id=update.context_id, status=update.status)


def deliverable(config: hub.TaskPushNotificationConfig) -> A2AError | None:
    """Why nothing can be sent to a config: INVALID_PARAMS naming the member at fault; None when it can."""
    try:
        parts = urlsplit(config.url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fine = fine and parts.username is None  # which would be a second Authorization
        # A backslash is a slash to some, and a part of the host to others.
        fine = fine and "\\" not in config.url
    except ValueError:
        fine = False
    if not fine or not config.url.isprintable() or " " in config.url:
        return invalid_params("url", "is not an http or https URL")
    login = config.authentication
    for name, text, most in (
        ("url", config.url, 2048),
        ("id", config.id, 512),
        ("token", config.token, 4096),
        ("authentication.scheme", login.scheme, 64),
        ("authentication.credentials", login.credentials, 8192),
    ):
        if len(text) > most:
            return invalid_params(name, f"is longer than {most} characters")
        if name in ("url", "id"):
            continue
        if not text.isascii() or (text and not text.isprintable()):
            return invalid_params(name, "cannot stand in an HTTP header")
    return None
