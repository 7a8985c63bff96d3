"""Load generators, each a process of its own. They know no side: the same one drives every server."""
