"""Shared by the HTTP bindings: hosts, sessions, event streams, headers. Private; it knows no A2A
operation.
"""
