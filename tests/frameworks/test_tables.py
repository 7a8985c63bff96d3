"""The tables that `make frameworks` writes."""

import re

from tests.architecture.repository import pyproject
from tests.docs.pages import DOCS, blocks
from tests.frameworks.adapters import CHECKS, PAGE, SERVED
from tests.frameworks.fronts import COLUMNS, page
from tests.frameworks.programs import ADAPTED, EXECUTORS, FRONTS
from tests.frameworks.tables import BEGIN, written


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
            rf"\| `{front.name}` \d[\w.]* \|", page(front).read_text("utf-8").partition(BEGIN)[2]
        )
        assert written(page(front)) == {row: dict.fromkeys(COLUMNS, "yes") for row in front.rows}
