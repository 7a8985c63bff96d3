"""TLS of the builtin listeners: one certificate for HTTP and gRPC, read again when its files change.

Rules:
1. The files are looked at when a connection comes, at most every `CHECK_INTERVAL` seconds. New connections
   get the new certificate; open ones keep theirs.
2. Files that cannot be used keep the last good ones, with one log line for each problem. They are tried
   again: one of two files may have been written so far.
3. Every set of files is a new SSLContext, so no session of a client outlives the authority that vouched for
   its certificate.
4. Dates are read with cryptography (extra `auth`). An expired certificate is a warning at the start, because
   no start would be worse; while the server runs, it does not replace a valid one. Without cryptography dates
   are not checked.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

from a2a_bridge.core.extras import MissingExtraError, load
from a2a_bridge.core.option_classes import CertReqs

_log = logging.getLogger("a2a_bridge.tls")

#: seconds between two looks at the files
CHECK_INTERVAL = 3.0
#: how long before its end a certificate is reported, and how often
EXPIRY_NOTICE, NOTICE_INTERVAL = timedelta(days=14), timedelta(days=1)
#: how often files that change meanwhile are read again
_ATTEMPTS = 3

_CERTIFICATE, _PRIVATE_KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"

Part = Literal["certificate", "key", "client_ca"]


class TlsFileError(ValueError):
    """A file that TLS cannot be served with. part: the parameter of ServerTls that names it."""

    def __init__(self, part: Part, text: str) -> None:
        super().__init__(text)
        self.part = part


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """The files as they were read together."""

    #: the certificate with its chain, the private key, the client authorities (empty: none), all PEM
    certificate: bytes
    key: bytes
    client_ca: bytes
    context: ssl.SSLContext
    #: the time in which the certificate is valid; None if that is not known
    valid: tuple[datetime, datetime] | None


class ServerTls:
    """The certificate of a server, from PEM files.

    certificate: with its chain. key: empty if it is in the file of the certificate. client_ca: authorities of
    client certificates; empty: callers are not asked for one. cert_reqs: whether callers without one are
    rejected. gRPC has no optional ones: it does not ask then. clock, now: seconds, and the date in UTC.
    Raises TlsFileError for files that cannot be used, ValueError for another `cert_reqs`.
    """

    def __init__(
        self,
        certificate: str | Path,
        key: str | Path = "",
        client_ca: str | Path = "",
        *,
        cert_reqs: CertReqs = "required",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if cert_reqs not in ("required", "optional"):
            raise ValueError(f"cert_reqs is required or optional, not {cert_reqs!r}")
        if not certificate:
            raise TlsFileError("certificate", "TLS needs a certificate")
        self.cert_reqs = cert_reqs
        self._paths = {"certificate": Path(certificate), "key": Path(key or certificate)}
        if client_ca:
            self._paths["client_ca"] = Path(client_ca)
        self._clock = clock
        self._now = now
        # gRPC asks from threads of its own.
        self._lock = threading.Lock()
        self._known = self._signature()
        self._material = self._read()
        self._checked = clock()
        self._problem = ""
        self._noticed: datetime | None = None
        self._note_dates()

    @property
    def asks_clients(self) -> bool:
        """Whether callers are asked for a certificate."""
        return "client_ca" in self._paths

    def context(self) -> ssl.SSLContext:
        """A context for HTTP/1.1 whose new connections follow the files."""
        return _Following.over(self.current)

    def current(self) -> Material:
        """The files as they are now; the last good ones if they cannot be used. Raises nothing."""
        with self._lock:
            if self._clock() - self._checked >= CHECK_INTERVAL:
                self._checked = self._clock()
                self._look()
                self._note_dates()
            return self._material

    def _look(self) -> None:
        """Reads the files again if they have changed, or could not be used before."""
        signature = self._signature()
        if signature == self._known and not self._problem:
            return
        self._known = signature
        try:
            made = self._read()
            before, after = self._invalidity(self._material), self._invalidity(made)
            if after and not before:
                _reject("certificate", self._paths["certificate"], after)
        except TlsFileError as error:
            if str(error) != self._problem:
                _log.warning(
                    "the certificate in use stays: %s; a2a-bridge reads the files again when they change",
                    error,
                )
            self._problem = str(error)
            return
        self._problem = ""
        self._noticed = None
        self._material = made
        _log.info("new connections get the certificate that %s holds now", self._paths["certificate"])

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        """A mark that changes when a file is written or replaced; None for a file that cannot be seen."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths.values():
            try:
                at = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((at.st_mtime_ns, at.st_size, at.st_ino))
        return tuple(found)

    def _read(self) -> Material:
        """All files together. Raises TlsFileError."""
        for _ in range(_ATTEMPTS):
            before = self._signature()
            made = self._read_once()
            if self._signature() == before:
                return made
        raise TlsFileError("certificate", f"{self._paths['certificate']} changes while it is read")

    def _read_once(self) -> Material:
        certificate, key = self._bytes("certificate"), self._bytes("key")
        authorities = self._bytes("client_ca") if self.asks_clients else b""
        paths = self._paths
        if _CERTIFICATE not in certificate:
            _reject("certificate", paths["certificate"], "holds no certificate as PEM")
        if _PRIVATE_KEY not in key:
            holder: Part = "key" if paths["key"] != paths["certificate"] else "certificate"
            _reject(holder, paths["key"], "holds no private key as PEM")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])

        def locked() -> NoReturn:
            _reject("key", paths["key"], "is encrypted: write the key without a password")

        try:
            context.load_cert_chain(paths["certificate"], paths["key"], locked)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                _reject("key", paths["key"], f"is not the key of the certificate in {paths['certificate']}")
            _reject("certificate", paths["certificate"], f"cannot be used: {error.reason or error}")
        except OSError as error:
            _reject("certificate", paths["certificate"], f"cannot be read: {error.strerror}")
        if authorities:
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
            except ssl.SSLError as error:
                _reject("client_ca", paths["client_ca"], f"holds no certificate as PEM: {error.reason}")
            optional = self.cert_reqs == "optional"
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
        return Material(certificate, key, authorities, context, _dates(certificate))

    def _bytes(self, part: Part) -> bytes:
        path = self._paths[part]
        try:
            found = path.read_bytes()
        except OSError as error:
            _reject(part, path, f"cannot be read: {error.strerror}")
        return found or _reject(part, path, "is empty")

    def _invalidity(self, material: Material) -> str:
        """Why a certificate is not valid now; empty if it is, or if that is not known."""
        if material.valid is None:
            return ""
        begin, end = material.valid
        if self._now() > end:
            return f"has expired on {end:%Y-%m-%d %H:%M} UTC: renew it"
        if self._now() < begin:
            return f"is not valid before {begin:%Y-%m-%d %H:%M} UTC: look at the clock of this machine, too"
        return ""

    def _note_dates(self) -> None:
        """Logs, at most once a day, that the certificate is not valid or will soon not be."""
        now = self._now()
        if self._material.valid is None or (
            self._noticed is not None and now - self._noticed < NOTICE_INTERVAL
        ):
            return
        end = self._material.valid[1]
        text = self._invalidity(self._material)
        if not text and end - now < EXPIRY_NOTICE:
            text = f"expires on {end:%Y-%m-%d %H:%M} UTC: renew it"
        if text:
            self._noticed = now
            path = self._paths["certificate"]
            _log.warning("the certificate in %s %s; new files are used without a restart", path, text)


class _Following(ssl.SSLContext):
    """A context that makes connections of the current context: servers keep one context for ever."""

    _current: Callable[[], Material]

    @classmethod
    def over(cls, current: Callable[[], Material]) -> _Following:
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        return made

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._current().context.wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return self._current().context.wrap_socket(*arguments, **options)


def _reject(part: Part, path: Path, text: str) -> NoReturn:
    raise TlsFileError(part, f"{path} {text}")


def _dates(certificate: bytes) -> tuple[datetime, datetime] | None:
    """The time in which the first certificate of a file is valid; None without cryptography."""
    try:
        x509 = load("cryptography.x509", "auth")
    except MissingExtraError:
        return None
    try:
        first = x509.load_pem_x509_certificate(certificate[certificate.index(_CERTIFICATE) :])
    except ValueError:  # OpenSSL has accepted it, and cryptography is stricter
        return None
    return first.not_valid_before_utc, first.not_valid_after_utc
