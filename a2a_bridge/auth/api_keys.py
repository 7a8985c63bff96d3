"""API keys in a file: `KeyFile` creates and revokes them, `ApiKeys` checks the keys of requests.

Rules:
1. A key is `ID.SECRET`. The secret has 256 random bits, so one round of salted SHA-256 protects it: a slow
   hash would only protect secrets that people choose.
2. The file holds salts and hashes only, is readable by its owner only, and is replaced as a whole.
3. The file is read again when it has changed. An unreadable one is logged once, and the last good one counts.
4. A revoked or expired key and an unknown one get the same response, in the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError, parameter_of
from a2a_bridge.pb import lf_a2a_v1 as hub

_log = logging.getLogger("a2a_bridge.auth")

FORMAT = 1
#: what makes a file of keys, for messages
_MAKES = "; `a2a-bridge keys create` makes one"
HEADER = "X-API-Key"
#: seconds between two looks at the file
_INTERVAL = 1.0
#: seconds that another command may hold the file
_LOCK_TIMEOUT = 10.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, 3.3
#: compared with for unknown ids, so that they take as long as known ones
_NO_SALT, _NO_HASH = "00" * 16, "00" * 32


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as the file has it. Times are RFC 3339 in UTC; empty for none."""

    id: str
    #: who uses it: the owner of tasks and the name in logs
    principal: str
    #: hexadecimal
    salt: str
    #: SHA-256 of salt and secret, hexadecimal
    hash: str
    scopes: tuple[str, ...] = ()
    created: str = ""
    expires: str = ""
    revoked: str = ""

    def is_valid(self, now: float) -> bool:
        """Whether the key may be used at a time (seconds since the epoch)."""
        return not self.revoked and (not self.expires or now < _seconds(self.expires))


class NewKey(NamedTuple):
    """A key at the only time when its secret is known."""

    #: what the caller sends
    text: str
    record: KeyRecord


