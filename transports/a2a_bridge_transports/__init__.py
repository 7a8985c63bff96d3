"""The transports that come with a2a_bridge, one folder each; no protocol version is known here.

A folder is found by the name of its kind (`HTTP+JSON` → `http_json`) and holds four files: `__init__.py` with
the `BINDING`, `wire.py` with pure functions between bytes and frames, `server.py` which takes a Service, and
`client.py` which is one. What HTTP bindings share is in `_http`; nothing else is shared. A new transport
passes `a2a_bridge.testing.contracts.BindingContract`.
"""
