"""Tables of pages that `make frameworks` writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

BEGIN, END = "<!-- written by `make frameworks` -->", "<!-- end of what is written -->"

#: the cells of each row by column
Table = dict[str, dict[str, str]]


def written(page: Path) -> Table:
    text = page.read_text("utf-8")
    lines = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    if not lines:
        return {}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def write(page: Path, heads: Sequence[str], rows: Mapping[str, Sequence[str]], corner: str = "") -> None:
    lines = [f"| {' | '.join([corner, *heads])} |".replace("|  |", "| |"), f"|---|{'---|' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    text = page.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", "utf-8")
