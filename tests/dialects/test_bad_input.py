"""Bad input on the wire: read, rejected with the place of the fault, or in need of exact numbers."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import GRPC, KNOWN
from a2a_bridge.testing.samples import samples
from tests.strategies import json_values

BAD_WIRES = [
    pytest.param(kind, form, id=f"{dialect.version}-{kind.name}")
    for dialect in KNOWN
    for kind, form in dialect.forms.items()
]
every_form = pytest.mark.parametrize(("kind", "form"), BAD_WIRES)
WRONG: list[Any] = [
    None,
    5,
    -1,
    1.5,
    "",
    "x",
    True,
    [],
    {},
    [None],
    {"kind": []},
    {"kind": "x"},
    {"": 0},
    2**70,
]
#: bytes that are no protobuf; a config of 0.1 that is null, which counts as absent
MORE = {"request": {Reason.PARSE_ERROR}, "response": {Reason.TASK_NOT_FOUND}}
SIDES = (("request", Reason.INVALID_PARAMS), ("response", Reason.INVALID_AGENT_RESPONSE))


def read(row: Any, which: str, wire: Any, reasons: set[Reason]) -> None:
    """Reads a wire, as bindings do; an exception is an A2AError for one of `reasons`."""
    decode = f"decode_{which}"

    def whole(tree: Any) -> None:
        spoken = (
            row.extras.variant(tree, {}) if which == "request" and row.extras.variant is not None else row
        )
        getattr(spoken, decode)(tree)
        beside = getattr(spoken.extras, which)
        if beside is not None:
            beside.extract(tree)

    try:
        whole(wire)
    except A2AError as error:
        if error.reason not in reasons:
            raise AssertionError(f"{row.operation.name} {which}: {error!r} for {wire!r}") from error


def damaged(tree: Any, chance: random.Random) -> Any:
    """A tree with one place in it replaced, removed or doubled."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(items):
            places.append((node, key))
            walk(value)

    walk(tree)
    if not places:
        return chance.choice(WRONG)
    node, key = chance.choice(places)
    if chance.random() < 0.2:
        del node[key]
    elif isinstance(node, dict) and chance.random() < 0.2:
        node[chance.choice(["kind", "type", "unknown", "content", "parts", "metadata"])] = node[key]
    else:
        node[key] = chance.choice(WRONG)
    return tree


@every_form
@settings(max_examples=15)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_samples(kind: Any, form: Any, chance: random.Random) -> None:
    for row in form.rows:
        for which, reason in SIDES:
            try:
                wire = getattr(row, f"encode_{which}")(chance.choice(samples(getattr(row.operation, which))))
            except A2AError:
                continue  # content that this version cannot express
            reasons = {reason, *MORE[which]}
            if kind is GRPC:
                at = chance.randrange(len(wire) + 1)
                read(row, which, wire[:at] + bytes([chance.randrange(256)]) + wire[at + 1 :], reasons)
            else:
                read(row, which, damaged(loads_exact(dumps(wire)), chance), reasons)


@every_form
@settings(max_examples=15)
@given(tree=json_values(), data=st.binary(max_size=64))
def test_anything(kind: Any, form: Any, tree: Any, data: bytes) -> None:
    for row in form.rows:
        for which, reason in SIDES:
            reasons = {reason, *MORE[which]}
            read(row, which, data if kind is GRPC else tree, reasons)
