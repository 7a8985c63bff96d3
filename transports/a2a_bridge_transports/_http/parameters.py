"""HTTP headers ↔ service parameters, deadlines and versions included. Pure: the clock is an argument.

Rules:
1. Names are lower-case on the hub side; HTTP ignores case.
2. Values that could end a header early (CR, LF, NUL) or are no header text are rejected, never repaired.
3. Headers that frame the message belong to the transport and never come from parameters.
4. The URL of a request as its client sees it comes from the Host header and the headers of trusted proxies.
"""

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from multidict import MultiMapping, istr

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.addresses import is_address
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    LEFT_OUT_PARAMETER,
    RESUME_PARAMETER,
    VERSION_PARAMETER,
    CallContext,
    Joined,
)
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.core.masking import HEADER_NAME
from a2a_bridge.core.resume import GAP
from a2a_bridge.dialects import Dialect
from a2a_bridge.dialects.dialect import OLDER_EXTENSIONS, merge
from a2a_bridge_transports._http.exchange import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    DEADLINE,
    SIDE_CHANNEL,
    VERSION,
    Headers,
    HttpStatusError,
)

#: headers that the transport sets itself
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
_VARIANT = {
    VERSION_PARAMETER: "A2A-Version",
    EXTENSIONS_PARAMETER: "A2A-Extensions",
    OLDER_EXTENSIONS: "X-A2A-Extensions",
    RESUME_PARAMETER: "A2A-Resume",
}
#: the names of response parameters: looking for an istr takes a third of the time
_EXTENSIONS, _OLDER, _LEFT_OUT = map(istr, (EXTENSIONS_PARAMETER, OLDER_EXTENSIONS, LEFT_OUT_PARAMETER))
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


class HeaderParameters(Mapping[str, str]):
    """Headers as service parameters, not copied. The extensions come from both header names for them."""

    __slots__ = ("_headers",)

    def __init__(self, headers: MultiMapping[str]) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        found: str | None = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    # `Mapping.get` raises and catches KeyError for a parameter that is absent, as most of them are.
    def get(self, name: str, default: Any = None) -> Any:
        values = self._headers.getall(name, [])
        if name == EXTENSIONS_PARAMETER and OLDER_EXTENSIONS in self._headers:
            values = [merge([*values, *self._headers.getall(OLDER_EXTENSIONS, [])])]
        if not values:
            return default
        return values[0] if len(values) == 1 else Joined(values)

    def among(self, names: Iterable[str]) -> list[str]:
        """Those of some names that headers have."""
        headers = self._headers
        return [name for name in names if name in headers]

    def __bool__(self) -> bool:
        return next(iter(self._headers), None) is not None

    def __contains__(self, name: object) -> bool:
        return name in self._headers or (name == EXTENSIONS_PARAMETER and OLDER_EXTENSIONS in self._headers)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name.lower() for name in self._headers)
        if OLDER_EXTENSIONS in names:
            names[EXTENSIONS_PARAMETER] = None
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[str, str]:
        # One pass, where `Mapping.items` looks for each name.
        found: dict[str, str] = {}
        for name, value in self._headers.items():
            lowered = name.lower()
            found[lowered] = self[lowered] if lowered in found else value
        if OLDER_EXTENSIONS in found:
            found[EXTENSIONS_PARAMETER] = self[EXTENSIONS_PARAMETER]
        return found.items()


class Overlaid(Mapping[str, str]):
    """Parameters with others laid over them, not copied. without: a name that only the others may have."""

    __slots__ = ("_above", "_below", "_without")

    def __init__(self, below: Mapping[str, str], above: Mapping[str, str], *, without: str = "") -> None:
        self._below = below
        self._above = above
        self._without = without

    def __getitem__(self, name: str) -> str:
        lowered = name.lower()
        found = self._above.get(lowered)
        if found is not None:
            return found
        if lowered == self._without:
            raise KeyError(name)
        return self._below[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._above
        for name in self._below:
            if name not in self._above and name != self._without:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_version(headers: MultiMapping[str], query: str) -> str:
    """The A2A-Version header, else the query parameter of that name in any case (spec 3.6.1), else "".
    Several of them are joined by commas, as gRPC metadata are.
    """
    found = headers.getall(VERSION, [])
    declared = found[0] if len(found) == 1 else ",".join(found)
    if declared or "=" not in query:
        return declared
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=None)
    return ",".join(value for name, value in pairs if name.lower() == VERSION_PARAMETER)


