"""The methods of one server together: they identify callers, and the card says what they ask for.

Rules:
1. A caller needs one of the methods. The first method whose credential a request presents decides; an invalid
   credential is rejected even if another one of the request is valid.
2. The credential of the edge stays here: a gateway forwards parameters only where the operator names them.
3. The card shows the methods of the edge in place of the agent's own security, which is behind it.
4. Client certificates (mutual TLS) have been verified by the listener, when the connection was opened or, if
   it resumes a session of TLS, when that one was. So their date is looked at with each call, whichever method
   identifies the caller. Only trusted proxies name callers.
5. A transport of another package that ignores `HostOptions.authenticate` would admit every caller, without a
   sign of it: middleware behind it rejects callers that it has not identified. Our own transports are tested
   for it, and need no check of each call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from a2a_bridge.cards.read import change_extended_card
from a2a_bridge.cards.select import without_security
from a2a_bridge.core.addresses import Trust
from a2a_bridge.core.call import Call, Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError, parameter_of
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.extras import load
from a2a_bridge.core.service import Middleware, reject_if
from a2a_bridge.pb import lf_a2a_v1 as hub


class Method(Protocol):
    """One way to identify callers.

    A method can have `async def open(self) -> None`, which reads something before the first call; a failure
    is logged, and tried again by calls. And it can have `counts(self, principal) -> bool`, if its callers may
    lose their rights while they have an open stream: whether a caller whom this method has identified would
    be identified again.
    """

    #: name of its scheme in the card
    @property
    def scheme_name(self) -> str: ...

    #: names of the service parameters that hold its credential, in lower case
    @property
    def parameters(self) -> Collection[str]: ...

    #: value for WWW-Authenticate (RFC 9110, 11.6.1); empty for none
    @property
    def challenge(self) -> str: ...

    def scheme(self) -> hub.SecurityScheme | None:
        """How the card describes it; None if the card does not."""
        ...

    async def identify(self, presented: Presented) -> Principal | None:
        """The caller; None if the request presents no credential of this kind. Raises UNAUTHENTICATED for an
        invalid one, UNAVAILABLE while it cannot decide.
        """
        ...


class UncheckedCredentialsError(ValueError):
    """A card demands credentials, and nothing of the server checks them: everybody would be let in.

    agent: its name. schemes: names of the demanded schemes.
    """

    def __init__(self, agent: str, schemes: tuple[str, ...]) -> None:
        demanded = ", ".join(schemes)
        super().__init__(
            f"the card of {agent!r} asks for credentials ({demanded}), and nothing here checks them: set"
            " ServeOptions.authentication, or allow_unauthenticated where something in front checks them"
        )
        self.agent = agent
        self.schemes = schemes


class Authentication:
    """The methods of a server. Raises ValueError without any."""

    def __init__(self, methods: Sequence[Method]) -> None:
        if not methods:
            raise ValueError("authentication needs a method")
        self._methods = tuple(methods)
        #: names of the service parameters with credentials, in lower case
        self.parameters = frozenset(name for method in self._methods for name in method.parameters)
        challenges = tuple(dict.fromkeys(method.challenge for method in self._methods if method.challenge))
        self._challenges = challenges
        #: by the name of a method, whether a caller still counts
        self._lapsing: dict[str, list[Callable[[Principal], bool]]] = {}
        self._certificates = [one for one in self._methods if isinstance(one, ClientCertificates)]
        for method in self._methods:
            if (counts := getattr(method, "counts", None)) is not None:
                self._lapsing.setdefault(method.scheme_name, []).append(counts)

    @property
    def key_header(self) -> str:
        """The header with API keys; empty without such a method. Clients of other protocols than A2A send a
        key as a bearer token.
        """
        schemes = (method.scheme() for method in self._methods)
        keys = (one.api_key_security_scheme for one in schemes if one is not None)
        return next((one.name for one in keys if one.location == "header"), "")

    async def __call__(self, presented: Presented) -> Principal:
        """The caller of a request. Raises UNAUTHENTICATED, and UNAVAILABLE while it cannot be decided."""
        until = self._certificates[0].until(presented) if self._certificates else None
        for method in self._methods:
            principal = await method.identify(presented)
            if principal is not None:
                return principal if until is None else replace(principal, until=until)
        raise UnauthenticatedError("", self._challenges)

    def can_lapse(self, principal: Principal) -> bool:
        """Whether a caller may stop to count."""
        return principal.until is not None or principal.method in self._lapsing

    def lapsed(self, principal: Principal) -> UnauthenticatedError | None:
        """The error of a caller who no longer counts; None for any other."""
        methods = self._lapsing.get(principal.method, ())
        has_expired = principal.until is not None and self._certificates[0].has_expired(principal.until)
        if not has_expired and (not methods or any(counts(principal) for counts in methods)):
            return None
        return UnauthenticatedError("The credentials of this call are no longer valid", self._challenges)

    async def open(self) -> None:
        """Reads what methods need, such as the keys of an identity provider, before the first call."""
        opens = (getattr(one, "open", None) for one in self._methods)
        await asyncio.gather(*(read() for read in opens if read is not None))

    def describe(self, card: hub.AgentCard) -> hub.AgentCard:
        """A copy of a card that asks for one of the methods, and for nothing else."""
        made = without_security(card)
        for method in self._methods:
            scheme = method.scheme()
            if scheme is not None:
                made.security_schemes[method.scheme_name].CopyFrom(scheme)
                made.security_requirements.add().schemes[method.scheme_name].SetInParent()
        return made


def describe_extended_card(authentication: Authentication) -> Middleware:
    """Middleware that describes the methods of the edge in GetExtendedAgentCard (spec 3.1.11)."""
    return change_extended_card(lambda card, _: authentication.describe(card))


#: certificates whose principals are remembered
_REMEMBERED = 1024


class ClientCertificates:
    """Identifies callers by their client certificate, until its date; see `Method`. Raises MissingExtraError
    without cryptography.

    The principal is the first URI of the subject alternative names (SPIFFE), else the first host name, else
    the subject (RFC 4514). identifies: False if only the date counts, because other methods name the caller.
    now: seconds since the epoch.
    """

    scheme_name = "mutualTLS"
    parameters: frozenset[str] = frozenset()
    challenge = ""

    def __init__(self, *, identifies: bool = True, now: Callable[[], float] = time.time) -> None:
        x509 = load("cryptography.x509", "auth")
        self._identifies = identifies
        self._now = now
        self._known = lru_cache(_REMEMBERED)(lambda certificate: _read(x509, certificate))

    def scheme(self) -> hub.SecurityScheme | None:
        """How the card describes it."""
        if not self._identifies:
            return None
        text = "A client certificate of an authority that this server trusts."
        return hub.SecurityScheme(mtls_security_scheme=hub.MutualTlsSecurityScheme(description=text))

    async def identify(self, presented: Presented) -> Principal | None:
        """The principal of the certificate; None if no certificate names anybody."""
        found = self._found(presented) if self._identifies else None
        return None if found is None else found.principal

    def until(self, presented: Presented) -> float | None:
        """When the certificate of a request expires, in seconds since the epoch; None without one. Raises
        UNAUTHENTICATED for one that has expired.
        """
        found = self._found(presented)
        if found is None:
            return None
        if self.has_expired(found.until):
            raise UnauthenticatedError("The client certificate has expired")
        return found.until

    def has_expired(self, until: float) -> bool:
        """Whether a date, in seconds since the epoch, is over."""
        return self._now() >= until

    def _found(self, presented: Presented) -> _Certificate | None:
        found = presented.certificate() if presented.certificate is not None else None
        return None if found is None else self._known(found)


class _Certificate(NamedTuple):
    """A client certificate. principal: None if it names nobody. until: seconds since the epoch."""

    principal: Principal | None
    until: float


def _read(x509: Any, certificate: bytes) -> _Certificate:
    """What a certificate (DER) says."""
    found = x509.load_der_x509_certificate(certificate)
    subject = found.subject.rfc4514_string()
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    uris, hosts = (
        [] if names is None else names.get_values_for_type(kind)
        for kind in (x509.UniformResourceIdentifier, x509.DNSName)
    )
    name = next((one for one in (*uris, *hosts, subject) if one), "")
    principal = Principal(name, {"subject": subject}, ClientCertificates.scheme_name) if name else None
    return _Certificate(principal, found.not_valid_after_utc.timestamp())


#: characters of a principal's name
_LONGEST = 512


class ProxyHeader:
    """Identifies callers by a header of a trusted proxy; see `Method`.

    header: its name. trusted: addresses and networks of proxies, or "*". Raises ValueError for an invalid
    entry, for no name of a header, and without any entry: then every caller could name itself.
    """

    scheme_name = "proxy"
    challenge = ""

    def __init__(self, header: str, trusted: tuple[str, ...]) -> None:
        if not trusted:
            raise ValueError("a header names the caller only where proxies are trusted; name their addresses")
        self._header = parameter_of(header)
        self._trust = Trust(trusted)
        self.parameters = frozenset({self._header})

    def scheme(self) -> hub.SecurityScheme | None:
        """None: the card cannot know what the proxy asks for."""
        return None

    async def identify(self, presented: Presented) -> Principal | None:
        """Raises UNAUTHENTICATED for a header of another peer, or with several names; see `Method`."""
        name = presented.credential(self._header)
        if name is None:
            return None
        if presented.peer not in self._trust:
            raise UnauthenticatedError("The header that names the caller comes from no trusted proxy")
        name = name.strip(" \t")  # the white space of HTTP only: a caller with another one is another caller
        # A server in between may have joined several headers by commas (RFC 9110, 5.3).
        if not name or len(name) > _LONGEST or "," in name or not name.isprintable():
            raise UnauthenticatedError("The header of the proxy does not name one caller")
        return Principal(name)


_log = logging.getLogger("a2a_bridge.auth")


def reject_unidentified(binding: str) -> Middleware:
    """Middleware that rejects calls without a principal as UNAUTHENTICATED. binding: its name."""
    logged = False

    def problem(call: Call[Any, Any]) -> A2AError | None:
        nonlocal logged
        if call.context.principal is not None:
            return None
        if not logged:
            logged = True
            _log.error(
                "%s does not identify its callers (HostOptions.authenticate): its calls are rejected", binding
            )
        return A2AError(Reason.UNAUTHENTICATED, f"{binding} does not identify callers")

    return reject_if(problem)
