"""Protobuf classes of the A2A packages, made at import time in a descriptor pool of our own; not a codec.

The pool is private because a2a-sdk registers the same names in protobuf's default pool, and one process has
room for one such file there. Objects of the two pools are of different classes; bytes go from one to the
other. `lf_a2a_v1` and `google_rpc` are generated (see proto/README.md); `google_protobuf` names the
well-known types.
"""
