"""Shared by the HTTP bindings: hosts, sessions, event streams, headers. Private; without A2A operations."""
