"""What is known of single implementations that call us: how to recognise them, and their quirks as fields.

A dialect says what a version is; a profile says how one implementation deviates from it. Only what cannot be done for
every caller needs a profile. Bindings ask for the quirk, never for the user agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class CallerProfile:
    """One implementation of the client side."""

    #: for people
    name: str
    #: how its User-Agent begins; None for a request without one
    user_agent: str | None
    #: in the answer to a streaming call it reads events only: a JSON body counts as an empty stream that succeeded
    events_only: bool
    #: where its source shows the quirks
    source: str

    def calls(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers comes from this implementation."""
        agent = headers.get("User-Agent")
        if self.user_agent is None or not agent:
            return self.user_agent is None and not agent
        return agent.startswith(self.user_agent)


PROFILES = (
    CallerProfile("a2a-go 2", "Go-http-client", True, "a2aclient/jsonrpc.go and internal/sse of v2.3.1"),
    CallerProfile("A2A .NET 1.0 previews", None, True, "A2AClient.cs before a2a-dotnet #476"),
)


def reads_events_only(headers: Mapping[str, str], *, declares: bool) -> bool:
    """Whether the caller of a JSON-RPC stream wants an error before the first event as an event, not as JSON.

    headers: of the request, names in any case. declares: whether callers of its version send A2A-Version. Those that do
    may expect plain JSON although they accept events only, so that the implementation has to be known; callers of 0.x
    that can read JSON say so in Accept.
    """
    accepted = headers.get("Accept", "").lower()
    if declares:
        return accepted.strip() == EVENTS and any(
            profile.events_only and profile.calls(headers) for profile in PROFILES
        )
    media = {part.partition(";")[0].strip() for part in accepted.split(",")}
    return EVENTS in media and media.isdisjoint({"application/json", "*/*"})
