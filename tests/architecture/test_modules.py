"""Size and names of modules; linters check their content."""

import ast
import re

from tests.architecture.repository import PRODUCT, ROOT, modules

MOST_LINES = 600
#: Names without information about the content, and names for a second attempt.
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
FORBIDDEN_ENDS = ("_v2", "_new", "_old")


def test_no_module_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_module_has_an_empty_name() -> None:
    names = {path.relative_to(ROOT): path.stem for path in modules()}
    names |= {path.parent.relative_to(ROOT): path.parent.name for path in modules()}
    bad = [
        str(path) for path, name in names.items() if name in FORBIDDEN_NAMES or name.endswith(FORBIDDEN_ENDS)
    ]
    assert bad == []


def test_the_list_of_folders_is_the_table_of_contents() -> None:
    at_the_root = {path.name for path in (ROOT / "a2a_bridge").glob("*.py")}
    assert at_the_root == {"__init__.py", "__main__.py", "ext.py"}


def test_every_module_has_a_docstring() -> None:
    product = [path for path in modules() if path.relative_to(ROOT).parts[0] in PRODUCT]
    silent = [
        str(path.relative_to(ROOT))
        for path in product
        if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []


def test_every_logger_is_below_the_one_that_the_command_sets_up() -> None:
    names = {
        (str(path.relative_to(ROOT)), name)
        for path in modules()
        if path.relative_to(ROOT).parts[0] in ("transports", "tools", "adapters")
        for name in re.findall(r"getLogger\(f?([^)]*)\)", path.read_text("utf-8"))
    }
    others = {name for name in names if not name[1].startswith(('"a2a_bridge.', '"a2a_bridge"', '"grpc.'))}
    assert names
    assert others == set()
