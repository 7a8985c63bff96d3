"""The secrets of push notification configs: a mask replaces them in answers, and a store keeps them
encrypted. Nothing here stores or sends them.

Rules for answers:
1. Callers that may read a config need not learn its credentials: answers contain MASK instead. The token is
   not redacted; its receiver compares it, and clients that restart recognise their configs by it.
2. A config that comes back with the mask keeps the stored credentials, so a client can read, change and write
   it. This requires an unchanged host: otherwise the mask would be a way to send the credentials elsewhere.
3. Content that a version keeps beside a config (see SIDE_CHANNEL) is redacted in the same way.

Rules for stores (`Vault`, with Fernet of `cryptography`):
1. The first key encrypts, all keys decrypt: to replace a key, put the new key before it.
2. Secrets that were stored without a key stay readable. The first byte tells whether a secret is encrypted.
3. A secret that no key decrypts is an error of that one secret, and its content is never shown.
"""

from collections.abc import Sequence
from typing import Any

from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.extras import load
from a2a_bridge.dialects import unmapped
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ssrf_policy import target_of

MASK = "********"
_FIELD = "authentication.credentials"
_NAME = "credentials"


def redact(config: hub.TaskPushNotificationConfig) -> hub.TaskPushNotificationConfig:
    """The config as answers show it: unchanged if it has no credentials, else a copy."""
    if not config.authentication.credentials:
        return config
    redacted_config = hub.TaskPushNotificationConfig()
    redacted_config.CopyFrom(config)
    redacted_config.authentication.credentials = MASK
    return redacted_config


def is_redacted(config: hub.TaskPushNotificationConfig) -> bool:
    """True if the credentials are the mask."""
    return config.authentication.credentials == MASK


def unredact(
    config: hub.TaskPushNotificationConfig, known: hub.TaskPushNotificationConfig | None
) -> A2AError | None:
    """Replaces the mask by the credentials of `known`, in place. Returns INVALID_PARAMS if `known` has none,
    or the URL of another target; else None.
    """
    if not is_redacted(config):
        return None
    if known is None or not known.authentication.credentials:
        return invalid_params(_FIELD, "is the mask of credentials that are not known here")
    if target_of(known.url) != target_of(config.url):
        return invalid_params(_FIELD, "has to be said again where the host of the URL changes")
    config.authentication.credentials = known.authentication.credentials
    return None


def redact_side_channel(text: str) -> str:
    """The content beside a config, with its credentials redacted."""
    if _NAME not in text:
        return text
    for source in (unmapped.KIND, unmapped.PROTO):
        entries = unmapped.read(text, source)
        if entries:
            return unmapped.write(source, [_redact_entry(entry) for entry in entries])
    return ""


def _redact_entry(entry: unmapped.Entry) -> unmapped.Entry:
    pointer, *values = entry
    if pointer.endswith(f"/{_NAME}"):
        return [pointer, *(MASK if isinstance(value, str) else value for value in values)]
    return [pointer, *(_redact_tree(value) for value in values)]


def _redact_tree(root: Any) -> Any:
    """A copy without recursion, because input of callers may be nested deeply."""
    top: list[Any] = [root]
    rest: list[Any] = [top]
    while rest:
        place = rest.pop()
        for key, item in list(place.items() if isinstance(place, dict) else enumerate(place)):
            if key == _NAME and isinstance(item, str) and item:
                place[key] = MASK
            elif isinstance(item, dict | list):
                place[key] = item.copy()
                rest.append(place[key])
    return top[0]


_PLAIN, _SEALED = b"\x00", b"\x01"


class DecryptionError(Exception):
    """A secret that none of the keys decrypts."""


class Vault:
    """Encrypts and decrypts bytes. keys: Fernet keys (32 bytes in URL-safe base64), newest first; none: no
    encryption. Raises ValueError for an invalid key, MissingExtraError for keys without `cryptography`.
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
            # Without the cause: its text may contain the key.
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
