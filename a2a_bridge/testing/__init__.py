"""Contracts for authors of extensions, and messages for them. Importing it imports none of them."""
