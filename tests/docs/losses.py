"""The table of losses in docs/explanation/versions.md, generated from the dialects."""

from a2a_bridge.dialects import KNOWN
from a2a_bridge.dialects.v0_3.forms import BETWEEN_SHAPES


def table() -> str:
    """The losses, by reason and with the versions; and those between the shapes of 0.x."""
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
