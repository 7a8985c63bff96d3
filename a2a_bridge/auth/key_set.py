"""The public keys of an identity provider (JWKS): from a file, a URL, or its discovery document.

Rules:
1. The last good keys count while the provider is down or sends nonsense.
2. Keys are read again after `REFRESH` seconds, or `_RETRY` after a failure, beside the calls; for an unknown
   key id at once, but at most once in `UNKNOWN_INTERVAL` seconds: callers cannot make us ask more often.
3. The operator named the issuer or the URL of the keys, so they may have private addresses. A URL in a
   discovery document (OIDC, RFC 8414) is not the operator's: its host is the issuer's, or has public
   addresses only; the URL of an https issuer is https.
4. The discovery document has to be that of the issuer itself. Redirects are not followed; sizes and times are
   limited.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from socket import SOCK_STREAM
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.bindings.binding import MIB, DialOptions, TlsFiles, http_fetch
from a2a_bridge.bindings.places import read_place
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.extras import load
from a2a_bridge.push.ssrf_policy import is_public
from a2a_bridge.signing.keys import ALGORITHMS, SMALLEST_RSA, suits

_log = logging.getLogger("a2a_bridge.auth")

#: seconds after which keys are read again
REFRESH = 300.0
#: seconds between two requests because of unknown key ids
UNKNOWN_INTERVAL = 60.0
#: seconds between two attempts while the keys cannot be read
_RETRY = 2.0
#: usable keys of one set
_MOST_KEYS = 1000


class KeySetSource:
    """The keys of one issuer. Raises ValueError for a source that is no URL and no file.

    issuer: its identifier, where the discovery document is found without `source`. source: URL or path of a
    JWKS. ca: PEM file of trusted authorities for https; empty: those of the system. clock: seconds. hint:
    where the source is configured, for the log.
    """

    def __init__(
        self,
        issuer: str,
        source: str = "",
        *,
        ca: str = "",
        clock: Callable[[], float] = time.monotonic,
        hint: str = "--jwt-issuer and --jwt-jwks say where they are",
    ) -> None:
        self._jwk = load("joserfc.jwk", "auth")
        self._issuer = issuer
        self._source = source
        self._is_file = bool(source) and urlsplit(source).scheme not in ("http", "https")
        if not source and urlsplit(issuer).scheme not in ("http", "https"):
            raise ValueError(
                f"{issuer!r} is no http(s) URL, so its keys cannot be found; name their URL or file"
            )
        self._ca = ca
        self._clock = clock
        self._hint = hint
        self._keys: tuple[Any, ...] = ()
        #: grows with each change of the keys; what was verified with older keys is verified again
        self.generation = 0
        self._raw = b""
        self._tried_at: float | None = None
        self._asked_unknown: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_failing = False

    async def find(self, kid: str | None, usable: Callable[[Any], bool]) -> Sequence[Any]:
        """The usable keys with an id, or all of them without an id. Raises UNAVAILABLE if none are known."""
        self.refresh()
        if not self._keys:
            if self._reading is not None:
                await self._read()
            if not self._keys:
                text = "The keys of the identity provider are not available"
                raise A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=_RETRY)
        now = self._clock()
        found = self._select(kid, usable)
        if not found and (self._asked_unknown is None or now - self._asked_unknown >= UNKNOWN_INTERVAL):
            self._asked_unknown = now
            await self._read()
            found = self._select(kid, usable)
        return found

    def refresh(self) -> None:
        """Begins to read the keys again if it is time for that; does not wait. For every call, also a call
        that needs no key: its caller may be the only one, and the caller's key may have been withdrawn.
        """
        pause = _RETRY if self._is_failing or not self._keys else REFRESH
        if self._tried_at is None or self._clock() - self._tried_at >= pause:
            self._start_reading()

    async def open(self) -> None:
        """Reads the keys for the first time. A failure is logged, and tried again by calls."""
        await self._read()

    def check_file(self) -> None:
        """Reads the keys if they are in a file. Raises OSError, and ValueError for a file without keys."""
        if self._is_file:
            self._import(Path(self._source).read_bytes())

    def _select(self, kid: str | None, usable: Callable[[Any], bool]) -> list[Any]:
        return [key for key in self._keys if (kid is None or key.get("kid") == kid) and usable(key)]

    async def _read(self) -> None:
        """Reads the keys, together with everybody who waits for them."""
        await asyncio.shield(self._start_reading())

    def _start_reading(self) -> asyncio.Task[None]:
        if self._reading is None:
            self._tried_at = self._clock()
            self._reading = asyncio.create_task(self._try(), name="read JWKS")
            self._reading.add_done_callback(self._finish)
        return self._reading

    def _finish(self, _task: asyncio.Task[None]) -> None:
        self._reading = None

    async def _try(self) -> None:
        """Reads the keys; logs the first failure and the recovery."""
        try:
            raw = await self._document()
            if raw != self._raw:
                self._keys = self._import(raw)
                self._raw = raw
                self.generation += 1
                _log.info("read %d keys of %s", len(self._keys), self._issuer)
            elif self._is_failing:
                _log.info("the keys of %s can be read again", self._issuer)
            self._is_failing = False
        except (A2AError, OSError, ValueError) as error:
            if not self._is_failing:
                also = "the last good ones count" if self._keys else "no signature can be checked"
                _log.warning(
                    "the keys of %s cannot be read, %s: %s; %s", self._issuer, also, error, self._hint
                )
            self._is_failing = True

    async def _document(self) -> bytes:
        """The JWKS as it is published. Raises A2AError, OSError, ValueError."""
        if self._is_file:
            return await asyncio.to_thread(Path(self._source).read_bytes)
        if self._source:
            return await fetch(self._source, named=True, ca=self._ca)
        place = await endpoint(self._issuer, "jwks_uri", ca=self._ca)
        return await fetch(place.url, named=place.named, ca=self._ca)

    def _import(self, raw: bytes) -> tuple[Any, ...]:
        """The usable public keys of a document. Raises ValueError without any."""
        rows = json_object(raw).get("keys")
        if not isinstance(rows, list):
            raise ValueError("it is no JWKS: it has no array `keys`")  # noqa: TRY004  a document is at fault
        keys: list[Any] = []
        for number, row in enumerate(rows):
            if len(keys) == _MOST_KEYS:
                text = "%d of %d keys of %s are not used: at most %d count; clients with these are rejected"
                _log.warning(text, len(rows) - number, len(rows), self._issuer, _MOST_KEYS)
                break
            key = self._key(row)
            if key is not None:
                keys.append(key)
        if not keys:
            raise ValueError("it has no key that verifies signatures")
        return tuple(keys)

    def _key(self, row: Any) -> Any:
        """A public key that verifies signatures; None for any other: sets have keys for other uses, too."""
        if not isinstance(row, dict) or row.get("kty") not in ("RSA", "EC", "OKP"):
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about small keys, which are left out below
                key = self._jwk.import_key({name: value for name, value in row.items() if name != "d"})
            if row["kty"] == "RSA" and key.public_key.key_size < SMALLEST_RSA:
                _log.warning(
                    "a key of %s is not used: RSA with less than %d bits", self._issuer, SMALLEST_RSA
                )
            return key if any(suits(key, algorithm) for algorithm in ALGORITHMS) else None
        except Exception as error:  # noqa: BLE001  the library reports bad keys with many exceptions
            _log.warning("a key of %s is not used: %s", self._issuer, type(error).__name__)
            return None


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
    """The URL that the discovery document of an issuer has in `member`, such as `jwks_uri`. ca: PEM file of
    trusted authorities for https; empty: those of the system. Raises A2AError, ValueError.
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
        here, there = read_place(issuer), read_place(url)
        if here.secure and not there.secure:
            raise ValueError(f"its {member} is no https URL")
        return Endpoint(url, there.host == here.host, document)
    raise problem or ValueError("it has no discovery document")


async def fetch(url: str, *, named: bool, ca: str = "") -> bytes:
    """A document. named: the operator named its host. ca: see `endpoint`. Raises A2AError, ValueError."""
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
