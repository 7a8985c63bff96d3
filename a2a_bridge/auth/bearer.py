"""Bearer tokens that are JWTs (RFC 9068, OIDC), verified with the keys of their issuer.

Rules:
1. The algorithm comes from a list of the operator's, which has no symmetric one and no `none`, and a key
   verifies with the algorithms of its own kind only.
2. Header members that name a key (`jku`, `x5u`, `jwk`, `x5c`) are ignored. An unknown `crit` is rejected.
3. Issuer, audience and expiry are required; `exp`, `nbf` and `iat` have `LEEWAY` seconds. A member that
   stands twice is rejected, because readers differ on which one counts.
4. Verified tokens are remembered until they expire, for as long as the keys stay the same.
5. A token that is bound to a key of its sender (`cnf`, RFC 7800) counts only on a connection with the client
   certificate that it names (RFC 8705). Other proofs, such as DPoP (RFC 9449), are not checked here, so
   tokens that need them are rejected.
6. The caller learns that its token is not valid; the log (debug) has the reason. Neither has the token.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from cachetools import LRUCache

from a2a_bridge.auth.key_set import KeySetSource
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.extras import load
from a2a_bridge.core.option_classes import JwtValues
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.signing.canonical import parse_object
from a2a_bridge.signing.keys import ALGORITHMS, suits

_log = logging.getLogger("a2a_bridge.auth")

#: seconds by which clocks may differ
LEEWAY = 60
#: characters of a token
_LONGEST = 16 * 1024
#: a token: decoders pass over other characters, or take `/` for `_`
_SEGMENTS = re.compile(r"[A-Za-z0-9_.-]*")
#: verified tokens that are remembered
_REMEMBERED = 4096
#: media types of tokens that are for other purposes are rejected, such as `dpop+jwt` and `logout+jwt`
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
#: keys that are tried for a token without a key id
_MOST_TRIED = 8


class _Verified(NamedTuple):
    principal: Principal
    #: seconds since the epoch
    expires: float
    #: SHA-256 of the client certificate that it is bound to, in base64url; empty for a bearer token
    certificate: str
    generation: int


class BearerTokens:
    """Identifies callers by the JWT in `Authorization: Bearer`; see `Method`.

    issuer: the exact `iss`. audience: one of the token's `aud` has to be one of these. algorithms: of
    `ALGORITHMS`. claim: the claim that names the principal. discovery: whether `issuer` has a discovery
    document, for the card. streams_outlive: whether open streams go on after their token has expired. now:
    seconds since the epoch. Raises ValueError for missing or unknown values,
    MissingExtraError without joserfc.
    """

    scheme_name = "bearer"
    parameters = frozenset({"authorization"})
    challenge = 'Bearer realm="a2a"'
    _INVALID = (f'{challenge}, error="invalid_token"',)

    def __init__(
        self,
        issuer: str,
        audience: Collection[str],
        keys: KeySetSource,
        *,
        algorithms: Collection[str] = ALGORITHMS,
        claim: str = "sub",
        discovery: bool = True,
        streams_outlive: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not issuer or not audience or not all(audience):
            raise ValueError("tokens are checked against an issuer and an audience; both are required")
        unknown = [name for name in algorithms if name not in ALGORITHMS]
        if unknown or not algorithms:
            raise ValueError(f"{', '.join(unknown) or 'no algorithm'}: allowed are {', '.join(ALGORITHMS)}")
        self._jws = load("joserfc.jws", "auth")
        self._errors = load("joserfc.errors", "auth")
        jwt = load("joserfc.jwt", "auth")
        self._issuer = issuer
        self._keys = keys
        self._algorithms = frozenset(algorithms)
        self._claim = claim
        self._discovery = discovery
        self._streams_outlive = streams_outlive
        self._now = now
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(now()),
            leeway=LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "values": sorted(audience)},
            exp={"essential": True},
        )
        self._verified: LRUCache[bytes, _Verified] = LRUCache(_REMEMBERED)

    @classmethod
    def of(cls, options: JwtValues, keys: KeySetSource) -> BearerTokens:
        """From plain options. Raises as the class does."""
        return cls(
            options.issuer,
            options.audience,
            keys,
            algorithms=options.algorithms or ALGORITHMS,
            claim=options.claim,
            discovery=not options.jwks,
            streams_outlive=options.streams_outlive,
        )

    async def open(self) -> None:
        """Reads the keys for the first time; see KeySetSource."""
        await self._keys.open()

    def scheme(self) -> hub.SecurityScheme:
        """How the card describes it: OpenID Connect with its discovery URL, or a bearer token."""
        text = f"A JWT of {self._issuer}."
        if self._discovery:
            url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            connect = hub.OpenIdConnectSecurityScheme(open_id_connect_url=url, description=text)
            return hub.SecurityScheme(open_id_connect_security_scheme=connect)
        http = hub.HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="JWT", description=text)
        return hub.SecurityScheme(http_auth_security_scheme=http)

    async def identify(self, presented: Presented) -> Principal | None:
        """The principal of the token; see `Method`. Raises UNAVAILABLE also while no keys are known."""
        header = presented.credential("authorization", self._INVALID)
        if header is None:
            return None
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return None
        if len(token) > _LONGEST or not token.isascii():
            raise self._rejection("not one token")
        self._keys.refresh()
        # The digest of it, so that a dump of the memory has no tokens.
        name = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(name)
        if known is None or known.generation != self._keys.generation or self._now() >= known.expires:
            known = self._verified[name] = await self._verify(token)
        if known.certificate and known.certificate != _thumbprint(presented):
            raise self._rejection("it is bound to a client certificate that this connection has not")
        return known.principal

    def counts(self, principal: Principal) -> bool:
        """Whether the token of a caller has not expired, or streams outlive it."""
        return self._streams_outlive or self._now() < float(principal.claims["exp"]) + LEEWAY

    async def _verify(self, token: str) -> _Verified:
        """A token that is valid on a connection with its certificate. Raises UNAUTHENTICATED, UNAVAILABLE."""
        try:
            head = _head(token)
            algorithm, kid = head.get("alg"), head.get("kid")
            if algorithm not in self._algorithms:
                raise self._rejection(f"its algorithm is {algorithm!r:.40}")
            if "crit" in head or head.get("b64", True) is not True:
                raise self._rejection("it has critical header members")
            if kid is not None and not isinstance(kid, str):
                raise self._rejection("its key id is no text")
            if str(head.get("typ", "JWT")).lower() not in _TYPES:
                raise self._rejection("it is a token for another purpose")
            claims = await self._claims_of(token, algorithm, kid)
            self._claims.validate(claims)
            expires = float(claims["exp"])
        except self._errors.JoseError as error:
            raise self._rejection(str(error)) from None
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise self._rejection(type(error).__name__) from None
        subject = claims.get(self._claim)
        if not isinstance(subject, str) or not subject:
            raise self._rejection(f"it has no {self._claim}")
        principal = Principal(f"{self._issuer}#{subject}", claims, self.scheme_name)
        return _Verified(principal, expires, self._bound_to(claims), self._keys.generation)

    def _bound_to(self, claims: Mapping[str, Any]) -> str:
        """The certificate that a token is bound to; empty for a bearer token. Raises UNAUTHENTICATED."""
        if "cnf" not in claims:
            return ""
        match claims["cnf"]:
            case {"x5t#S256": str(thumbprint), **others} if thumbprint and not others:
                return thumbprint
        raise self._rejection("it is bound to a key of its sender, and the proof of that is not checked here")

    async def _claims_of(self, token: str, algorithm: str, kid: str | None) -> dict[str, Any]:
        """The claims under a valid signature. Raises UNAUTHENTICATED, JoseError, ValueError."""
        keys = await self._keys.find(kid, lambda key: suits(key, algorithm))
        for key in keys[:_MOST_TRIED]:
            try:
                # Only `alg` counts for the library: it never sees other keys than ours.
                with warnings.catch_warnings():
                    # Providers still say `EdDSA` for Ed25519; the list here decides about it.
                    warnings.simplefilter("ignore", self._errors.SecurityWarning)
                    found = self._jws.deserialize_compact(token, key, algorithms=[algorithm])
            except self._errors.JoseError:
                continue
            return parse_object(found.payload)
        raise self._rejection("no key of the issuer verifies it" if keys else "its key is unknown")

    def _rejection(self, reason: str) -> UnauthenticatedError:
        _log.debug("a token was rejected: %s", reason)
        return UnauthenticatedError("The bearer token is not valid", self._INVALID)


def _thumbprint(presented: Presented) -> str:
    """The client certificate of a request as tokens name it (RFC 8705, 3.1); empty without one."""
    found = presented.certificate() if presented.certificate is not None else None
    if found is None:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(found).digest()).rstrip(b"=").decode()


def _head(token: str) -> dict[str, Any]:
    """The header of a token. Raises ValueError."""
    if not _SEGMENTS.fullmatch(token):
        raise ValueError("not base64url")
    segment = token.partition(".")[0]
    return parse_object(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
