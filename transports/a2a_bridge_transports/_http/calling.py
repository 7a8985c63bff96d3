"""What the client sides of the HTTP bindings share: rows, tenants, versions. Not a binding."""

from __future__ import annotations

import time
from typing import Any

from a2a_bridge.bindings import DialOptions
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import Dialect, Form, Kind, Row
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.parameters import request_headers
from a2a_bridge_transports._http.session import Exchanger

#: events are small and late ones are useless: nothing between us and the agent shall hold them back
STREAM_HEADERS = {"Accept-Encoding": "identity", "Cache-Control": "no-store"}


class ClientSide:
    """One dialled interface.

    Raises ValueError when the dialect has no form for the kind.
    """

    def __init__(
        self,
        kind: Kind[Any, Any],
        interface: hub.AgentInterface,
        dialect: Dialect,
        options: DialOptions,
        exchanger: Exchanger,
    ) -> None:
        form = dialect.form(kind)
        if form is None:
            raise ValueError(f"{dialect} cannot be spoken over {kind.name}")
        self.form: Form[Any, Any] = form
        self.options = options
        self.exchanger = exchanger
        self._rows: dict[Any, Row[Any, Any]] = {row.operation: row for row in form.rows}
        self._version = dialect.version
        self._tenant = interface.tenant

    def row(self, call: Call[Any, Any]) -> Row[Any, Any]:
        """The row of a call. Raises UNSUPPORTED_OPERATION when the version lacks the operation."""
        row = self._rows.get(call.operation)
        if row is None:
            text = f"version {self._version} has no {call.operation.name}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"operation": call.operation.name})
        return row

    def addressed(self, request: Any) -> Any:
        """The request with the interface's tenant, where it names none (spec 4.4.6)."""
        if not self._tenant or request.tenant:
            return request
        copy = type(request)()
        copy.CopyFrom(request)
        copy.tenant = self._tenant
        return copy

    def headers(self, call: Call[Any, Any]) -> dict[str, str]:
        """The headers of a call. Raises INVALID_PARAMS for a parameter that no header can hold."""
        return request_headers(self._version, call.context, self.options, time.monotonic())
