"""The table of losses in docs/explanation/versions.md, generated from the dialects.

`python -m tests.docs.losses` writes it; `make generate` runs that, and a test compares.
"""

from __future__ import annotations

from a2a_bridge.dialects import KNOWN
from a2a_bridge.dialects.v0_3.forms import BETWEEN_SHAPES
from tests.docs.pages import DOCS

PAGE = DOCS / "explanation/versions.md"
BEGIN = "<!-- generated from the losses of the dialects by `make generate` -->\n"
END = "<!-- end of what is generated -->\n"


def table() -> str:
    """The losses, by reason and with the versions; and the content that does not pass between the shapes of
    0.x.
    """
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for dialect in KNOWN:
        for loss in dialect.losses:
            paths, versions = rows.setdefault(loss.reason, ([], []))
            if loss.path not in paths:
                paths.append(loss.path)
            over = f" over {' and '.join(loss.bindings)}" if loss.bindings else ""
            if dialect.version + over not in versions:
                versions.append(dialect.version + over)
    lines = ["| of 1.0 | cannot be said in | because |", "|---|---|---|"]
    lines += [
        f"| {', '.join(f'`{path}`' for path in paths)} | {', '.join(versions)} | {reason} |"
        for reason, (paths, versions) in rows.items()
    ]
    lines += ["", "| of one shape of 0.x | does not reach agents of the other, because |", "|---|---|"]
    lines += [f"| {loss.path} | {loss.reason} |" for loss in BETWEEN_SHAPES]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
