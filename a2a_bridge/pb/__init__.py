"""Protobuf classes of the A2A packages, made at import time in a descriptor pool of our own.

The pool is private because a2a-sdk registers the same names in protobuf's default pool: two copies there
cannot live in one process. Objects of the two are different classes; convert between them by bytes.
"""
