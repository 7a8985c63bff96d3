"""The URL of a request as its client sees it, from the Host header and the headers of proxies. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address

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
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


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
