"""Load generators, each a process of its own. The same one drives every server."""
