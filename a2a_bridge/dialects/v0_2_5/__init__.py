"""A2A 0.2.5 and 0.2.6, defined by their few differences from 0.3, one module for each."""

from a2a_bridge.dialects.dialect import GRPC, HTTP_JSON, JSONRPC, Dialect
from a2a_bridge.dialects.v0_2_5 import forms
from a2a_bridge.dialects.v0_3 import push
from a2a_bridge.dialects.v0_3.forms import LOSSES

DIALECT = Dialect(
    version="0.2.5",
    card=forms.CARD_FORM,
    forms={JSONRPC: forms.JSONRPC_FORM, HTTP_JSON: forms.HTTP_JSON_FORM, GRPC: forms.GRPC_FORM},
    push=push.FORM,
    declares=False,
    extensions=("x-a2a-extensions", "a2a-extensions"),
    final_events=True,
    losses=LOSSES,
    files=forms.BY_FILES,
)
