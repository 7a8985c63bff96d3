"""The measured agent, or a gateway, as an ASGI application for `uvicorn` and `granian`.

MEASURED_UPSTREAM: host:port of the gRPC agent behind a gateway. MEASURED_LEGACY: not empty to serve 0.3 too.
"""

from __future__ import annotations

import os

from a2a_bridge.app.runtime import asgi, asgi_gateway
from a2a_bridge.cards import interface, select
from benchmarks.hosts import upstream_card
from benchmarks.servers.ours import measured_agent

_VERSIONS = ("1.0", "0.3") if os.environ.get("MEASURED_LEGACY") else ("1.0",)
_UPSTREAM = os.environ.get("MEASURED_UPSTREAM", "")
_INTERFACES = [
    interface(binding, version=version) for version in _VERSIONS for binding in ("JSONRPC", "HTTP+JSON")
]

if _UPSTREAM:
    _card = upstream_card(_UPSTREAM)
    app = asgi_gateway(_card, select(_card, known=["GRPC"]), _INTERFACES)
else:
    app = asgi(measured_agent, _INTERFACES)
