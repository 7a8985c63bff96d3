"""Tables of pages that `make frameworks` writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

BEGIN, END = "<!-- written by `make frameworks`{part} -->", "<!-- end of what is written{part} -->"

#: the cells of each row by column
Table = dict[str, dict[str, str]]


def _split(page: Path, part: str) -> tuple[str, str, str]:
    """The text before a table, with its mark, the table, and the text after it, with its mark."""
    begin, end = (mark.format(part=part and f": {part}") for mark in (BEGIN, END))
    before, begun, rest = page.read_text("utf-8").partition(begin)
    table, ended, after = rest.partition(end)
    assert begun, f"{page} has no table {begin}"
    assert ended, f"{page} has no {end}"
    return before + begun, table, ended + after


def written(page: Path, part: str = "") -> Table:
    """The table of a page. part: its name, on a page with several tables."""
    lines = _split(page, part)[1].strip().splitlines()
    if not lines:
        return {}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def write(
    page: Path, heads: Sequence[str], rows: Mapping[str, Sequence[str]], corner: str = "", part: str = ""
) -> None:
    lines = [f"| {' | '.join([corner, *heads])} |".replace("|  |", "| |"), f"|---|{'---|' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    before, _, after = _split(page, part)
    page.write_text(f"{before}\n" + "\n".join(lines) + f"\n{after}", "utf-8")