def deadline_of(headers: MultiMapping[str], now: float) -> float | None:
    """The caller's deadline, on the clock of `now`. Raises INVALID_REQUEST if it is not one number."""
    found = headers.getall(DEADLINE, [])
    if not found:
        return None
    text = found[0] if len(found) == 1 else ",".join(found)
    if not _SECONDS.fullmatch(text.strip()):
        raise A2AError(Reason.INVALID_REQUEST, f"{DEADLINE} is a decimal number of seconds")
    return now + float(text)


def check_encoding(headers: Mapping[str, str]) -> None:
    """Raises HttpStatusError 415 for a compressed body. No client sends such bodies, and the rejection
    prevents decompression bombs.
    """
    coding = headers.get(CONTENT_ENCODING)
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        raise HttpStatusError(
            415,
            Reason.CONTENT_TYPE_NOT_SUPPORTED,
            "bodies are read without Content-Encoding only",
            (("Accept-Encoding", "identity"),),
        )


def is_json(content_type: str) -> bool:
    """True if a media type is JSON: application/json, application/a2a+json and the like, parameters aside."""
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


#: content types that `check_content_type` need not be asked about
USUAL_TYPES = frozenset({"application/json", "application/a2a+json", "application/json; charset=utf-8"})


def check_content_type(headers: Mapping[str, str]) -> None:
    """Raises HttpStatusError 415 unless the content type is JSON or absent. text/plain and forms are rejected
    on purpose: browsers send those across origins without a preflight request.
    """
    content_type = headers.get(CONTENT_TYPE)
    if not content_type or is_json(content_type):
        return
    raise HttpStatusError(
        415,
        Reason.CONTENT_TYPE_NOT_SUPPORTED,
        "the body has to be application/json or application/a2a+json",
    )


def reply_headers(
    parameters: Mapping[str, str], extensions: Iterable[str] = (EXTENSIONS_PARAMETER,)
) -> Headers:
    """Response parameters as headers. extensions: the names under which activated extensions are sent. Raises
    ValueError for an invalid name or value, or a framing header.
    """
    found = []
    for name, value in parameters.items():
        if not HEADER_NAME.fullmatch(name) or name.lower() in FRAMING or not is_value(value):
            raise ValueError(f"{name!r} cannot be sent as a response header")
        names = extensions if name == EXTENSIONS_PARAMETER else (name,)
        found += [(_VARIANT.get(one.lower(), one), value) for one in names]
    return tuple(found)


def is_value(value: str) -> bool:
    """True if a text is a valid header value."""
    return bool(_VALUE.fullmatch(value)) and not _SURROGATE.search(value)


@lru_cache(maxsize=64)
def _header_names(names: frozenset[str]) -> tuple[istr, ...]:
    """The headers of parameters that travel on, those for extensions among them."""
    return tuple(map(istr, {*names, EXTENSIONS_PARAMETER, OLDER_EXTENSIONS}))


def request_headers(
    dialect: Dialect, context: CallContext, options: DialOptions, now: float
) -> dict[str, str]:
    """The headers of a call: version, extensions, deadline, own and forwarded parameters. Raises
    INVALID_PARAMS for a parameter that is not valid in a header.
    """
    headers: dict[str, str] = {}
    parameters = context.parameters
    given: object = parameters
    if type(parameters) is HeaderParameters:
        given = parameters.among(_header_names(options.forward))  # most callers send none of them
    if given:
        for name in options.forward:
            value = parameters.get(name)
            if value is not None:
                headers[name] = value
        declared = parameters.get(EXTENSIONS_PARAMETER)
        if declared:
            headers[EXTENSIONS_PARAMETER] = declared
    headers.update(options.parameters)
    if headers:
        for name, value in headers.items():
            if not HEADER_NAME.fullmatch(name) or not is_value(value):
                raise invalid_params(name, "is not a parameter that a header can hold")
        if not FRAMING.isdisjoint(headers):
            headers = {name: value for name, value in headers.items() if name not in FRAMING}
        headers.pop(VERSION_PARAMETER, None)
    if dialect.declares:
        headers["A2A-Version"] = dialect.version
    else:
        _as_older(headers, dialect)
    if context.deadline is not None:
        headers[DEADLINE] = f"{max(context.deadline - now, 0.0):.6f}"
    return headers


