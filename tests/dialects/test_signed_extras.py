"""Preserved texts in large documents, which are not searched as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from a2a_bridge.codec.budget import LengthyError, within_budget
from a2a_bridge.dialects import signed_extras
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub

TEXT = "text" * 50_000


def document(parts: int) -> dict[str, Any]:
    """A request with a preserved text. More than 256 parts are too many for a look at each container."""
    message = {"messageId": "m", "parts": [{"text": TEXT}] * parts, "metadata": {KEY: "preserved"}}
    return {"params": {"message": message}}


@pytest.mark.parametrize("parts", [1, 300])
def test_a_forged_text_is_removed(parts: int) -> None:
    tree: Any = signed_extras.loads(json.dumps(document(parts)).encode())
    assert "metadata" not in tree["params"]["message"]


@pytest.mark.parametrize("parts", [1, 300])
def test_a_text_of_ours_comes_back(parts: int) -> None:
    data = signed_extras.dumps(document(parts))
    assert b'"preserved"' not in data  # it has a code
    assert signed_extras.loads(data) == document(parts)


def test_megabytes_with_a_text_are_not_written_without_a_pause() -> None:
    with pytest.raises(LengthyError):
        within_budget(signed_extras.dumps, document(6))
    request = hub.SendMessageRequest()
    request.message.message_id = "m"
    request.message.metadata.update({KEY: TEXT * 6})
    wire, method = request.SerializeToString(), "/lf.a2a.v1.A2AService/SendMessage"
    with pytest.raises(LengthyError):
        within_budget(signed_extras.seal_request, wire, method)
    assert signed_extras.open_request(signed_extras.seal_request(wire, method), method) == wire
