"""A small identity provider on a socket: discovery, JWKS, tokens. Its keys, answers and lies are the test's."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwk, jwt
from joserfc.errors import SecurityWarning

from tests.runtime.scene import uvicorn_running

AUDIENCE = "https://agent.example"


def new_key(kind: str = "EC", size: Any = "P-256", **parameters: Any) -> Any:
    """A private key with an id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        return jwk.generate_key(kind, size, {"use": "sig", **parameters}, auto_kid=True)


@dataclass
class Provider:
    """The state of the provider. answers: what it answers instead, by path: (status, body)."""

    issuer: str = ""
    keys: list[Any] = field(default_factory=lambda: [new_key()])
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    #: paths in the order of their requests
    asked: list[str] = field(default_factory=list)
    #: requests wait while it is clear
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_answer.set()

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token, valid unless the claims say otherwise; a claim of None is left out."""
        key = key or self.keys[0]
        algorithm = {"EC": "ES256", "RSA": "RS256", "OKP": "EdDSA"}[key.key_type]
        head = {"alg": algorithm, "kid": key.kid, **(header or {})}
        now = int(time.time())
        body = {"iss": self.issuer, "sub": "ann", "aud": AUDIENCE, "iat": now, "exp": now + 300, **claims}
        body = {name: value for name, value in body.items() if value is not None}
        head = {name: value for name, value in head.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # EdDSA, and keys that are small on purpose
            return jwt.encode(head, body, key, algorithms=[head["alg"]])

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        self.asked.append(path)
        await self.may_answer.wait()
        status, body = self.answers.get(path) or self._document(path)
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    def _document(self, path: str) -> tuple[int, bytes]:
        match path:
            case "/.well-known/openid-configuration":
                found: Any = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
            case "/keys":
                found = {"keys": [key.as_dict(private=False) for key in self.keys]}
            case _:
                return 404, b"{}"
        return 200, json.dumps(found).encode()


@asynccontextmanager
async def provider_running() -> AsyncIterator[Provider]:
    """A provider while the context is open."""
    provider = Provider()
    async with uvicorn_running(provider, lifespan="off") as url:
        provider.issuer = url
        yield provider
