"""HTTP headers ↔ service parameters, deadlines and versions included. Pure: the clock is an argument.

Rules:
1. Names are lower-case on the hub side; over HTTP case means nothing.
2. What could end a header early (CR, LF, NUL) or is no header text is refused, never cleaned up.
3. Headers that frame the message are the transport's own and never come from parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol
from urllib.parse import parse_qsl

from a2a_bridge.bindings import DialOptions
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, VERSION_PARAMETER, CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge_transports._http.exchange import Headers, Refusal

DEADLINE = "Request-Timeout"

#: what the transport says itself
FRAMING = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "request-timeout",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_SPELLING = {VERSION_PARAMETER: "A2A-Version", EXTENSIONS_PARAMETER: "A2A-Extensions"}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


class MultiHeaders(Protocol):
    """Case-insensitive headers that can hold a name several times, as multidict has them."""

    def getall(self, key: str, default: list[str], /) -> list[str]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...


class HeaderParameters(Mapping[str, str]):
    """Headers seen as service parameters, without copying them."""

    __slots__ = ("_headers",)

    def __init__(self, headers: MultiHeaders) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        values = self._headers.getall(name, [])
        if not values:
            raise KeyError(name)
        return values[0] if len(values) == 1 else ",".join(values)

    def __contains__(self, name: object) -> bool:
        return name in self._headers

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name in self._headers))

    def __len__(self) -> int:
        return len({name.lower() for name in self._headers})


def declared_version(headers: Mapping[str, str], query: str) -> str | None:
    """The A2A-Version header, or else the query parameter of that name in any case (spec 3.6.1)."""
    declared = headers.get("A2A-Version")
    if declared or not query or "=" not in query:
        return declared
    for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=None):
        if name.lower() == VERSION_PARAMETER:
            return value
    return declared


def deadline_of(headers: Mapping[str, str], now: float) -> float | None:
    """When the caller stops waiting, on the clock of `now`. Raises INVALID_REQUEST for what is no number."""
    text = headers.get(DEADLINE)
    if text is None:
        return None
    if not _SECONDS.fullmatch(text.strip()):
        raise A2AError(Reason.INVALID_REQUEST, f"{DEADLINE} is a decimal number of seconds")
    return now + float(text)


def check_encoding(headers: Mapping[str, str]) -> None:
    """Raises Refusal 415 for a compressed body: nobody sends one, and refusing ends every kind of bomb."""
    coding = headers.get("Content-Encoding")
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        raise Refusal(
            415,
            Reason.CONTENT_TYPE_NOT_SUPPORTED,
            "bodies are read without Content-Encoding only",
            (("Accept-Encoding", "identity"),),
        )


def is_json(content_type: str) -> bool:
    """Whether a media type is JSON: application/json, application/a2a+json and the like, parameters aside."""
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


_KNOWN_TYPES = frozenset({"application/json", "application/a2a+json", "application/json; charset=utf-8"})


def check_content_type(headers: Mapping[str, str]) -> None:
    """Raises Refusal 415 unless the body claims to be JSON or claims nothing.

    text/plain and forms are refused on purpose: browsers send those across origins without asking first.
    """
    content_type = headers.get("Content-Type")
    if not content_type or content_type in _KNOWN_TYPES or is_json(content_type):
        return
    raise Refusal(
        415,
        Reason.CONTENT_TYPE_NOT_SUPPORTED,
        "the body has to be application/json or application/a2a+json",
    )


def reply_headers(parameters: Mapping[str, str]) -> Headers:
    """Response parameters as headers. Raises ValueError for a name or value that is none, or that frames."""
    found = []
    for name, value in parameters.items():
        if not _NAME.fullmatch(name) or name.lower() in FRAMING or not is_value(value):
            raise ValueError(f"{name!r} cannot be sent as a response header")
        found.append((_SPELLING.get(name.lower(), name), value))
    return tuple(found)


def is_value(value: str) -> bool:
    """Whether a text can be a header's value as it is."""
    return bool(_VALUE.fullmatch(value)) and not _SURROGATE.search(value)


def request_headers(version: str, context: CallContext, options: DialOptions, now: float) -> dict[str, str]:
    """The headers of an outgoing call: version, extensions, deadline, forwarded and own parameters.

    Raises INVALID_PARAMS for a parameter that no header can hold.
    """
    headers: dict[str, str] = {}
    parameters = context.parameters
    if parameters:
        for name in options.forward:
            value = parameters.get(name)
            if value is not None:
                headers[name] = value
        declared = parameters.get(EXTENSIONS_PARAMETER)
        if declared:
            headers[EXTENSIONS_PARAMETER] = declared
    headers.update(options.parameters)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not is_value(value):
            raise invalid_params(name, "is not a parameter that a header can hold")
    if not FRAMING.isdisjoint(headers):
        headers = {name: value for name, value in headers.items() if name not in FRAMING}
    headers["A2A-Version"] = version
    headers.pop(VERSION_PARAMETER, None)
    if context.deadline is not None:
        headers[DEADLINE] = f"{max(context.deadline - now, 0.0):.6f}"
    return headers


def response_parameters(headers: Mapping[str, str]) -> dict[str, str]:
    """What a peer's response says to the caller: the extensions it activated (spec 3.2.6)."""
    extensions = headers.get("A2A-Extensions")
    return {EXTENSIONS_PARAMETER: extensions} if extensions else {}