class KeyFile:
    """A file of keys. Raises OSError for a file that cannot be used, ValueError for invalid content.

    now: seconds since 1970.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now

    def read(self) -> dict[str, KeyRecord]:
        """The keys by id."""
        try:
            document = json.loads(self.path.read_bytes())
        except ValueError:
            raise ValueError(f"{self.path} is no file of API keys: it is not JSON{_MAKES}") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"{self.path} is no file of API keys of format {FORMAT}{_MAKES}")
        rows = document.get("keys")
        if not isinstance(rows, list):
            raise ValueError(f"{self.path}: keys: expected an array")  # noqa: TRY004  a file is at fault
        records = [_record(f"{self.path}: keys[{number}]", row) for number, row in enumerate(rows)]
        found = {one.id: one for one in records}
        if len(found) < len(records):
            raise ValueError(f"{self.path}: keys: an id occurs twice")
        return found

    def create(
        self, key_id: str, *, principal: str = "", scopes: Iterable[str] = (), expires: float | None = None
    ) -> NewKey:
        """Adds a key, and makes the file if there is none.

        key_id: unique in the file. principal: by default the id. expires: seconds since the epoch. Raises
        ValueError for an id that exists or is not valid, and for invalid scopes.
        """
        if not _ID.fullmatch(key_id):
            raise ValueError(f"{key_id!r} is no id: letters, digits, _ and -, at most 64")
        wanted = tuple(dict.fromkeys(scopes))
        for scope in wanted:
            if not _SCOPE.fullmatch(scope):
                raise ValueError(f"{scope!r} is no scope")
        secret, salt = secrets.token_urlsafe(32), secrets.token_hex(16)
        record = KeyRecord(
            key_id,
            principal or key_id,
            salt,
            _hash(salt, secret),
            wanted,
            _time(self._now()),
            "" if expires is None else _time(expires),
        )
        with self._lock():
            records = self.read() if self.path.exists() else {}
            if key_id in records:
                raise ValueError(f"{self.path} has a key {key_id!r} already; revoke it or take another id")
            self._write({**records, key_id: record})
        return NewKey(f"{key_id}.{secret}", record)

    def revoke(self, key_id: str) -> KeyRecord:
        """Ends a key; its record stays. Raises LookupError for an unknown id."""
        with self._lock():
            records = self.read()
            record = records.get(key_id)
            if record is None:
                raise LookupError(f"{self.path} has no key {key_id!r}")
            if not record.revoked:
                record = replace(record, revoked=_time(self._now()))
                self._write({**records, key_id: record})
        return record

    def _lock(self) -> FileLock:
        return FileLock(f"{self.path}.lock", timeout=_LOCK_TIMEOUT, mode=0o600)

    def _write(self, records: Mapping[str, KeyRecord]) -> None:
        """Replaces the file as a whole: a reader sees the old keys or the new ones."""
        data = json.dumps({"format": FORMAT, "keys": [asdict(one) for one in records.values()]}, indent=1)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # mode 600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(data + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@dataclass(slots=True)
class _Known:
    records: dict[str, KeyRecord] = field(default_factory=dict)
    stamp: tuple[int, int, int] = (0, 0, 0)
    looked: float = 0.0
    is_broken: bool = False


class ApiKeys:
    """Identifies callers by the keys of a file; see `Method`.

    header: the HTTP header, and in lower case the gRPC metadata, that holds the key. Raises OSError and
    ValueError for a file that cannot be used, ValueError for an invalid header name.
    """

    scheme_name = "apiKey"

    def __init__(
        self,
        file: KeyFile,
        *,
        header: str = HEADER,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._header = header
        self._parameter = parameter_of(header)
        self._now = now
        self._clock = clock
        # Before the keys, so that a change between the two is seen at the next look.
        stamp = self._stamp()
        self._known = _Known(file.read(), stamp, clock())
        self.parameters = frozenset({self._parameter})
        self.challenge = f'ApiKey realm="a2a", header="{header}"'

    def scheme(self) -> hub.SecurityScheme:
        """How the card describes it."""
        text = "An API key that the operator of this server issued."
        found = hub.APIKeySecurityScheme(location="header", name=self._header, description=text)
        return hub.SecurityScheme(api_key_security_scheme=found)

    async def identify(self, presented: Presented) -> Principal | None:
        """The principal of the key; None without a key. Raises UNAUTHENTICATED for any other key."""
        text = presented.credential(self._parameter, (self.challenge,))
        if text is None:
            return None
        key_id, _, secret = text.partition(".")
        record = self._records().get(key_id)
        salt, expected = (_NO_SALT, _NO_HASH) if record is None else (record.salt, record.hash)
        matches = hmac.compare_digest(_hash(salt, secret), expected)
        if record is None or not matches or not record.is_valid(self._now()):
            raise UnauthenticatedError("The API key is not valid", (self.challenge,))
        claims = {"key_id": record.id, "scope": " ".join(record.scopes)}
        return Principal(record.principal, claims, self.scheme_name)

    def counts(self, principal: Principal) -> bool:
        """Whether the key of a caller is still valid."""
        record = self._records().get(principal.claims["key_id"])
        return record is not None and record.is_valid(self._now())

    def _records(self) -> dict[str, KeyRecord]:
        known = self._known
        now = self._clock()
        if now - known.looked < _INTERVAL:
            return known.records
        known.looked = now
        try:
            stamp = self._stamp()
            if stamp != known.stamp:
                known.records, known.stamp = self._file.read(), stamp
                _log.info("read %d API keys from %s", len(known.records), self._file.path)
            known.is_broken = False
        except (OSError, ValueError) as error:
            if not known.is_broken:
                _log.error(
                    "the API keys cannot be read again, the last good ones count: %s; a2a-bridge keys list"
                    " --file %s shows the problem",
                    error,
                    self._file.path,
                )
            known.is_broken = True
        return known.records

    def _stamp(self) -> tuple[int, int, int]:
        found = self._file.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino


def _hash(salt: str, secret: str) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + secret.encode("utf-8", "surrogateescape")).hexdigest()


_TEXTS = ("id", "principal", "salt", "hash", "created", "expires", "revoked")
_HEX = {"salt": 32, "hash": 64}


def _record(place: str, row: Any) -> KeyRecord:
    """A record of the file. Raises ValueError naming the member; never with the value of a hash."""
    if not isinstance(row, dict):
        raise ValueError(f"{place}: expected an object")  # noqa: TRY004  a file is at fault
    unknown = sorted(row.keys() - set(KeyRecord.__slots__))
    if unknown:
        raise ValueError(f"{place}.{unknown[0]}: is not known")
    texts = {name: row.get(name, "") for name in _TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{place}.{name}: expected a string")  # noqa: TRY004  a file is at fault
        if name in _HEX and not re.fullmatch(rf"[0-9a-f]{{{_HEX[name]}}}", text):
            raise ValueError(f"{place}.{name}: expected {_HEX[name]} hexadecimal digits")
    scopes = row.get("scopes", [])
    if not isinstance(scopes, list) or not all(isinstance(one, str) for one in scopes):
        raise ValueError(f"{place}.scopes: expected an array of strings")
    if not _ID.fullmatch(texts["id"]) or not texts["principal"]:
        raise ValueError(f"{place}: id and principal are required")
    for name in ("expires", "revoked"):
        if texts[name]:
            try:
                _seconds(texts[name])
            except ValueError:
                raise ValueError(f"{place}.{name}: expected a time as in RFC 3339") from None
    return KeyRecord(**texts, scopes=tuple(scopes))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _seconds(text: str) -> float:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
