"""Residues that somebody forged: they cost little, and say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.cards.resolve import parse_tree
from a2a_bridge.codec import dumps, dumps_ascii, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_3, Kind, residue
from a2a_bridge.dialects.v0_3.parts import encode_part
from a2a_bridge.dialects.v0_3.shapes import encode_message
from a2a_bridge.pb import lf_a2a_v1 as hub


def _checksum(value: Any) -> str:
    """As a forger would find it out."""
    [entry] = residue.diff({"x": value}, {})
    return str(entry[1])


def _text(*entries: Any) -> str:
    return dumps_ascii({"v": 1, residue.KIND: list(entries)})


@pytest.mark.parametrize(
    ("one", "other"),
    [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a"), ("", "/a"), ("/a~0", "/a~"), ("/a/b/c", "/a/b")],
)
def test_entries_that_speak_of_one_value_are_nobodys(one: str, other: str) -> None:
    assert residue.read(_text([one, "00000000"], [other, "00000000"]), residue.KIND) is None
    assert residue.read(_text([one, "00000000"]), residue.KIND) is not None


def test_a_list_has_one_name_for_each_of_its_items() -> None:
    assert residue.patch(["a"], [["/0", _checksum("a"), "b"]]) == ["b"]
    assert residue.patch(["a"], [["/00", _checksum("a"), "b"]]) == ["a"]


def test_a_few_entries_cannot_make_a_text_grow_without_end() -> None:
    part = hub.Part(raw=bytes(300))
    text = "A" * 400
    entries = []
    for _ in range(4):
        entries.append(["/file/bytes", _checksum(text), None, {"width": 1, "line": "\r\n"}])
        text = "\r\n".join(text)
    part.metadata.fields[residue.KEY].string_value = _text(*entries)
    assert encode_part(part)["file"] == {"bytes": "A" * 400}


def test_what_is_nested_deeper_than_we_would_write_is_nobodys() -> None:
    deep: Any = 0
    for _ in range(residue.DEEPEST - 1):
        deep = [deep]
    assert residue.read(_text(["/x", None, deep]), residue.KIND) is not None
    assert residue.read(_text(["/x", None, [[deep]]]), residue.KIND) is None


def test_forged_depth_ends_nowhere() -> None:
    deep: Any = 0
    for _ in range(residue.DEEPEST - 2):
        deep = {"x": deep}
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="a")])
    message.parts[0].metadata.fields[residue.KEY].string_value = _text(["/x", None, deep])
    parts = encode_message(message)["parts"]
    assert parts[0]["x"] == deep
    copied = loads(dumps(parts))
    for entry in (["/parts", "00000000"], ["/parts", _checksum(parts), copied]):
        message.metadata.fields[residue.KEY].string_value = _text(entry)
        assert encode_message(message)["parts"] == parts


@pytest.mark.parametrize("kind", [JSONRPC, HTTP_JSON, GRPC])
def test_an_extended_card_that_cannot_be_said_is_the_agents_fault(kind: Kind[Any, Any]) -> None:
    plain = {"name": "n", "description": "d", "url": "http://a.example", "version": "1", "skills": []}
    modes = {"defaultInputModes": ["a"], "defaultOutputModes": ["a"]}
    flows = {"implicit": {"authorizationUrl": "a", "scopes": {"a": "b"}}}
    long = {"uri": "u", "params": {"a": "x" * 70_000}}
    tree = {
        **plain,
        **modes,
        "capabilities": {"streaming": True, "extensions": [long]},
        "securitySchemes": {"o": {"type": "oauth2", "flows": flows}},
        "signatures": [{"protected": "p", "signature": "s", "header": {"a": 1}}],
        "supportsAuthenticatedExtendedCard": True,
    }
    given = parse_tree(tree, "here")
    form = V0_3.form(kind)
    assert form is not None
    row = form.row(ops.GET_EXTENDED_AGENT_CARD)
    assert row is not None
    with pytest.raises(A2AError) as caught:
        row.encode_response(given)
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
