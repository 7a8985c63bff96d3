"""The layers for spans and metrics, in a module that loads neither of their libraries. No tests."""

from typing import Any

from a2a_bridge.app.layers import CLIENT, SERVER, ClientSide, Layer, ServerSide
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.pb import lf_a2a_v1 as hub

BOTH = ["spans of the server", "spans of the client"]


def observing(tracing: Any) -> list[str]:
    """The layers for spans and metrics that a server and a client have with a setting."""
    served = ServerSide(ServeOptions(tracing=tracing), hub.AgentCard(name="x"))
    rows: list[tuple[Layer[Any, Any], Any]] = [(row, served) for row in SERVER]
    rows += [(row, ClientSide(tracing=tracing)) for row in CLIENT]
    return [row.name for row, of in rows if row.name.startswith(("spans", "metrics")) and row.make(of)]
