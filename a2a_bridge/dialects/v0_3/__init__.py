"""A2A 0.3: the JSON shape with `kind`, the protobuf package a2a.v1, and HTTP+JSON below /v1."""

from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC, Dialect
from a2a_bridge.dialects.v0_3 import card, forms, push
from a2a_bridge.dialects.v0_3.forms import LOSSES

DIALECT = Dialect(
    version="0.3",
    card=card.FORM,
    forms={JSONRPC: forms.JSONRPC_FORM, HTTP_JSON: forms.HTTP_JSON_FORM, GRPC: forms.GRPC_FORM},
    push=push.FORM,
    declares=False,
    extensions=("x-a2a-extensions", "a2a-extensions"),
    final_events=True,
    losses=LOSSES,
    files=forms.BY_FILES,
)
