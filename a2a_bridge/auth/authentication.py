"""The methods of one server together: they identify callers, and the card says what they ask for.

Rules:
1. A caller needs one of the methods. The first method whose credential a request presents decides; an invalid
   credential is rejected even if another one of the request is valid.
2. The credential of the edge stays here: a gateway forwards its parameters only where the operator names
   them.
3. The card shows the methods of the edge in place of the agent's own security, which is behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from a2a_bridge.cards.read import change_extended_card
from a2a_bridge.cards.select import without_security
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.service import Middleware
from a2a_bridge.pb import lf_a2a_v1 as hub


class Method(Protocol):
    """One way to identify callers."""

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


@runtime_checkable
class Opens(Protocol):
    """A method that has something to read before the first call."""

    async def open(self) -> None:
        """Reads it. A failure is logged, and tried again by calls."""
        ...


@runtime_checkable
class Lapses(Protocol):
    """A method whose callers may stop to count while a stream of theirs is open."""

    def counts(self, principal: Principal) -> bool:
        """Whether a caller whom this method has identified would be identified again."""
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
        self._lapsing: dict[str, list[Lapses]] = {}
        for method in self._methods:
            if isinstance(method, Lapses):
                self._lapsing.setdefault(method.scheme_name, []).append(method)

    async def __call__(self, presented: Presented) -> Principal:
        """The caller of a request. Raises UNAUTHENTICATED, and UNAVAILABLE while it cannot be decided."""
        for method in self._methods:
            principal = await method.identify(presented)
            if principal is not None:
                return principal
        raise UnauthenticatedError("", self._challenges)

    def can_lapse(self, principal: Principal) -> bool:
        """Whether a caller may stop to count."""
        return principal.method in self._lapsing

    def lapsed(self, principal: Principal) -> UnauthenticatedError | None:
        """The error of a caller who no longer counts; None for any other."""
        methods = self._lapsing.get(principal.method, ())
        if not methods or any(one.counts(principal) for one in methods):
            return None
        return UnauthenticatedError("The credentials of this stream are no longer valid", self._challenges)

    async def open(self) -> None:
        """Reads what methods need, such as the keys of an identity provider, before the first call."""
        await asyncio.gather(*(one.open() for one in self._methods if isinstance(one, Opens)))

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
