"""A small identity provider on a socket: discovery, JWKS, tokens. Tests choose its keys, answers and lies."""

import asyncio
import base64
import json
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from joserfc import jwk, jwt
from joserfc.errors import JoseError, SecurityWarning

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
    #: clients of the token endpoint, and their secrets
    clients: dict[str, str] = field(default_factory=lambda: {"bridge": "s3cret:+/"})
    #: how clients may authenticate: client_secret_basic, client_secret_post
    methods: list[str] = field(default_factory=lambda: ["client_secret_basic", "client_secret_post"])
    #: callers whose tokens are not exchanged, and the code of the error
    refused: dict[str, str] = field(default_factory=lambda: {"mallory": "access_denied"})
    #: seconds that tokens of the endpoint are valid
    lifetime: int = 300
    #: the requests to the token endpoint: their forms, without secrets, with `method` of authentication
    grants: list[dict[str, str]] = field(default_factory=list)
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

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        self.asked.append(path)
        await self.may_answer.wait()
        sent = b""
        while (part := await receive()).get("more_body") or part.get("body"):
            sent += part["body"]
            if not part.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if path == "/token":
            found = self._issue(headers, dict(parse_qsl(sent.decode())))
        else:
            found = self._document(path)
        status, body = self.answers.get(path) or found
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    def _document(self, path: str) -> tuple[int, bytes]:
        match path:
            case "/.well-known/openid-configuration":
                found: Any = {
                    "issuer": self.issuer,
                    "jwks_uri": f"{self.issuer}/keys",
                    "token_endpoint": f"{self.issuer}/token",
                    "token_endpoint_auth_methods_supported": self.methods,
                }
            case "/keys":
                found = {"keys": [key.as_dict(private=False) for key in self.keys]}
            case _:
                return 404, b"{}"
        return 200, json.dumps(found).encode()

    def _issue(self, headers: dict[str, str], form: dict[str, str]) -> tuple[int, bytes]:
        """The answer of the token endpoint (RFC 6749, RFC 8693)."""
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            client, secret = map(unquote_plus, base64.b64decode(credentials).decode().split(":"))
            method = "client_secret_basic"
        else:
            client, secret = form.pop("client_id", ""), form.pop("client_secret", "")
            method = "client_secret_post"
        self.grants.append({**form, "method": method})
        if method not in self.methods or self.clients.get(client) != secret:
            return 401, b'{"error": "invalid_client", "error_description": "secret s3cret:+/ is wrong"}'
        claims = {"sub": client, "aud": form.get("audience", AUDIENCE), "scope": form.get("scope", "")}
        if form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange":
            try:
                subject = jwt.decode(form["subject_token"], self.keys[0], algorithms=["ES256"])
            except (JoseError, KeyError, ValueError):
                return 400, b'{"error": "invalid_request"}'
            if (code := self.refused.get(subject.claims["sub"])) is not None:
                return 400, json.dumps({"error": code}).encode()
            claims |= {"sub": subject.claims["sub"], "act": {"sub": client}}
        elif form["grant_type"] != "client_credentials":
            return 400, b'{"error": "unsupported_grant_type"}'
        token = self.token(exp=int(time.time()) + self.lifetime, jti=str(len(self.grants)), **claims)
        answer = {"access_token": token, "token_type": "bearer", "expires_in": self.lifetime}
        return 200, json.dumps(answer).encode()


@asynccontextmanager
async def provider_running() -> AsyncIterator[Provider]:
    """A provider while the context is open."""
    provider = Provider()
    async with uvicorn_running(provider, lifespan="off") as url:
        provider.issuer = url
        yield provider
