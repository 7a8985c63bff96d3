"""A2A 1.0: the hub's own version. The dialect is thin: the wire is ProtoJSON or protobuf of the hub."""

from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC, Dialect
from a2a_bridge.dialects.v1_0 import forms

DIALECT = Dialect(
    version="1.0",
    card=forms.CARD_FORM,
    forms={JSONRPC: forms.JSONRPC_FORM, HTTP_JSON: forms.HTTP_JSON_FORM, GRPC: forms.GRPC_FORM},
    push=forms.PUSH_FORM,
    canonical=forms.JSONRPC_FORM,
)
