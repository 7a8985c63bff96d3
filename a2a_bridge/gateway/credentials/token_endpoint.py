"""The token endpoint of an identity provider (RFC 6749, 3.2), as its client.

Rules:
1. Requests go to the URL that the operator named, or that the discovery document of the named issuer names
   (`a2a_bridge.auth.key_set`). Redirects are not followed.
2. After a failure the endpoint gets no requests for a pause, which grows. A log line tells the first failure
   of a series, and another the end of the series.
3. A grant on behalf of a caller can fail because of that caller. So the pause concerns this caller only,
   until the grant of another caller has failed, too, without a success between the two failures. An error
   code pauses other callers only if it is about this client.
4. Tokens and secrets, and texts of the endpoint that may repeat them, are never logged. Error codes are.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from cachetools import LRUCache

from a2a_bridge.auth.key_set import Endpoint, endpoint, fetch_options, json_object
from a2a_bridge.bindings.binding import Fetched, http_post
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.places import place_of
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.option_classes import ClientMethod

_log = logging.getLogger("a2a_bridge.gateway")

#: seconds for one request
_TIMEOUT = 10.0
#: the first and the longest pause after failures, in seconds
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: the longest pause that an endpoint may ask for, in seconds
_LONGEST_WISH = 300.0
#: the lifetime of a token without a stated lifetime, and the longest lifetime, in seconds
_LIFETIME, _LONGEST_LIFETIME = 300.0, 24 * 3600.0
#: characters of a token (RFC 6750, 2.1)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_CODE = re.compile(r"[a-z_]{1,60}")
#: error codes about this client, with any grant (RFC 6749, 5.2)
_OF_CLIENT = frozenset({"invalid_client", "unsupported_grant_type"})
#: callers with a pause that is remembered
_MOST = 4096


class TokenRejectedError(Exception):
    """The endpoint rejected a request. code: of RFC 6749, 5.2."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class _Series:
    """Failures without a success between them."""

    failures: int = 0
    closed_until: float = 0.0


class TokenEndpoint:
    """A token endpoint and our identity there.

    url: the endpoint; empty: the endpoint that `issuer` names. secret: reads the secret, which may change.
    method: empty: as the issuer says, else `basic`. ca: PEM file of trusted authorities; empty: the
    authorities of the system. clock: seconds. Raises ValueError without an URL, issuer or client id.
    """

    def __init__(
        self,
        *,
        url: str = "",
        issuer: str = "",
        client_id: str,
        secret: Callable[[], str],
        method: ClientMethod = "",
        ca: str = "",
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        named = url or issuer
        if urlsplit(named).scheme not in ("http", "https") or not urlsplit(named).hostname:
            raise ValueError("a token endpoint needs its http(s) URL, or that of its issuer")
        if not client_id:
            raise ValueError("a token endpoint needs a client id")
        place = place_of(named)
        if place is not None and not place.secure and not place.is_local:
            _log.warning("secrets go to %s without TLS: its URL begins with http://", named)
        self._url = url
        self._issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._method = method
        self._ca = ca
        self._clock = clock
        self._chance = chance
        self._found: Endpoint | None = Endpoint(url, named=True, document={}) if url else None
        #: the failures that concern everybody
        self._all = _Series()
        self._of_callers: LRUCache[str, _Series] = LRUCache(_MOST)
        #: the caller of the grant that failed last; None after a success
        self._failed: str | None = None

    def __repr__(self) -> str:
        return f"<TokenEndpoint {self._url or self._issuer}>"

    async def request(
        self, grant: Mapping[str, str], *, rejections: Sequence[str] = (), caller: str = ""
    ) -> Token:
        """A token for a grant, which is the request's form. Members without a value are not sent.

        rejections: error codes of a grant that is not accepted, raised as TokenRejectedError; every other
        failure is UNAVAILABLE. caller: the caller that the grant is for; empty for this client's own.
        """
        own = self._of_callers.get(caller)
        left = max(self._all.closed_until, 0.0 if own is None else own.closed_until) - self._clock()
        if left > 0:
            raise _unavailable(left)
        wish: float | None = None
        code, is_found = "", True
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = await self._post(grant)
            wish = _wish(answer)
            token = _token(answer)
        except TokenRejectedError as error:
            if error.code in rejections:
                self._note_success(caller)
                raise
            code = error.code
            problem = f"it rejects this gateway: {code}"
        except TimeoutError:
            problem = f"no answer in {_TIMEOUT:g} s"
        except (A2AError, OSError, ValueError) as error:
            problem = str(error)
            is_found = not isinstance(error, A2AError) or error.metadata.get("phase") != "connect"
        else:
            self._note_success(caller)
            return token
        # With any grant, an endpoint cannot be connected to, or is not found.
        concerns_all = not caller or not is_found or self._found is None or code in _OF_CLIENT
        if not code and not concerns_all:
            concerns_all = self._failed not in (None, caller)
            self._failed = caller
        raise _unavailable(self._note_failure(problem, wish, "" if concerns_all else caller)) from None

    async def _post(self, grant: Mapping[str, str]) -> Fetched:
        """The response to a grant. Raises A2AError, OSError, ValueError."""
        place = self._found
        if place is None:
            place = self._found = await endpoint(self._issuer, "token_endpoint", ca=self._ca)
        form = {name: value for name, value in grant.items() if value}
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        secret = self._secret()
        if self._authenticates_in_form(place):
            form |= {"client_id": self._client_id, "client_secret": secret}
        else:
            pair = f"{quote_plus(self._client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        async with http_post(fetch_options(named=place.named, ca=self._ca)) as post:
            return await post(place.url, headers, urlencode(form).encode())

    def _authenticates_in_form(self, place: Endpoint) -> bool:
        if self._method:
            return self._method == "post"
        # RFC 8414, 2: without the member it is client_secret_basic.
        offered = place.document.get("token_endpoint_auth_methods_supported")
        return (
            isinstance(offered, list)
            and "client_secret_post" in offered
            and "client_secret_basic" not in offered
        )

    def _note_success(self, caller: str) -> None:
        if self._all.failures:
            _log.warning("%r answers again", self)
        self._all = _Series()
        self._of_callers.pop(caller, None)
        self._failed = None

    def _note_failure(self, problem: str, wish: float | None, caller: str) -> float:
        """Starts a pause of a caller; empty: of all. Returns its seconds."""
        now = self._clock()
        series = self._of_callers.setdefault(caller, _Series()) if caller else self._all
        if now < series.closed_until:  # another request has just failed, too
            return series.closed_until - now
        if not series.failures:
            level = logging.INFO if caller else logging.WARNING
            text = "%r gives no token%s: %s; --upstream-token-url or --upstream-issuer names it"
            _log.log(level, text, self, " for a caller" if caller else "", problem)
        if not self._url and not caller:
            self._found = None  # it may have moved
        pause = min(_PAUSE * 2.0**series.failures, _LONGEST_PAUSE) * (0.5 + 0.5 * self._chance())
        series.failures = min(series.failures + 1, 30)
        pause = max(pause, min(wish or 0.0, _LONGEST_WISH))
        series.closed_until = now + pause
        return pause


def _unavailable(pause: float) -> A2AError:
    text = "this gateway has no credentials for the agent at present"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=max(pause, 0.001))


