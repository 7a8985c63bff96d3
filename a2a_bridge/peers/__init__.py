"""The quirks of single implementations of A2A: a table of profiles, and the recognition of peers."""

from a2a_bridge.peers.profile import (
    NEUTRAL,
    UNKNOWN,
    AgentSigns,
    CallerSigns,
    ErrorData,
    Evidence,
    Files,
    GrpcAddress,
    Profile,
    Quirks,
)
from a2a_bridge.peers.table import GROUP, USER_AGENT, Profiles, add_profile, caller, find_profile, profiles

__all__ = [
    "GROUP",
    "NEUTRAL",
    "UNKNOWN",
    "USER_AGENT",
    "AgentSigns",
    "CallerSigns",
    "ErrorData",
    "Evidence",
    "Files",
    "GrpcAddress",
    "Profile",
    "Profiles",
    "Quirks",
    "add_profile",
    "caller",
    "find_profile",
    "profiles",
]
