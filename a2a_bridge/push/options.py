"""The options of push notifications. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from a2a_bridge.push.ssrf_policy import PORTS, SCHEMES, Allowed, SsrfPolicy


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How notifications are delivered. Times in seconds."""

    #: hosts, addresses and networks that the policy would reject, but may be posted to: see `Allowed.parse`
    allow: tuple[str, ...] = ()
    #: the ports of all other webhooks
    ports: frozenset[int] = PORTS
    #: the URL schemes of all webhooks
    schemes: frozenset[str] = SCHEMES
    #: private keys (PEM or JWK) that sign notifications; the first one signs, all are published
    signing_keys: tuple[str, ...] = field(default=(), repr=False)
    #: the issuer in signatures; empty for the public URL of the server, or the name of the agent
    issuer: str = ""
    #: time for one attempt
    timeout: float = 15.0
    #: the largest number of attempts for one notification
    attempts: int = 100
    #: time after which an undelivered notification becomes a dead letter
    age: float = 24 * 3600.0
    #: the upper bound of the random pause after the first attempt; it doubles with each attempt
    first: float = 1.0
    #: the largest upper bound of that pause
    longest: float = 600.0
    #: the longest pause that a receiver can ask for with Retry-After
    longest_retry_after: float = 3600.0
    #: concurrent deliveries; the last quarter is for targets that have no other
    at_once: int = 64
    #: concurrent deliveries to one target
    each: int = 8
    #: consecutive failures that open the circuit of a target
    trip: int = 5

    def policy(self) -> SsrfPolicy:
        """The policy of these options. Raises ValueError for an invalid `allow`."""
        return SsrfPolicy([Allowed.parse(text) for text in self.allow], self.ports, self.schemes)
