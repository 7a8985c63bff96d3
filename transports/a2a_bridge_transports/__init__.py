"""The transports that come with a2a_bridge, one folder each; no protocol version is known here.

A folder is found by the name of its kind (`HTTP+JSON` → `http_json`) and holds four files:

* `__init__.py` with the `BINDING`, an object as `ext.Binding` describes it: `mount` attaches
  a server side to a host, `dial` opens a client side;
* `wire.py`, pure functions between bytes and frames;
* `server.py`, which takes a Service: frame → row of the caller's dialect → Call → Service → row → frame;
* `client.py`, which is a Service: the same way from the other end.

What a server side owes its callers: errors through `Form.encode_error` only, anything else logged and sent as
INTERNAL; the first event before a stream is committed; the generator closed in every case. What a client side
owes its holder: A2AError with `blame` PEER, and UNAVAILABLE with `metadata["phase"] == "connect"` exactly
when the agent cannot have seen the call.

What HTTP bindings share is in `_http`; nothing else is shared. A new transport passes
`a2a_bridge.testing.contracts.BindingContract`.
"""
