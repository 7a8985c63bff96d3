"""A push notification as one HTTP request, in the version of its receiver, and its signature. Sends nothing.

Rules:
1. The token is sent under both names in use, and `Authorization` whenever there are credentials (spec 4.3.2
   of 0.3, 4.3.3 of 1.0): receivers of every version know one of them.
2. A config whose values cannot stand in a header, are too long, or are no http(s) URL is not registered.
3. Two kinds of signatures prove sender and content; delivery requires neither. With keys of the operator
   (`Signer`): a JWT whose public key is in the published JWKS. It contains the digest of the body as
   `request_body_sha256`, and its `jti` is the id of the notification, so a receiver can detect repetitions.
   It is sent in SIGNATURE_HEADER, and as a Bearer token if the config has no credentials. Several keys are a
   rotation: the first signs, all are published.
4. With a secret of the receiver (a token that begins with `whsec_`): the HMAC of Standard Webhooks. That
   secret is then not sent.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from a2a_bridge.bindings.places import place_of
from a2a_bridge.codec import JsonObject, JsonSyntaxError
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.extras import load
from a2a_bridge.dialects import KNOWN, by_version
from a2a_bridge.dialects.dialect import PushForm
from a2a_bridge.dialects.signed_extras import dumps, loads
from a2a_bridge.dialects.v1_0 import forms as newest
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.signing.keys import SMALLEST_RSA, key_set, signing_key

_PAYLOADS = ("task", "message", "statusUpdate", "artifactUpdate")
#: The names of the token's header. No specification has a name; the SDKs for Python, Java and Go 0.3 send the
#: first,
#: those for Go 2 and Rust the second (a2asrv/push/sender.go, a2a-server-lf src/push.rs).
TOKEN_HEADERS = ("X-A2A-Notification-Token", "A2A-Notification-Token")


#: renames the task of an event, for versions in which callers name their tasks
Named = Callable[[hub.StreamResponse], hub.StreamResponse]
#: the same per version and scope
Names = Mapping[str, Callable[[Scope, hub.StreamResponse], hub.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Notification:
    """An HTTP POST."""

    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    #: the secret that signs it, if the receiver has given a secret
    secret: bytes | None = field(default=None, repr=False)


def form_of(version: str) -> PushForm:
    """The notification format of a version; that of 1.0 for a version that is unknown or has none."""
    dialect = by_version(version) if version else None
    form = dialect.push if dialect is not None else None
    return form or newest.PUSH_FORM


def notification(
    config: hub.TaskPushNotificationConfig,
    event: hub.StreamResponse,
    task: hub.Task | None,
    version: str,
    named: Named | None = None,
) -> Notification:
    """The request for a config and an event. task: the task after the event, for versions with whole tasks as
    notifications; None: it is made from the event's content. named: renames the event for its receiver.
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


def find_named(names: Names, version: str, scope: Scope) -> Named | None:
    """The renaming for receivers of a version and scope; None if they use the normal ids."""
    found = names.get(version)
    return None if found is None else partial(found, scope)


def read(body: bytes, version: str = "") -> hub.StreamResponse:
    """The event in a notification. Raises PARSE_ERROR, INVALID_PARAMS. version: of the agent, used only for
    notifications not in the format of 1.0; unless given, 0.3.
    """
    try:
        tree = loads(body)
    except JsonSyntaxError:
        raise A2AError(Reason.PARSE_ERROR, "the notification is not JSON") from None
    if not isinstance(tree, dict):
        raise invalid_params("", "a notification is a JSON object")
    return _form_by_shape(tree, version).decode(tree)


def _form_by_shape(tree: JsonObject, version: str) -> PushForm:
    """1.0 wraps the payload in a member with its name; older versions send it directly, with its `kind`."""
    if "kind" in tree or not any(name in tree for name in _PAYLOADS):
        for form in (form_of(version), *(dialect.push for dialect in KNOWN)):
            if form is not None and form.whole_tasks:
                return form
    return form_of("")


def task_of(event: hub.StreamResponse) -> hub.Task:
    """A task with the content of an update."""
    if event.HasField("artifact_update"):
        piece = event.artifact_update
        task = hub.Task(id=piece.task_id, context_id=piece.context_id, artifacts=[piece.artifact])
        task.status.state = hub.TASK_STATE_WORKING
        return task
    update = event.status_update
    return hub.Task(id=update.task_id, context_id=update.context_id, status=update.status)


def deliverable(config: hub.TaskPushNotificationConfig) -> A2AError | None:
    """Why a config cannot receive notifications: INVALID_PARAMS with the member at fault; None if it can."""
    if problem := _url_problem(config.url):
        return invalid_params("url", problem)
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


def _url_problem(url: str) -> str:
    """Why nothing can be posted to a URL; empty if it can be."""
    if not url.lower().startswith(("http://", "https://")):
        return "is not an http or https URL"
    # Some parsers take a backslash as a slash, others as a part of the host.
    if "\\" in url or " " in url or not url.isprintable():
        return "has a backslash, a blank or a control character"
    place = place_of(url)
    if place is None:
        return "is not a valid URL: its host or its port cannot be read"
    if place.has_user:
        return "has a user, which would be a second Authorization: credentials go into `authentication`"
    return ""


SIGNATURE_HEADER = "X-A2A-Notification-Signature"
SECRET_PREFIX = "whsec_"  # noqa: S105  only the prefix

#: seconds for which a signature is valid
LIFETIME = 300


class Signer:
    """Signs with private keys, each as PEM or JWK: EC P-256 or P-384, or RSA. issuer: the `iss` of tokens.
    now: seconds since the epoch. Raises ValueError for other keys, MissingExtraError without `joserfc`.
    """

    def __init__(self, keys: Sequence[str], issuer: str, *, now: Callable[[], float] = time.time) -> None:
        if not keys:
            raise ValueError("signing needs a key")
        # An extra, and slow to import: only needed for signing.
        self._jwt: Any = load("joserfc.jwt", "signing")
        accepted = "a key to sign with", "RSA", f"EC P-256, EC P-384, or RSA of {SMALLEST_RSA} bits"
        self._keys = [signing_key(text, *accepted) for text in keys]
        self._issuer = issuer
        self._now = now

    def sign(self, body: bytes, audience: str, webhook_id: str, task_id: str) -> str:
        """A JWT about a body. audience: its receiver."""
        key, algorithm, kid = self._keys[0]
        now = int(self._now())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": webhook_id,
            "taskId": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        signed: str = self._jwt.encode({"alg": algorithm, "kid": kid}, claims, key, algorithms=[algorithm])
        return signed

    def jwks(self) -> bytes:
        """The JSON Web Key Set for verification."""
        return key_set(self._keys)


def secret_of(token: str) -> bytes | None:
    """The signing secret in a token; None if the token is no secret."""
    if not token.startswith(SECRET_PREFIX):
        return None
    try:
        return base64.b64decode(token[len(SECRET_PREFIX) :], validate=True) or None
    except ValueError:
        return None


def standard_signature(secret: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature` in Standard Webhooks."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
