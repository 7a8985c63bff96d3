"""Refuses requests that lack REQUIRED members, the same on every binding. It knows no rule beyond the schema."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from a2a_bridge.codec import missing_required
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Middleware, Service, refused_stream


def validate() -> Middleware:
    """Middleware that raises INVALID_PARAMS naming every absent REQUIRED member (spec 1.4, field_behavior)."""
    return _Validate


class _Validate:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def unary(self, call: Call[Req, Res], /) -> Res:
        missing = missing_required(call.request)
        if missing:
            raise _refusal(missing)
        return await self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> AsyncGenerator[Res, None]:
        missing = missing_required(call.request)
        if missing:
            return refused_stream(_refusal(missing))
        return self._service.stream(call)


def _refusal(missing: list[str]) -> A2AError:
    violations = [Violation(path, "is required") for path in missing]
    text = f"{', '.join(missing)}: required"
    return A2AError(Reason.INVALID_PARAMS, text, violations=violations)
