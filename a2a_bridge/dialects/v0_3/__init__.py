"""A2A 0.3: the JSON shape with `kind`, the protobuf package a2a.v1, and HTTP+JSON below /v1."""
