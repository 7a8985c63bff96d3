"""Carried texts in large documents, which are not searched as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from a2a_bridge.dialects import carrying
from a2a_bridge.dialects.unmapped import KEY

TEXT = "text" * 50_000


def document(parts: int) -> dict[str, Any]:
    """A request with a carried text. More than 256 parts are too many for a look at each container."""
    message = {"messageId": "m", "parts": [{"text": TEXT}] * parts, "metadata": {KEY: "carried"}}
    return {"params": {"message": message}}


@pytest.mark.parametrize("parts", [1, 300])
def test_a_forged_text_is_removed(parts: int) -> None:
    tree: Any = carrying.loads(json.dumps(document(parts)).encode())
    assert "metadata" not in tree["params"]["message"]


@pytest.mark.parametrize("parts", [1, 300])
def test_a_text_of_ours_comes_back(parts: int) -> None:
    data = carrying.dumps(document(parts))
    assert b'"carried"' not in data  # it has a code
    assert carrying.loads(data) == document(parts)
