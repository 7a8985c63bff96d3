"""docs/reference/wire.md names the operations, paths and depths of the code."""

import pytest

from a2a_bridge.codec import DecodeError, decode_bytes
from a2a_bridge.dialects import JSONRPC, V1_0
from a2a_bridge.dialects.v1_0.forms import SERVICE
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.docs.pages import DOCS, section

PAGE = DOCS / "reference/wire.md"


def test_the_methods_of_jsonrpc() -> None:
    text = section(PAGE, "JSON-RPC") + section(PAGE, "HTTP+JSON")
    assert all(f"`{row.address}`" in text for row in V1_0.forms[JSONRPC].rows)


def test_the_names() -> None:
    text = PAGE.read_text() + (DOCS / "reference/card.md").read_text()
    assert f"`{SERVICE.full_name}`" in text
    assert all(f"`{path}`" in text for path in V1_0.card.paths)
    assert V1_0.version == "1.0"


def nested(kind: str, levels: int) -> str:
    opening, closing = {"object": ('{"a":', "}"), "array": ("[", "]")}[kind]
    return opening * levels + "1" + closing * levels


@pytest.mark.parametrize(
    ("member", "kind", "levels"),
    [("metadata", "object", 30), ("metadata", "array", 43), ("data", "object", 30), ("data", "array", 43)],
)
def test_the_depth_of_free_json(member: str, kind: str, levels: int) -> None:
    assert f"{levels}" in section(PAGE, "JSON")

    def message(depth: int) -> str:
        if member == "metadata":
            held = nested(kind, depth) if kind == "object" else f'{{"x":{nested(kind, depth)}}}'
            return f'{{"metadata":{held}}}'
        return f'{{"parts":[{{"data":{nested(kind, depth)}}}]}}'

    decode_bytes(hub.Message, message(levels))
    with pytest.raises(DecodeError):
        decode_bytes(hub.Message, message(levels + 1))
