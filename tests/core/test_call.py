"""Call contexts: extensions, derivation, and the one member that is shared."""

from __future__ import annotations

import pytest

from a2a_bridge.core.call import EXTENSIONS_PARAMETER, CallContext, Principal


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
    assert context.replace(reply={}).reply == {}


def test_contexts_do_not_share_a_reply_by_accident() -> None:
    CallContext().reply["x"] = "1"
    assert CallContext().reply == {}


def test_contexts_have_no_other_members() -> None:
    with pytest.raises(AttributeError):
        CallContext().usr = "x"
