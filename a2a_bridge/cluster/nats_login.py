"""How a connection to NATS begins: TLS, and what proves who connects.

Rules:
1. `tls://` and a named authority mean TLS: a server without it gets no credentials and no messages. The
   client itself would continue without TLS.
2. A credentials file is read for each connection, so it can be replaced.
3. A user and a password, or a token, stand in the address, percent-encoded, and are sent to every server.
4. Texts about failures have no secrets.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from a2a_bridge.core.extras import load

#: the parts of a credentials file
_JWT = re.compile(r"-BEGIN NATS USER JWT-+\s+(\S+)\s+-+END")
_SEED = re.compile(r"-BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END")
#: of an encoded seed: bytes before the key, of the key, and of the checksum
_PREFIX, _KEY, _SUM = 2, 32, 2


class NatsLogin:
    """servers: `nats://` or `tls://` addresses. credentials: the path of a file with a JWT and a key; empty
    for none. ca: the path of the certificates to trust; empty for those of the system.

    Raises ValueError for files and addresses that cannot be used, MissingExtraError.
    """

    def __init__(self, servers: tuple[str, ...], credentials: str = "", ca: str = "") -> None:
        self._nats = load("nats", "cluster")
        self.errors = load("nats.errors", "cluster")
        self._servers = list(servers)
        self._parts = [split_server(one) for one in servers]
        self._credentials = credentials
        self._tls: ssl.SSLContext | None = None
        if ca or any(one.scheme == "tls" for one in self._parts):
            try:
                self._tls = ssl.create_default_context(cafile=ca or None)
            except OSError as error:
                raise ValueError(f"{ca} has no certificates to trust: {error.strerror}") from None
        if credentials:
            self._ed25519 = load("cryptography.hazmat.primitives.asymmetric.ed25519", "cluster")
            try:
                _read(credentials)
            except OSError as error:
                raise ValueError(f"{credentials} cannot be read: {error.strerror}") from None

    def client(self) -> Any:
        """A new client."""
        secure = self._tls is not None
        transport = load("nats.aio.transport", "cluster")

        class Transport(transport.TcpTransport):  # type: ignore[name-defined,misc]
            def __bool__(self) -> bool:
                return True  # else the client replaces it

            async def wait_closed(self) -> None:
                # It would wait for a server that reads nothing, and after a failed handshake for ever.
                if self._io_writer is not None:
                    self._io_writer.transport.abort()

        class Client(self._nats.NATS):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self._transport = Transport()

            def _connect_command(self) -> Any:
                if secure and not self._server_info.get("tls_required"):
                    raise ConnectionError("it does not require TLS")
                return super()._connect_command()

        return Client()

    def arguments(self) -> dict[str, Any]:
        """The arguments for `connect`."""
        arguments: dict[str, Any] = {"servers": self._servers}
        if self._tls is not None:
            arguments["tls"] = self._tls
        if self._credentials:
            return arguments | {"user_jwt_cb": self._jwt, "signature_cb": self._sign}
        named = next((one for one in self._parts if one.username), None)
        if named is None or named.username is None:
            return arguments
        if named.password is None:
            return arguments | {"token": unquote(named.username)}
        return arguments | {"user": unquote(named.username), "password": unquote(named.password)}

    def _jwt(self) -> bytes:
        return _readable(self._credentials)[0]

    def _sign(self, nonce: str) -> bytes:
        key = self._ed25519.Ed25519PrivateKey.from_private_bytes(_readable(self._credentials)[1])
        return base64.b64encode(key.sign(nonce.encode()))


def split_server(address: str) -> SplitResult:
    """The parts of an address. Raises ValueError with a text that has no part of it."""
    with suppress(ValueError):  # its text could have a part of the password
        parts = urlsplit(address)
        if parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0:
            return parts
    raise ValueError("not an address like nats://HOST:4222 or tls://HOST:4222")


def cause(error: BaseException) -> str:
    """Why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no response"
    if re.search("authori|authenti", str(error), re.IGNORECASE):
        return "it rejects the credentials"
    text = error.strerror if isinstance(error, OSError) else ""
    return text or str(error) or type(error).__name__


def _read(path: str) -> tuple[bytes, bytes]:
    """The JWT and the private key of a credentials file. Raises OSError, ValueError."""
    text = Path(path).read_text(errors="replace")
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise ValueError(f"{path} has no NATS user JWT and NKEY seed")
    try:
        data = base64.b32decode(seed[1] + "=" * (-len(seed[1]) % 8))
    except binascii.Error:
        data = b""
    key, checksum = data[_PREFIX:-_SUM], data[-_SUM:]
    if len(key) != _KEY or binascii.crc_hqx(data[:-_SUM], 0) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{path} has an NKEY seed that is damaged")
    return jwt[1].encode(), key


def _readable(path: str) -> tuple[bytes, bytes]:
    """The same while the client connects, which expects OSError only."""
    try:
        return _read(path)
    except ValueError as error:
        raise ConnectionError(str(error)) from None
