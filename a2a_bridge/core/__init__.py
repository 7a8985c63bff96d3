"""The central layer: operations, calls, services and errors. No I/O, no event loop, no clock."""
