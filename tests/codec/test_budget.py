"""Counting values before anything is read: never too few, exact beside strings, and done as soon as it is too
many.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.codec import budget, decoder, dumps
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value

TEXTS = st.text(st.sampled_from('a,"[{]}\\é\n'), max_size=6)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def number_of(tree: Any) -> int:
    """Values of a tree; an empty container counts as two."""
    items = list(tree.values()) if type(tree) is dict else tree if type(tree) is list else None
    return 1 if items is None else 2 if not items else 1 + sum(map(number_of, items))


@pytest.fixture(scope="module", autouse=True)
def _tiny_blocks() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_BLOCK", 5)
        patch.setattr(budget, "_SHORTEST", 0.01)  # else short texts are let through unseen
        yield


@given(TREES, st.booleans())
def test_json_is_counted_beside_its_strings(tree: Any, spaced: bool) -> None:
    text = dumps(tree)
    if spaced:
        text = b" \n" + text + b"\t"
    count = number_of(tree)
    assert budget.json_values(text, count) == count
    assert budget.json_values(text, count - 1) > count - 1


@given(TREES)
def test_protobuf_is_counted_like_json(tree: Any) -> None:
    wire = hub.Part(data=decoder(Value)({"x": tree})).SerializeToString()
    count = budget.protobuf_values(hub.Part, wire, 1000)
    most = number_of(tree) + 3  # the part's field, the object, and one for an empty list
    assert count <= most
    if count > 1:
        assert budget.protobuf_values(hub.Part, wire, count - 1) > count - 1


@given(st.binary(max_size=40))
def test_any_bytes_are_counted(wire: bytes) -> None:
    assert budget.protobuf_values(hub.SendMessageRequest, wire, 3) >= 0
    assert budget.json_values(wire, 3) >= 0


MANY = hub.Part(data=decoder(Value)([1] * 500_000)).SerializeToString()
LARGE: dict[str, Callable[[], int]] = {
    "numbers": lambda: budget.json_values(b"[" + b"1.0," * 2_000_000 + b"1]", 1000),
    "empty strings": lambda: budget.json_values(b"[" + b'"",' * 2_000_000 + b"1]", 1000),
    "objects": lambda: budget.json_values(b"[" + b'{"a":1},' * 1_000_000 + b"1]", 1000),
    "brackets": lambda: budget.json_values(b"[" * 8_000_000, 1000),
    "protobuf": lambda: budget.protobuf_values(hub.Part, MANY, 1000),
    "last one wins": lambda: budget.protobuf_values(Value, b"\x08\0" * 2**20, 1000),
}


@pytest.mark.parametrize("what", LARGE)
def test_too_many_are_noticed_early(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BLOCK", 1 << 20)
    lines = 0

    def trace(_frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = LARGE[what]()
    finally:
        sys.settrace(before)
    assert found > 1000
    assert lines < 200_000  # some for each value up to the limit, not for each that is there


def test_a_long_text_is_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_BLOCK", 1 << 20)
    for text in ("a,b;[{" * 100_000, '\\",' * 300_000, "\n\x12" * 300_000):
        assert budget.json_values(dumps([text]), 100) == 2
        assert budget.protobuf_values(hub.Part, hub.Part(text=text).SerializeToString(), 100) == 1
