"""The router: chooses the upstream of a call and the tenant sent to it. It makes no connections.

Rules for tenants (spec 3.2.3, 4.4.6):
1. A tenant that names a route selects it and is not forwarded: the upstream gets the tenant of its own
   interface.
2. Any other tenant belongs to the upstream and is forwarded, if the gateway has a default route.
3. If the upstream's interface has a tenant, the gateway gives access to that tenant only: a caller with
   another tenant is rejected, so that callers reach only tenants that the operator opened.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service, reject, reject_stream


class Route:
    """The destination of a call. tenant: of the upstream's interface; empty if it has none."""

    __slots__ = ("service", "tenant")

    def __init__(self, service: Service, tenant: str = "") -> None:
        self.service = service
        self.tenant = tenant


class Router:
    """Upstreams by tenant behind one service. Implements Service.

    default: for calls whose tenant names no route. Several agents under several paths are several mounts,
    each with its own service.
    """

    def __init__(self, default: Route | None = None, tenants: Mapping[str, Route] | None = None) -> None:
        self._default = default
        self._tenants = dict(tenants or {})
        if default is None and not self._tenants:
            raise ValueError("a router without routes")

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            service, routed = self._route(call)
        except A2AError as error:
            return reject(error)
        return service.unary(routed)

    def stream(self, call: Call[Req, Res], /) -> Events:
        try:
            service, routed = self._route(call)
        except A2AError as error:
            return reject_stream(error)
        return service.stream(routed)

    def _route(self, call: Call[Req, Res]) -> tuple[Service, Call[Req, Res]]:
        tenant = call.context.tenant
        if not tenant and self._default is not None:
            return self._default.service, call
        named = self._tenants.get(tenant)
        if named is not None:
            return named.service, without_tenant(call)
        if self._default is None:
            raise invalid_params("tenant", "no such tenant" if tenant else "a tenant is required here")
        if self._default.tenant not in ("", tenant):
            raise invalid_params("tenant", "this tenant is not served here")
        return self._default.service, call


def without_tenant(call: Call[Req, Res]) -> Call[Req, Res]:
    """The call without its tenant."""
    request: Any = type(call.request)()
    request.CopyFrom(call.request)
    request.ClearField("tenant")
    return Call(call.operation, request, call.context.replace(tenant=""))
