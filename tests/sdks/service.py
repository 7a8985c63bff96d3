"""An SDK's client in another language as a Service of ours, over the line protocol (lines.md)."""

import json
from contextlib import aclosing
from typing import Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import JSONRPC, V1_0, signed_extras
from tests.peers.processes import PeerClient, PeerError

_FORM = V1_0.form(JSONRPC)
_ROWS = {row.operation: _FORM.row(row.operation) for row in _FORM.rows}

#: names of errors that an SDK encodes differently
_ENCODED = {"UNAUTHORIZED": "PERMISSION_DENIED", "INTERNAL": "INTERNAL_ERROR"}


class LineService:
    """Calls an agent through the client of an SDK. The answer is that of the SDK."""

    def __init__(self, client: PeerClient, binding: str, origin: str) -> None:
        """origin: where the agent's card is."""
        self._client = client.of(binding, origin)

    async def unary(self, call: Call[Any, Any], /) -> Any:
        row = _ROWS[call.operation]
        params = _sealed(row.encode_request(call.request))
        try:
            result = await self._client.unary(row.address, params)
        except PeerError as error:
            raise _rejection(error) from error
        return row.decode_response(_opened(result))

    async def stream(self, call: Call[Any, Any], /) -> Events:
        row = _ROWS[call.operation]
        params = _sealed(row.encode_request(call.request))
        events = self._client.stream(row.address, params)
        try:
            async with aclosing(events):
                async for event in events:
                    yield Event(row.decode_response(_opened(event)))
        except PeerError as error:
            raise _rejection(error) from error


# --- As the bindings of the bridge do with the content beside messages ---
def _sealed(tree: Any) -> Any:
    return json.loads(signed_extras.dumps(tree))


def _opened(tree: Any) -> Any:
    return signed_extras.loads(json.dumps(tree).encode())


def _rejection(error: PeerError) -> A2AError:
    name = _ENCODED.get(error.tree["type"], error.tree["type"])
    reason = Reason[name] if name in Reason.__members__ else Reason.INTERNAL_ERROR
    return A2AError(reason, error.tree["message"], blame=Blame.PEER)