def _as_older(headers: dict[str, str], dialect: Dialect) -> None:
    """Removes headers that only 1.0 peers know, and renames the extensions header for this version."""
    headers.pop(SIDE_CHANNEL, None)
    declared = headers.get(EXTENSIONS_PARAMETER)
    if declared:
        for name in dialect.extensions:
            headers.setdefault(name, declared)


def response_parameters(headers: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
    """The response parameters in a peer's headers: the extensions it activated (spec 3.2.6), under either
    name, the number of tasks left out of a list, and content that has no place in a message.
    """
    found = {}
    extensions = [value for name in (_EXTENSIONS, _OLDER) if (value := headers.get(name))]
    if extensions:
        found[EXTENSIONS_PARAMETER] = merge(extensions) if len(extensions) > 1 else extensions[0]
    if left_out := headers.get(_LEFT_OUT):
        found[LEFT_OUT_PARAMETER] = left_out
    if dialect.declares and (side_channel := headers.get(SIDE_CHANNEL)):
        found[SIDE_CHANNEL] = side_channel
    return found


def begins_with_gap(headers: Mapping[str, str]) -> bool:
    """True if the first event of a stream replaces lost events."""
    return headers.get(RESUME_PARAMETER) == GAP


_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~-]{1,255})(?::([0-9]{1,5}))?")
_LARGEST_PORT = 65535
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)+")
_PAIR = re.compile(r'\s*([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^;,"\s]*)\s*([;,]|$)')


def is_host(host: str) -> bool:
    """True if a text is a Host header: a name or address with an optional port; no userinfo, path or list."""
    match = _HOST.fullmatch(host)
    return match is not None and int(match[1] or 0) <= _LARGEST_PORT


def is_local_name(host: str) -> bool:
    """True if a Host header names an address or localhost, and no name that anybody else can have."""
    name = re.sub(r":[0-9]+$", "", host).strip("[]").lower()
    return name == "localhost" or is_address(name)


def base_url(scheme: str, host: str, root: str, headers: Mapping[str, str], *, trusted: bool) -> str:
    """The URL of an application as its client sees it, without a trailing slash.

    scheme, host: of the connection and its Host header. root: the path it is mounted at, percent-encoded.
    trusted: True if Forwarded (RFC 7239) and X-Forwarded-{Proto,Host,Port,Prefix} count. In lists made by
    several proxies, the first entry is the one nearest to the client. Malformed values are ignored.
    """
    prefix = ""
    if trusted:
        scheme, host, prefix = _read_forwarded(scheme, host, headers)
    if f"{root}/".startswith(f"{prefix}/"):
        prefix = ""  # the server below already has the same prefix
    return f"{scheme}://{host}{prefix}{root}".rstrip("/")


def _read_forwarded(scheme: str, host: str, headers: Mapping[str, str]) -> tuple[str, str, str]:
    pairs = _first_forwarded(headers.get("Forwarded", ""))
    proto = pairs.get("proto") or _first(headers, "X-Forwarded-Proto")
    if proto.lower() in ("http", "https"):
        scheme = proto.lower()
    named = pairs.get("host") or _first(headers, "X-Forwarded-Host")
    if is_host(named):
        host = named
    port = _first(headers, "X-Forwarded-Port")
    if port.isascii() and port.isdigit() and len(port) <= 5 and not re.search(r":[0-9]+$", named):
        bare = re.sub(r":[0-9]+$", "", host)
        host = bare if port == {"http": "80", "https": "443"}[scheme] else f"{bare}:{port}"
    prefix = _first(headers, "X-Forwarded-Prefix").rstrip("/")
    return scheme, host, prefix if _PREFIX.fullmatch(prefix) else ""


def _first(headers: Mapping[str, str], name: str) -> str:
    return headers.get(name, "").partition(",")[0].strip()


def _first_forwarded(text: str) -> dict[str, str]:
    """The pairs of the first element of a Forwarded header, as far as it is well formed."""
    pairs: dict[str, str] = {}
    at = 0
    while at < len(text) and (match := _PAIR.match(text, at)):
        name, value, separator = match.groups()
        pairs[name.lower()] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        if separator == ",":
            break
        at = match.end()
    return pairs
