"""The tokens of a gateway for an agent: its own (the client credentials grant of OAuth 2, RFC 6749, 4.4), and
tokens on behalf of its callers (token exchange, RFC 8693).
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from cachetools import LRUCache

from a2a_bridge.core.call import CallContext, entries_of
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.gateway.credentials.sending import takes_bearer_token
from a2a_bridge.gateway.credentials.token_endpoint import (
    CachedToken,
    Token,
    TokenEndpoint,
    TokenRejectedError,
)
from a2a_bridge.pb import lf_a2a_v1 as hub


class ClientCredentials:
    """The gateway's own token for an agent, see `UpstreamCredentials`. scope: separated by spaces. audience:
    as providers beside the standard name it; resource: of RFC 8707. clock: seconds.
    """

    names = frozenset({"authorization"})
    made_from: frozenset[str] = frozenset()
    is_own = True

    def __init__(
        self,
        endpoint: TokenEndpoint,
        *,
        scope: str = "",
        audience: str = "",
        resource: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._form = {
            "grant_type": "client_credentials",
            "scope": scope,
            "audience": audience,
            "resource": resource,
        }
        self._token = CachedToken(clock)

    async def of(self, _context: CallContext) -> Mapping[str, str]:
        """The token. Raises UNAVAILABLE while there is none."""
        return {"authorization": f"Bearer {await self._token.get(self._request)}"}

    def invalidate(self, rejected: Mapping[str, str], _context: CallContext) -> bool:
        """Forgets the token."""
        return self._token.invalidate(rejected["authorization"].removeprefix("Bearer "))

    def fits(self, scheme: hub.SecurityScheme) -> bool:
        """Whether the scheme takes bearer tokens that clients get for themselves."""
        if scheme.WhichOneof("scheme") == "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow")
            return flow in (None, "client_credentials")
        return takes_bearer_token(scheme)

    async def _request(self) -> Token:
        return await self._endpoint.request(self._form)


_log = logging.getLogger("a2a_bridge.gateway")

#: tokens of callers for which an exchanged token is kept
MOST = 4096
#: seconds for which a rejected token is not tried again
REJECTED = 30.0

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  the name of a type
#: the codes of a token that this subject cannot have, or nobody
_DOUBTFUL = ("invalid_scope", "invalid_target")
#: the codes of a subject token that is not accepted (RFC 8693, 2.2.2). Providers say invalid_grant and
#: invalid_token, too, such as Keycloak for a session that has ended; or the action of the user that another
#: token needs (OpenID Connect, 3.1.2.6)
_NOT_ACCEPTED = (
    "invalid_request",
    "invalid_grant",
    "invalid_token",
    "interaction_required",
    "login_required",
    "consent_required",
    *_DOUBTFUL,
)
_DENIED = "access_denied"


class TokenExchange:
    """A token for the agent on behalf of the caller, see `UpstreamCredentials`.

    Rules:
    1. Only a bearer token that the edge has verified is exchanged: the principal of the call has its claims.
       Any other caller gets UNAUTHENTICATED.
    2. At most `MOST` tokens are kept, by the digest of the caller's token, in LRU order.
    3. A token that the identity provider does not exchange is UNAUTHENTICATED, and not tried again for
       `REJECTED` seconds.
    4. The failure for one caller does not concern the others, as far as that is known (see `TokenEndpoint`).

    scope, audience, resource: of the wanted token (RFC 8693, 2.1).
    subject_type: the type of callers' tokens. clock: seconds.
    """

    names = frozenset({"authorization"})
    made_from = frozenset({"authorization"})
    is_own = False

    def __init__(
        self,
        endpoint: TokenEndpoint,
        *,
        scope: str = "",
        audience: str = "",
        resource: str = "",
        subject_type: str = _ACCESS_TOKEN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": subject_type,
            "requested_token_type": _ACCESS_TOKEN,
            "scope": scope,
            "audience": audience,
            "resource": resource,
        }
        self._clock = clock
        self._tokens: LRUCache[bytes, CachedToken] = LRUCache(MOST)
        #: rejected tokens: when they were rejected, and whether that was for lack of permission
        self._rejected: LRUCache[bytes, tuple[float, bool]] = LRUCache(MOST)
        self._has_worked = False

    async def of(self, context: CallContext) -> Mapping[str, str]:
        """The token for the caller. Raises UNAUTHENTICATED, PERMISSION_DENIED, UNAVAILABLE."""
        subject = _subject(context)
        key = hashlib.sha256(subject.encode()).digest()
        rejected = self._rejected.get(key)
        if rejected is not None:
            if self._clock() - rejected[0] < REJECTED:
                raise _rejection(is_denied=rejected[1])
            del self._rejected[key]
        cached = self._tokens.get(key)
        if cached is None:
            cached = self._tokens[key] = CachedToken(self._clock)
        # A caller may have many tokens.
        caller = context.principal.name if context.principal is not None else ""
        token = await cached.get(partial(self._request, key, subject, caller))
        return {"authorization": f"Bearer {token}"}

    def invalidate(self, rejected: Mapping[str, str], context: CallContext) -> bool:
        """Forgets the token of the caller."""
        cached = self._tokens.get(hashlib.sha256(_subject(context).encode()).digest())
        return cached is None or cached.invalidate(rejected["authorization"].removeprefix("Bearer "))

    def fits(self, scheme: hub.SecurityScheme) -> bool:
        """Whether the scheme takes bearer tokens."""
        return scheme.WhichOneof("scheme") == "oauth2_security_scheme" or takes_bearer_token(scheme)

    async def _request(self, key: bytes, subject: str, caller: str) -> Token:
        try:
            token = await self._endpoint.request(
                {**self._form, "subject_token": subject},
                rejections=(*_NOT_ACCEPTED, _DENIED),
                caller=caller,
            )
        except TokenRejectedError as error:
            if error.code in _DOUBTFUL and not self._has_worked:
                text = "%r does not exchange the token of a caller: %s; --upstream-scope, --upstream-audience"
                _log.warning(
                    f"{text} and --upstream-resource say what is asked for", self._endpoint, error.code
                )
            else:
                _log.info("%r does not exchange the token of a caller: %s", self._endpoint, error.code)
            is_denied = error.code == _DENIED
            self._rejected[key] = self._clock(), is_denied
            self._tokens.pop(key, None)
            raise _rejection(is_denied=is_denied) from None
        self._has_worked = True
        return token


def _subject(context: CallContext) -> str:
    """The verified token of the caller. Raises UNAUTHENTICATED without a token."""
    header = context.parameters.get("authorization", "")
    scheme, _, token = header.partition(" ")
    token = token.strip()
    # Of the methods of the edge, only the method for bearer tokens gives claims of an issuer.
    verified = context.principal is not None and "iss" in context.principal.claims
    if not verified or scheme.lower() != "bearer" or not token or len(entries_of(header)) > 1:
        text = "the agent is called on behalf of its caller, which needs a bearer token for that"
        raise A2AError(Reason.UNAUTHENTICATED, text, blame=Blame.CALLER)
    return token


def _rejection(*, is_denied: bool) -> A2AError:
    if is_denied:
        text = "the identity provider does not let this caller use the agent"
        return A2AError(Reason.PERMISSION_DENIED, text, blame=Blame.CALLER)
    text = "the identity provider does not exchange this caller's bearer token for one of the agent"
    return A2AError(Reason.UNAUTHENTICATED, text, blame=Blame.CALLER)
