"""What can be said about sending notifications. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from a2a_bridge.push.ssrf_policy import PORTS, SCHEMES, Allowed, SsrfPolicy


@dataclass(frozen=True, slots=True)
class PushOptions:
    """Habits and limits. Times in seconds.

    allow: hosts, addresses and networks that may be posted to although the guard would refuse them: see
        `Allowed.parse`. ports, schemes: what everybody else's URLs may have. signing_keys: private keys, PEM
        or JWK, to sign notifications with; the first signs. issuer: who says so; empty for the public URL of
        who serves, or the name of the agent. timeout: for one attempt. attempts: how often one notification
        is tried at most. age: for how long. first, longest: the pauses between attempts grow from one to the
        other; the real ones are random below that.
    longest_wish: how long a pause a receiver may ask for with Retry-After.
    at_once: how many notifications are on their way at one time. each: how many of them to one target.
    trip: failures in a row after which a target is left alone for a while.
    """

    allow: tuple[str, ...] = ()
    ports: frozenset[int] = PORTS
    schemes: frozenset[str] = SCHEMES
    signing_keys: tuple[str, ...] = field(default=(), repr=False)
    issuer: str = ""
    timeout: float = 15.0
    attempts: int = 100
    age: float = 24 * 3600.0
    first: float = 1.0
    longest: float = 600.0
    longest_wish: float = 3600.0
    at_once: int = 64
    each: int = 8
    trip: int = 5

    def guard(self) -> SsrfPolicy:
        """The policy these options make. Raises ValueError for what cannot be allowed."""
        return SsrfPolicy([Allowed.parse(text) for text in self.allow], self.ports, self.schemes)
