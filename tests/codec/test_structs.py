"""Struct, Value and ListValue: long lists, numbers of all sizes, and bytes that other writers of protobuf send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, encoder, loads
from a2a_bridge.codec.budget import ALLOWANCE, LengthyError, within_budget
from a2a_bridge.codec.structs import Rounded
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Value
from a2a_bridge.testing.each import each

_NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 0.0, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1e308]),
)


def _one_by_one(number: float) -> Any:
    return encoder(Value)(Value(number_value=number))


@given(st.lists(_NUMBERS, min_size=1, max_size=40))
def test_a_list_of_numbers_is_the_same_as_its_numbers_one_by_one(numbers: list[float]) -> None:
    message = decoder(ListValue)(numbers)
    assert [one.number_value for one in message.values] == [float(number) for number in numbers]
    assert repr(encoder(ListValue)(message)) == repr([_one_by_one(float(number)) for number in numbers])


@given(st.lists(st.one_of(_NUMBERS, st.text(max_size=200), st.none(), st.booleans()), max_size=40))
def test_a_list_of_anything_comes_back(items: list[Any]) -> None:
    message = decoder(Value)({"items": items})
    assert encoder(Value)(message) == {
        "items": [one if type(one) is not int else float(one) for one in items]
    }


@pytest.mark.parametrize("numbers", [[1.0] * 20, [2**53 + 1] * 20, [1, 2.5] * 10])
def test_nan_within_a_list_of_numbers_is_rejected(numbers: list[float]) -> None:
    message = decoder(ListValue)(numbers)
    message.values.add(number_value=float("nan"))
    with pytest.raises(ValueError, match=r"\[20\]: is not a number"):
        encoder(ListValue)(message)


def test_integers_of_a_long_list_are_counted_when_they_are_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Rounded()
    monkeypatch.setattr("a2a_bridge.codec.decode.rounded", fresh)
    decoder(Struct)({"x": [2**53 + 1] * 50 + [2**60, 7]})
    decoder(Struct)({"x": [2**53 + 1]})
    assert fresh.count == 51


def _field(number: int, raw_bytes: bytes) -> bytes:
    return bytes((number << 3 | 2, len(raw_bytes))) + raw_bytes


@each(
    ("raw_bytes", "tree"),
    [
        (_field(9, b"x") + _field(1, _field(1, b"a") + _field(2, b"\x1a\x01b")), {"a": "b"}),
        (_field(1, _field(1, b"a") + _field(2, b"\x1a\x01b" + _field(9, b"x"))), {"a": "b"}),
        (_field(1, _field(1, b"a") + _field(2, _field(9, b"x"))), {"a": None}),
        (_field(1, _field(1, b"a") + _field(2, b"\x2a\0" + _field(9, b"x"))), {"a": {}}),
        (_field(1, _field(1, b"a") + _field(2, b"\x20\x01" + _field(9, b"x"))), {"a": True}),
        (
            _field(1, _field(1, b"a") + _field(2, b"\x32" + bytes((4,)) + b"\n\0" + b"\n\0")),
            {"a": [None, None]},
        ),
        (_field(1, _field(1, b"a") + _field(2, b"\x08\x05")), {"a": None}),
        (_field(1, _field(2, b"\x1a\x01b")), {"": "b"}),
        (_field(1, _field(1, b"a")), {"a": None}),
        (_field(1, _field(2, b"\x1a\x01b") + _field(1, b"a")), {"a": "b"}),
    ],
)
def test_unknown_fields_and_unusual_bytes_are_read(raw_bytes: bytes, tree: Any) -> None:
    assert encoder(Struct)(Struct.FromString(raw_bytes)) == tree


@pytest.mark.parametrize("tree", [[1] * (ALLOWANCE + 1), [{"a": 1}] * ALLOWANCE, [[[]]] * ALLOWANCE])
def test_values_are_counted_before_they_are_read(tree: Any) -> None:
    message = decoder(Struct)({"x": tree})
    with pytest.raises(LengthyError):
        within_budget(encoder(Struct), message)


def test_a_long_text_is_not_many_values() -> None:
    message = decoder(Struct)({"x": "a line of text\n" * (ALLOWANCE // 2), "y": loads(b"[1,2]")})
    assert within_budget(encoder(Struct), message)["y"] == [1, 2]
