"""Call contexts: extensions, derivation, and the one member that is shared."""

from __future__ import annotations

import copy
import pickle

import pytest

from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    CallContext,
    Joined,
    Principal,
    ResponseParameters,
    entries_of,
)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (None, ()),
        ("", ()),
        (" , ,", ()),
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (" b , a ,b", ("b", "a")),
    ],
)
def test_extensions_are_read_in_order_and_once(declared: str | None, expected: tuple[str, ...]) -> None:
    parameters = {} if declared is None else {EXTENSIONS_PARAMETER: declared}
    assert CallContext(parameters=parameters).extensions == expected


def test_a_derived_context_shares_the_reply() -> None:
    context = CallContext(tenant="a", parameters={"x": "1"})
    derived = context.replace(principal=Principal("p"))
    derived.reply["y"] = "2"
    assert (derived.tenant, derived.parameters, context.principal) == ("a", {"x": "1"}, None)
    assert context.reply == {"y": "2"}
    assert context.replace(reply=ResponseParameters()).reply == {}


def test_contexts_do_not_share_a_reply_by_accident() -> None:
    CallContext().reply["x"] = "1"
    assert CallContext().reply == {}


def test_contexts_have_no_other_members() -> None:
    with pytest.raises(AttributeError):
        CallContext().usr = "x"


def test_a_parameter_of_several_entries_is_their_text_and_remembers_them() -> None:
    joined = Joined(("a", "b, c"))
    assert joined == "a,b, c"
    assert entries_of(joined) == ("a", "b, c")
    assert entries_of("a,b") == ("a,b",)
    for copied in (copy.deepcopy(joined), pickle.loads(pickle.dumps(joined))):
        assert (copied, entries_of(copied)) == (joined, ("a", "b, c"))
    assert CallContext(parameters={"a2a-extensions": joined}).extensions == ("a", "b", "c")
