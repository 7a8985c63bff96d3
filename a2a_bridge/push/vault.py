"""Encrypts the secrets of push configs before a store keeps them, with Fernet of `cryptography`. It keeps no
state.

Rules:
1. The first key encrypts, all keys decrypt: to replace a key, put a new one before it.
2. Secrets that were stored without a key stay readable. The first byte tells whether a secret is encrypted.
3. A secret that no key decrypts is an error of that one secret, and its content is never shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_bridge.core.extras import load

_PLAIN, _SEALED = b"\x00", b"\x01"


class DecryptionError(Exception):
    """A secret that none of the keys decrypts."""


class Vault:
    """Encrypts and decrypts bytes.

    keys: Fernet keys (32 bytes in URL-safe base64), the newest first; none for no encryption.
    Raises ValueError for an invalid key, MissingExtraError if there are keys but no `cryptography`.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._fernet: Any = None
        self._unreadable: type[Exception] = DecryptionError
        if not keys:
            return
        # An extra, and slow to import: only needed with keys.
        fernet = load("cryptography.fernet", "signing")
        self._unreadable = fernet.InvalidToken
        try:
            self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in keys])
        except ValueError:
            # Without the cause, whose text may contain the key.
            raise ValueError("a key for push configs has to be 32 bytes in URL-safe base64") from None

    def encrypt(self, raw_bytes: bytes) -> bytes:
        """The bytes to store."""
        return _PLAIN + raw_bytes if self._fernet is None else _SEALED + self._fernet.encrypt(raw_bytes)

    def decrypt(self, stored: bytes) -> bytes:
        """The reverse. Raises DecryptionError."""
        if stored[:1] == _PLAIN:
            return stored[1:]
        if stored[:1] != _SEALED or self._fernet is None:
            raise DecryptionError
        try:
            raw_bytes: bytes = self._fernet.decrypt(stored[1:])
        except self._unreadable:
            raise DecryptionError from None
        return raw_bytes


def new_key() -> str:
    """A key for a Vault. Raises MissingExtraError without `cryptography`."""
    key: bytes = load("cryptography.fernet", "signing").Fernet.generate_key()
    return key.decode()


def keys_in(text: str) -> list[str]:
    """The keys in an option, a variable or a file: separated by commas or white space."""
    return text.replace(",", " ").split()
