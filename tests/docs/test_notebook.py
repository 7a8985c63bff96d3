"""The cells of the notebook print what its page shows; `make docs` runs them in Jupyter, too."""

import ast
import contextlib
import inspect
import io
from typing import Any

from tests.docs.notebook import cells


async def test_the_cells_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells():
        code = compile(cell.code, f"line {cell.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(code, names)  # noqa: S307  as a notebook does
            if inspect.isawaitable(result):
                await result
        assert printed.getvalue() == cell.printed, cell.line
    assert len(cells()) == 6
