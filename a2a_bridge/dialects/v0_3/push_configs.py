"""Push notification configurations, `kind` shape ↔ hub (spec 0.3.0, 6.8 to 6.10). Not the requests about them.

Rules:
1. 0.3 nests the configuration beside the task's id, the hub has one flat message.
2. 0.3 lists authentication schemes, the hub has one: the first that fits (Bearer, then Basic, then the first at
   all). An empty list is no authentication for the hub, where a scheme is required.
3. Neither side has metadata here. What the hub cannot hold is told by `aside`, for who remembers it (bindings, the
   gateway), and `recall` puts it back. What 0.3 has no name for are further members with the hub's names.
"""

from __future__ import annotations

from collections.abc import Mapping

from a2a_bridge.codec import DecodeError, Json, JsonObject
from a2a_bridge.codec.values import describe
from a2a_bridge.core.call import ASIDE_PARAMETER
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects import unmapped
from a2a_bridge.dialects.irregular import Reader
from a2a_bridge.dialects.unmapped import KIND, PROTO
from a2a_bridge.pb import lf_a2a_v1 as hub

MOST_ASIDE = 4096
"""Characters told aside, at most: they travel as a header."""


class TooLargeError(ValueError):
    """More would travel beside a message than a header holds."""


_PREFERRED = ("bearer", "basic")


def decode_push_config(tree: Json) -> hub.TaskPushNotificationConfig:
    """{taskId, pushNotificationConfig} → hub. Raises DecodeError."""
    reader = read_push_config(tree)
    if reader.problems:
        raise DecodeError.of(reader.problems)
    return _message(reader.tree)


def encode_push_config(config: hub.TaskPushNotificationConfig) -> JsonObject:
    """The reverse."""
    tree: JsonObject = {"taskId": config.task_id, "pushNotificationConfig": encode_inner(config)}
    if config.tenant:
        tree["tenant"] = config.tenant
    return tree


def decode_inner(tree: JsonObject) -> hub.TaskPushNotificationConfig:
    """A canonical {url, id, token, authentication}, without a task's id unless it has one → hub."""
    config = hub.TaskPushNotificationConfig(
        url=tree["url"],
        id=tree.get("id", ""),
        token=tree.get("token", ""),
        task_id=tree.get("taskId", ""),
        tenant=tree.get("tenant", ""),
    )
    authentication = tree.get("authentication")
    if authentication is not None:
        config.authentication.scheme = authentication["schemes"][0]
        config.authentication.credentials = authentication.get("credentials", "")
    return config


def encode_inner(config: hub.TaskPushNotificationConfig) -> JsonObject:
    """The reverse, leaving the task's id and the tenant to the caller."""
    tree: JsonObject = {"url": config.url}
    if config.id:
        tree["id"] = config.id
    if config.token:
        tree["token"] = config.token
    if config.HasField("authentication"):
        authentication: JsonObject = {"schemes": [config.authentication.scheme]}
        if config.authentication.credentials:
            authentication["credentials"] = config.authentication.credentials
        tree["authentication"] = authentication
    return tree


def read_push_config(tree: Json, path: str = "") -> Reader:
    """Reads {taskId, pushNotificationConfig}."""
    if type(tree) is not dict:
        reader = Reader({}, path)
        reader.wrong("", f"expected an object, got {describe(tree)}")
        return reader
    reader = Reader(tree, path)
    reader.string("taskId", required=True)
    reader.later("tenant")
    given = reader.object("pushNotificationConfig")
    if given is None:
        if tree.get("pushNotificationConfig") is None:
            reader.wrong("pushNotificationConfig", "is required")
        return reader
    inner = Reader(given, f"{path}.pushNotificationConfig" if path else "pushNotificationConfig")
    read_inner(inner)
    reader.tree["pushNotificationConfig"] = reader.within(inner)
    return reader


def read_inner(reader: Reader) -> None:
    """Reads {url, id, token, authentication}."""
    if reader.given.get("url") is None:
        reader.wrong("url", "is required")
    reader.string("url", required=True)
    reader.string("id")
    reader.string("token")
    given = reader.object("authentication")
    if given is None:
        return
    path = f"{reader.path}.authentication" if reader.path else "authentication"
    authentication = Reader(given, path)
    authentication.strings("schemes")
    authentication.string("credentials")
    found = reader.within(authentication)
    schemes = found.get("schemes")
    if schemes:
        found["schemes"] = [_scheme(schemes)]
        reader.tree["authentication"] = found


def irregularities(tree: Json, canonical: Json) -> str:
    """What a tree says beyond its canonical form, as ASCII JSON; empty for nothing. Raises TooLargeError."""
    entries = unmapped.difference(canonical, tree)
    if not entries:
        return ""
    text = unmapped.write(KIND, entries)
    if len(text) > MOST_ASIDE:
        raise TooLargeError(f"holds more than {MOST_ASIDE} bytes that A2A 1.0 has no place for")
    return text


#: several schemes are what both shapes of 0.x can say of a configuration and 1.0 cannot, at the same place
_SCHEMES = "/pushNotificationConfig/authentication/schemes"


def schemes_told(text: object, source: str) -> list[unmapped.Entry]:
    """What the other shape of 0.x told of the schemes of a configuration, which this one can say too."""
    return [entry for entry in unmapped.read(text, source) or () if entry[0].startswith(_SCHEMES)]


def with_push_config(tree: JsonObject, text: str) -> JsonObject:
    """A canonical tree with that in it again. Changes it in place."""
    made: JsonObject = unmapped.restore(tree, unmapped.read(text, KIND) or schemes_told(text, PROTO))
    return made


def aside(text: str) -> Mapping[str, str]:
    """The service parameters that tell what the hub cannot hold."""
    return {ASIDE_PARAMETER: text} if text else {}


def check_aside(tree: Json, canonical: Json) -> Mapping[str, str]:
    """The same for a tree and its canonical form. Raises INVALID_PARAMS for what is too much."""
    try:
        return aside(irregularities(tree, canonical))
    except TooLargeError as error:
        raise invalid_params("", str(error)) from None


def _message(tree: JsonObject) -> hub.TaskPushNotificationConfig:
    config = decode_inner(tree["pushNotificationConfig"])
    config.task_id = tree["taskId"]
    config.tenant = tree.get("tenant", "")
    return config


def _scheme(schemes: list[str]) -> str:
    for wanted in _PREFERRED:
        for scheme in schemes:
            if scheme.lower() == wanted:
                return scheme
    return schemes[0]
