"""The flags of a command become one plan: few calls hand them on, and few functions give something back for them."""

import ast
from collections.abc import Iterator

from tests.architecture.repository import ROOT

#: how often flags may be handed on, and come back as something else
HANDED_ON, COMES_BACK = 40, 12
#: functions that read or copy an object
READS = {"getattr", "isinstance", "replace", "fields", "max"}


def is_flags(node: ast.expr) -> bool:
    return getattr(node, "id", getattr(node, "attr", "")) == "flags"


def nodes() -> Iterator[ast.AST]:
    for folder in ("cli", "app", "agents"):
        for path in (ROOT / "a2a_bridge" / folder).rglob("*.py"):
            yield from ast.walk(ast.parse(path.read_text("utf-8")))


def test_flags_are_handed_on_seldom() -> None:
    calls = [
        node for node in nodes() if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in READS
    ]
    handed = [one for one in calls if any(map(is_flags, [*one.args, *(each.value for each in one.keywords)]))]
    assert 20 < len(handed) <= HANDED_ON, [ast.unparse(one) for one in handed]


def test_flags_come_back_seldom() -> None:
    functions = [node for node in nodes() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    back = [
        one.name
        for one in functions
        if any(each.arg == "flags" for each in (*one.args.args, *one.args.kwonlyargs))
        and one.returns is not None
        and ast.unparse(one.returns) != "None"
    ]
    assert 5 < len(back) <= COMES_BACK, back
