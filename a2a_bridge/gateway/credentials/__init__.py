"""The credentials that a gateway sends to an agent: its own, or credentials of its caller."""
