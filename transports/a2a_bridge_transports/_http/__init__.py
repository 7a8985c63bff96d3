"""Shared by the HTTP bindings: hosts, sessions, event streams, headers. Private; knows no A2A operation."""
