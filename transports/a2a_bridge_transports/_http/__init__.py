"""What the HTTP bindings share: hosts, sessions, event streams, headers. Private; it knows no A2A
operation.
"""