def _wish(answer: Fetched) -> float | None:
    """The seconds of a Retry-After header."""
    text = answer.headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _token(answer: Fetched) -> Token:
    """The token in a response. Raises TokenRejectedError, ValueError without the content of the response."""
    if answer.status in (400, 401, 403):
        try:
            code = json_object(answer.body).get("error")
        except ValueError:
            code = None
        if isinstance(code, str) and _CODE.fullmatch(code):
            raise TokenRejectedError(code)
    if answer.status != 200:
        raise ValueError(f"it answers {answer.status}")
    try:
        found = json_object(answer.body)
    except ValueError:
        raise ValueError("its answer is no JSON object") from None
    value, kind = found.get("access_token"), found.get("token_type")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise ValueError("its answer has no access_token that a header can hold")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise ValueError("its answer has a token_type other than Bearer")
    return Token(value, _lifetime(found.get("expires_in")))


def _lifetime(stated: Any) -> float:
    """Raises ValueError for a lifetime that is none."""
    if stated is None:
        return _LIFETIME
    try:
        # Some providers write it as text.
        seconds = float(stated) if not isinstance(stated, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if math.isnan(seconds) or seconds < 0:
        raise ValueError("its answer has an expires_in that is no time")
    return min(seconds, _LONGEST_LIFETIME)


#: seconds between two renewals because of rejections
REJECTIONS = 10.0
#: the part of its lifetime, and the seconds at most, that a token is renewed before it expires
_EARLY_PART, _EARLY = 0.2, 60.0
#: the same, that it is no longer used before it expires: calls take time, and clocks differ
_UNUSED_PART, _UNUSED = 0.05, 5.0


class Token(NamedTuple):
    """An access token."""

    value: str
    #: seconds for which it is valid
    lifetime: float

    def __repr__(self) -> str:
        return f"<Token for {self.lifetime:g} s>"


class CachedToken:
    """A token of a token endpoint: requested once for all waiting callers, and renewed before it expires.

    Rules:
    1. A token that is about to expire is renewed beside the calls that still use it.
    2. A request that is running answers everybody who waits. A caller that leaves does not end it.
    3. A rejected token is forgotten, at most once in `REJECTIONS` seconds: an agent that rejects every token
       must not make us request one for each call.

    clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._value = ""
        self._renew_at = self._usable_until = 0.0
        self._renewing: asyncio.Task[A2AError | None] | None = None
        self._rejected_at: float | None = None

    async def get(self, request: Callable[[], Awaitable[Token]]) -> str:
        """A valid token. request: obtains one; raises A2AError. Raises the A2AError of the request."""
        now = self._clock()
        if self._value and now < self._usable_until:
            if now >= self._renew_at:
                self._start(request)
            return self._value
        with unsent():
            problem = await asyncio.shield(self._start(request))
        if problem is not None:
            raise _copy(problem)
        return self._value

    def invalidate(self, value: str) -> bool:
        """Forgets a token that was rejected. Returns whether another token may be accepted."""
        if value != self._value:
            return True
        now = self._clock()
        if self._rejected_at is not None and now - self._rejected_at < REJECTIONS:
            return False
        self._rejected_at = now
        self._value = ""
        return True

    def _start(self, request: Callable[[], Awaitable[Token]]) -> asyncio.Task[A2AError | None]:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(request), name="request token")
        return self._renewing

    async def _renew(self, request: Callable[[], Awaitable[Token]]) -> A2AError | None:
        """The error of a failed request."""
        now = self._clock()
        try:
            token = await request()
        except A2AError as error:
            return error
        self._value = token.value
        self._renew_at = now + token.lifetime - min(_EARLY, token.lifetime * _EARLY_PART)
        self._usable_until = now + token.lifetime - min(_UNUSED, token.lifetime * _UNUSED_PART)
        return None


def _copy(error: A2AError) -> A2AError:
    """A copy of the error: each caller raises its own."""
    made = A2AError(error.reason, error.message, blame=error.blame, retry_after=error.retry_after)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made
