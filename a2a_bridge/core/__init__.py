"""The waist of the bridge: operations, calls, services and errors. No I/O, no event loop, no clock."""
