"""The agents behind a common gRPC address, found by tenant or host name.

Rules:
1. The tenant that names an agent ends here: the agent sees a call without it. Other tenants belong to the
   agent that is found otherwise.
2. A host name counts where the server sees the authority of a call, which grpc.aio does not show.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from a2a_bridge.agents.member import Member
from a2a_bridge.cards.build import host_of
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service, reject, reject_stream
from a2a_bridge.dialects import GRPC
from a2a_bridge.dialects.known import version_not_supported
from a2a_bridge.gateway.connections import without_tenant


class Directory:
    """The agents behind the common gRPC address; implements Service."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return reject(error)
        return service.unary(routed)

    def stream(self, call: Call[Any, Any], /) -> Events:
        try:
            service, routed = self._find(call)
        except A2AError as error:
            return reject_stream(error)
        return service.stream(routed)

    def _find(self, call: Call[Req, Res]) -> tuple[Service, Call[Req, Res]]:
        tenant, origin = call.context.tenant, call.context.origin
        member = self._members.get(tenant) if tenant else None
        if member is not None:
            call = without_tenant(call)
        else:
            host = host_of(origin.base_url)
            found = [one for one in self._members.values() if one.entry.at_root or host in one.entry.names]
            member = next((one for one in found if not one.entry.at_root), found[0] if found else None)
        if member is None:
            text = (
                "is the name of none of the agents here" if tenant else "has to be the name of an agent here"
            )
            raise invalid_params("tenant", text)
        if member.service is None:
            if elsewhere := _own_address(member):
                raise invalid_params(
                    "tenant", f"names an agent that is not here over gRPC, but at {elsewhere}"
                )
            raise A2AError(Reason.UNAVAILABLE, "the agent is not available", blame=Blame.SELF)
        if not any(one.version == origin.version for one in member.versions):
            raise version_not_supported(
                f"this agent is not served in {origin.version} over gRPC", member.versions
            )
        return member.service, call


def _own_address(member: Member) -> str:
    """The gRPC address of an agent that is not on the common one; empty if it has none, or is not there."""
    if member.server is None or member.is_common:
        return ""
    found = (one.url for one in member.server.card.supported_interfaces if one.protocol_binding == GRPC.name)
    return next(found, "")
