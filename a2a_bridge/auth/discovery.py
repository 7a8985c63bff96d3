"""The documents of an identity provider: its discovery document (OIDC, RFC 8414) and what that names.

Rules:
1. The operator named the issuer, so it may have a private address. A URL in its discovery document is not the
   operator's: its host is the issuer's, or has public addresses only; of an https issuer it is https.
2. The document has to be that of the issuer itself. Redirects are not followed; sizes and times are limited.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from socket import SOCK_STREAM
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.bindings.binding import MIB, DialOptions, TlsFiles, http_fetch
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.push.ssrf_policy import is_public

_PATHS = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
#: seconds for one document
_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL of an identity provider."""

    url: str
    #: whether it is at the host that the operator named
    named: bool
    #: the whole discovery document
    document: Mapping[str, Any]


async def endpoint(issuer: str, member: str, *, ca: str = "") -> Endpoint:
    """The URL that the discovery document of an issuer has in `member`, such as `jwks_uri`.

    ca: PEM file of trusted authorities for https; empty: those of the system. Raises A2AError, ValueError.
    """
    problem: Exception | None = None
    for path in _PATHS:
        try:
            document = json_object(await fetch(issuer.rstrip("/") + path, named=True, ca=ca))
        except (A2AError, ValueError) as error:
            problem = problem or error
            continue
        if document.get("issuer") != issuer:
            raise ValueError(
                f"its discovery document is that of another issuer: {document.get('issuer')!r:.200}"
            )
        url = document.get(member)
        if not isinstance(url, str):
            raise ValueError(f"its discovery document has no {member}")  # noqa: TRY004  it is at fault
        if urlsplit(issuer).scheme == "https" and urlsplit(url).scheme != "https":
            raise ValueError(f"its {member} is no https URL")
        return Endpoint(url, urlsplit(url).hostname == urlsplit(issuer).hostname, document)
    raise problem or ValueError("it has no discovery document")


async def fetch(url: str, *, named: bool, ca: str = "") -> bytes:
    """A document at a URL. named: the operator named its host. ca: see `endpoint`. Raises A2AError,
    ValueError.
    """
    options = fetch_options(named=named, ca=ca)
    async with asyncio.timeout(2 * _TIMEOUT), http_fetch(options) as get:
        found = await get(url, {"accept": "application/json"})
    if found.status != 200:
        raise ValueError(f"{url} answers {found.status}")
    return found.body


def fetch_options(*, named: bool, ca: str = "") -> DialOptions:
    """The options of a session with an identity provider; arguments as for `fetch`."""
    return DialOptions(
        timeout=_TIMEOUT,
        connect_timeout=_TIMEOUT,
        max_message=MIB,
        tls=TlsFiles(ca=ca) if ca else None,
        resolve=None if named else _resolve_public,
    )


def json_object(raw: bytes) -> Mapping[str, Any]:
    """A document that is a JSON object. Raises ValueError."""
    try:
        found = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  a document is at fault
    return found


async def _resolve_public(host: str, port: int) -> Sequence[str]:
    """The addresses of a host that only a document named. Raises UNAVAILABLE if one of them is not public."""
    loop = asyncio.get_running_loop()
    found: Iterable[Any] = await loop.getaddrinfo(host, port, type=SOCK_STREAM)
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for text in addresses:
        if not is_public(ip_address(text.partition("%")[0])):
            raise A2AError(Reason.UNAVAILABLE, f"a discovery document leads to {host}, which is not public")
    return addresses
