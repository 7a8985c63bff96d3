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
    #: how its user agent begins; None for a caller without one
    user_agent: str | None
    #: whether it sends A2A-Version
    declares: bool
    #: the media types of its Accept headers in a streaming call
    accepts: frozenset[str]
    #: in the answer to a streaming call it reads events only: a JSON body is an empty stream to it, or no typed error
    events_only: bool
    #: where its source shows the quirks
    source: str

    def calls(self, user_agent: str, accepts: frozenset[str], *, declares: bool) -> bool:
        """Whether a request with these headers comes from this implementation."""
        if declares is not self.declares or accepts != self.accepts:
            return False
        return not user_agent if self.user_agent is None else user_agent.startswith(self.user_agent)


PROFILES = (
    CallerProfile(
        "a2a-go 2",
        "Go-http-client",
        True,
        frozenset({EVENTS}),
        True,
        "v2.3.1, a2aclient/jsonrpc.go, internal/sse",
    ),
    CallerProfile(
        "A2A .NET 1.0 previews", None, True, frozenset({EVENTS}), True, "A2AClient.cs before a2a-dotnet #476"
    ),
    CallerProfile(
        "a2a-sdk 0.3 for Python",
        "python-httpx",
        False,
        # The defaults of its HTTP client are sent as well as the Accept of its event reader.
        frozenset({"*/*", EVENTS}),
        True,
        "0.3.26, client/transports/jsonrpc.py, line 165",
    ),
)


def reads_events_only(parameters: Mapping[str, str], *, declares: bool) -> bool:
    """Whether the caller of a JSON-RPC stream wants an error before the first event as an event, not as JSON.

    parameters: the request's headers, repeated ones joined by commas. declares: whether callers of its version send
    A2A-Version. Those that do may expect plain JSON although they accept events only, so that the implementation has to
    be known; callers of 0.x that can read JSON say so in Accept.
    """
    parts = parameters.get("accept", "").lower().split(",")
    accepts = frozenset(part.partition(";")[0].strip() for part in parts)
    if not declares and EVENTS in accepts and accepts.isdisjoint({"application/json", "*/*"}):
        return True
    user_agent = parameters.get("user-agent", "")
    return any(
        profile.events_only and profile.calls(user_agent, accepts, declares=declares) for profile in PROFILES
    )
