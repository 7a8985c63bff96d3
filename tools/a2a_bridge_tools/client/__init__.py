"""The client commands: the surface of the official specification of an A2A command line."""
