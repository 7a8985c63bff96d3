"""Agents of other frameworks on a2a-bridge, and A2A agents for clients of other protocols."""
