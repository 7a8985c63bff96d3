"""Docs and examples name stable modules only, so that copied code keeps working."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import a2a_bridge
from a2a_bridge import ext
from a2a_bridge.testing.each import each
from tests.docs.pages import DOCS, PAGES, prose
from tests.docs.pages import name as name_of

ROOT = DOCS.parent
#: modules that pages and examples may import beside `a2a_bridge` and `a2a_bridge.ext`
OTHERS = {
    "a2a_bridge.auth": "methods that identify callers, and rules for them",
    "a2a_bridge.testing.contracts": "contract suites, which need pytest",
    "a2a_bridge.middleware": "the middleware of every server",
    "a2a_bridge.dialects.v0_3": "types under the names of the specification of 0.3",
}
#: further modules that pages name
NAMED = {"a2a_bridge.agents", "a2a_bridge.dialects.v0_3.models", "a2a_bridge.dialects.v0_2_5.models"}
#: texts of pages that look like modules: loggers, groups of entry points, the formatter of a logging configuration
NO_MODULES = {
    *(f"a2a_bridge.{one}" for one in ("access", "loop", "push", "store", "tls")),
    *(f"a2a_bridge.{one}" for one in ("adapters", "bindings", "commands", "dialects", "peers")),
    "a2a_bridge.cli.log_setup.JsonFormat",
}
#: programs of this repository that use internals: not examples to copy
INSIDE = {"examples/demo_steps.py"}

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_NAME = re.compile(r"`(a2a_bridge(?:\.\w+)+)")


def sources() -> Iterator[tuple[str, str]]:
    for path in [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]:
        for number, block in enumerate(_BLOCK.findall(path.read_text())):
            yield f"{path.relative_to(ROOT)}, block {number}", block
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def imported(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


@each(("place", "source"), [pytest.param(*one, id=one[0]) for one in sources()])
def test_only_stable_names_are_imported(place: str, source: str) -> None:
    if place in INSIDE:
        return
    for module, name in imported(source):
        if module.partition(".")[0] != "a2a_bridge" or module in OTHERS:
            continue
        assert module in ("a2a_bridge", "a2a_bridge.ext"), f"{place} imports from {module}"
        if name and not (module == "a2a_bridge" and name == "ext"):
            assert name in (a2a_bridge if module == "a2a_bridge" else ext).__all__, f"{place}: {name}"


@each("page", PAGES)
def test_pages_name_stable_modules_only(page: Path) -> None:
    for text in _NAME.findall(prose(page)):
        if text in NO_MODULES or text in NAMED or text in OTHERS:
            continue
        module, _, member = text.rpartition(".")
        if module == "a2a_bridge" and member == "ext":
            continue
        assert module in {"a2a_bridge", "a2a_bridge.ext", *OTHERS, *NAMED}, f"{name_of(page)} names {text}"
        assert member in importlib.import_module(module).__all__, f"{name_of(page)}: {text}"


def test_there_are_imports_to_judge() -> None:
    judged = [
        name for _, source in sources() for module, name in imported(source) if module == "a2a_bridge.ext"
    ]
    assert len(judged) > 50


def test_no_name_is_listed_twice() -> None:
    assert len(ext.__all__) == len(set(ext.__all__))
    assert not set(ext.__all__) & (set(a2a_bridge.__all__) - {"A2AError", "Client", "Reason", "interface"})


def test_the_names_do_not_look_up_the_versions() -> None:
    # A dialect of an entry point imports these names while the versions are looked up.
    code = (
        "from a2a_bridge.dialects import known\n"
        "def reject(*, group): raise RuntimeError(group)\n"
        "known.entry_points = reject\n"
        "import a2a_bridge.ext"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
