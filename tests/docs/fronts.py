"""The table of parameters in docs/reference/openai.md, from the rows that the front reads."""

from a2a_bridge_adapters.fronts.openai_parameters import PARAMETERS, Api, Parameter, Use


def parameters() -> str:
    """Every parameter, with what becomes of it; those with the same fate and note are one row."""
    rows: dict[tuple[Use, str, str], list[str]] = {}
    for one in PARAMETERS:
        rows.setdefault((one.use, one.note, _where(one)), []).append(f"`{one.name}`")
    lines = ["| parameter | of | what becomes of it |", "|---|---|---|"]
    for (use, note, where), names in sorted(rows.items(), key=lambda row: list(Use).index(row[0][0])):
        lines.append(f"| {', '.join(names)} | {where} | {use.value}{f': {note}' if note else ''} |")
    return "\n".join(lines) + "\n"


def _where(one: Parameter) -> str:
    return {Api.BOTH: "both", Api.CHAT: "chat completions", Api.RESPONSES: "responses"}[one.api]
