"""The table of layers in docs/explanation/design.md, as the code has it."""

from a2a_bridge.app.layers import TABLE


def table() -> str:
    """All layers, from the caller to the agent."""
    lines = ["| of | layer | is there with |", "|---|---|---|"]
    for place, rows in TABLE.items():
        lines += [f"| {place} | {row.name} | {row.when} |" for row in rows]
    return "\n".join(lines) + "\n"
