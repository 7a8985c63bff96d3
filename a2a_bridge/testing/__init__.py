"""Test support for authors of extensions: contracts, agents, messages. Importing it imports none of them."""
