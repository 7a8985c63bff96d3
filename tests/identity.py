"""Identity of meaning, by the table in docs/explanation/versions.md: equal content, and content that may change."""

from typing import Any

from a2a_bridge.codec import values

#: members of every message of 0.x: they are written if a peer left them out
_REQUIRED = frozenset(
    {
        "acceptedOutputModes", "artifactId", "blocking", "contextId", "data", "final", "id", "kind", "messageId", "parts", "role", "schemes", "status",
        "state", "taskId", "text", "uri", "url", "historyLength", "pushNotificationConfigId",
    }
)  # fmt: skip
_FREE = frozenset({"metadata"})


def says(found: Any, given: Any) -> bool:
    """Whether one JSON tree has exactly the content of another one."""
    return _says(found, given, free=False)


def _says(found: Any, given: Any, *, free: bool, name: str = "") -> bool:
    if isinstance(given, dict):
        return isinstance(found, dict) and _object(found, given, free=free)
    if isinstance(given, list):
        return (
            isinstance(found, list)
            and len(found) == len(given)
            and all(_says(one, other, free=free) for one, other in zip(found, given, strict=True))
        )
    if isinstance(given, bool) or isinstance(found, bool) or given is None:
        return found is given
    if isinstance(given, str):
        return found == given or (not free and _variant(found, name) == _variant(given, name))
    if isinstance(given, float):
        return isinstance(found, int | float) and float(found) == float(given)
    # `codec.loads` reads other integers as doubles.
    return isinstance(found, int | float) and found == (given if -(2**63) <= given < 2**64 else float(given))


def _object(found: dict[str, Any], given: dict[str, Any], *, free: bool) -> bool:
    if not free:
        given = {_usual_name(name, one, given, found): one for name, one in given.items()}
    for name, value in given.items():
        inner = free or name in _FREE or (name == "data" and given.get("kind") == "data")
        if value is None and not free:
            if found.get(name) is not None and name not in _REQUIRED:
                return False
        elif name not in found or not _says(found[name], value, free=inner, name=name):
            return False
    more = found.keys() - given.keys()
    return not more if free else more <= _REQUIRED | {"type"}


def _usual_name(name: str, value: Any, given: dict[str, Any], found: dict[str, Any]) -> str:
    """The standard name of a member with another name in examples of 0.2."""
    if name in found:
        return name
    if name == "type" and "kind" not in given and value in ("text", "file", "data"):
        return "kind"
    return "bytes" if name == "data" and isinstance(value, str) and "kind" not in given else name


def _variant(text: Any, name: str) -> Any:
    """A text with the variant of base64 and of times taken out."""
    if not isinstance(text, str):
        return text
    if name == "timestamp":
        stamp = values.lenient_timestamp(text)
        return text if stamp is None else values.timestamp_text(stamp)
    if name == "bytes":
        try:
            return values.base64_wire(text)
        except ValueError:
            return text
    return "canceled" if name == "state" and text == "cancelled" else text
