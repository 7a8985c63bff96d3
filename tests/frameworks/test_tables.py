"""The tables that `make frameworks` writes."""

import re

from tests.architecture.repository import pyproject
from tests.docs.pages import DOCS, blocks
from tests.frameworks import functions
from tests.frameworks.adapters import CHECKS, PAGE, SERVED
from tests.frameworks.fronts import COLUMNS, page
from tests.frameworks.programs import ADAPTED, EXECUTORS, FRONTS, FUNCTIONS
from tests.frameworks.tables import written


def test_the_table_has_each_check_and_each_adapter() -> None:
    table = written(PAGE)
    assert list(table) == list(CHECKS)
    for row in table.values():
        assert [head.rpartition(" ")[0] for head in row] == [one.title for one in (*ADAPTED, *EXECUTORS)]
        assert all(re.fullmatch(r".+ \d+\.\d+[\w.]*", head) for head in row)
        assert set(row.values()) <= {"yes", "no"}


def test_each_adapter_has_an_extra_an_entry_point_and_a_short_page() -> None:
    project = pyproject("adapters")["project"]
    for one in ADAPTED:
        assert one.name in project["optional-dependencies"]
        assert one.name in project["entry-points"]["a2a_bridge.adapters"]
        page = DOCS / f"how-to/serve-{one.name}.md"
        assert len(page.read_text("utf-8").splitlines()) <= 60
        # The command of the page imports the program of the page.
        (block,) = blocks(page, "python")
        assert SERVED.search(page.read_text("utf-8"))
        assert block.body.rstrip().endswith('if __name__ == "__main__":\n    asyncio.run(main())')


def test_the_tables_of_the_fronts() -> None:
    for front in FRONTS:
        assert re.search(
            rf"written by `make frameworks` -->\n\| `{front.name}` \d[\w.]* \|",
            page(front).read_text("utf-8"),
        )
        assert written(page(front)) == {row: dict.fromkeys(COLUMNS, "yes") for row in front.rows}


def test_each_function_has_a_row_and_a_short_page_with_a_short_function() -> None:
    table = written(PAGE, functions.PART)
    assert list(table) == [f"[{one.title}](serve-{one.name}.md)" for one in FUNCTIONS]
    for one, row in zip(FUNCTIONS, table.values(), strict=True):
        lacking = dict.fromkeys(one.lacks, "no")
        assert row == {
            "newest": row["newest"],
            "oldest": one.oldest,
            **dict.fromkeys((*functions.CHECKS, functions.CALLERS), "yes"),
            **lacking,
        }
        text = functions.page(one).read_text("utf-8")
        assert len(text.splitlines()) <= 60
        assert SERVED.search(text)
        assert f"pip install '.[server]' {one.package}\n" in text
        (block,) = blocks(functions.page(one), "python")
        (function,) = re.findall(r"^@agent\n.*?(?=^\S(?!sync def)|\Z)", block.body, re.DOTALL | re.MULTILINE)
        assert len(function.splitlines()) <= 15
