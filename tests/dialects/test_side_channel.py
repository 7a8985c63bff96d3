"""The content beside messages is checked where it comes back: invalid content does no harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, dumps_ascii, loads
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import KNOWN
from a2a_bridge.testing.samples import samples
from tests.strategies import json_values

ROWS = [
    pytest.param(row, id=f"{dialect.version}-{kind.name}-{row.operation.name}")
    for dialect in KNOWN
    for kind, form in dialect.forms.items()
    for row in form.rows
]
every_row = pytest.mark.parametrize("row", ROWS)
ASKING = [one for one in ROWS if one.values[0].extras.request is not None]
ANSWERING = [one for one in ROWS if one.values[0].extras.response is not None]
JUNK = [
    "",
    "x",
    "{",
    "{}",
    "[]",
    "null",
    "5",
    '""',
    '{"v":1}',
    '{"v":9,"kind":[]}',
    '[["a"]]',
    "\\ud800",
    "[" * 3000,
]
texts = st.one_of(st.sampled_from(JUNK), json_values().map(dumps_ascii))


def wires(row: Any, which: str) -> list[Any]:
    """The samples of a row on the wire, as far as it can express them."""
    found = []
    for message in samples(getattr(row.operation, which)):
        try:
            wire = getattr(row, f"encode_{which}")(message)
        except A2AError:
            continue
        found.append(wire if isinstance(wire, bytes) else loads(dumps(wire)))
    return found


@pytest.mark.parametrize("row", ASKING)
@settings(max_examples=25)
@given(text=texts)
def test_junk_beside_a_request(row: Any, text: str) -> None:
    for wire in wires(row, "request"):
        recalled = row.extras.request.restore(wire, {SIDE_CHANNEL: text})
        assert isinstance(recalled, bytes) or dumps(recalled)


@pytest.mark.parametrize("row", ANSWERING)
@settings(max_examples=25)
@given(text=texts)
def test_junk_beside_a_response(row: Any, text: str) -> None:
    for wire in wires(row, "response"):
        recalled = row.extras.response.restore(wire, {SIDE_CHANNEL: text})
        assert isinstance(recalled, bytes) or dumps(recalled)


@every_row
def test_nothing_beside_a_message_leaves_it_as_it_is(row: Any) -> None:
    for which in ("request", "response"):
        beside = getattr(row.extras, which)
        if beside is not None:
            for wire in wires(row, which):
                assert beside.restore(wire, {}) == wire


@every_row
def test_samples_say_nothing_beside_themselves(row: Any) -> None:
    for which in ("request", "response"):
        beside = getattr(row.extras, which)
        if beside is not None:
            for wire in wires(row, which):
                assert not beside.extract(wire)
