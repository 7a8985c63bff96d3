"""Bridges A2A agents between transports and protocol versions."""
