"""The steps of `check` in their order, and their findings as text, as JSON, and for readers of JUnit."""

import textwrap
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from a2a_bridge_tools.check.card import card, check_serving, readers, schema, signatures
from a2a_bridge_tools.check.inspection import Finding, Inspection, Step
from a2a_bridge_tools.check.messages import answers, message, size, stream, time_limits, webhooks
from a2a_bridge_tools.check.network import (
    authentication,
    check_unknown_task,
    dns,
    interfaces,
    other_versions,
    public_url,
    tcp,
    tls,
)
from a2a_bridge_tools.check.others import others

STEPS: Sequence[Step] = (
    dns,
    tcp,
    tls,
    card,
    check_serving,
    schema,
    signatures,
    readers,
    interfaces,
    public_url,
    other_versions,
    check_unknown_task,
    others,
    time_limits,
    authentication,
    message,
    answers,
    stream,
    size,
    webhooks,
)


async def inspect(inspection: Inspection, steps: Sequence[Step] = STEPS) -> AsyncGenerator[Finding, None]:
    """The findings of all steps, without secrets, until one of them makes the rest useless."""
    hide = inspection.without_secrets
    for step in steps:
        async with aclosing(step(inspection)) as found:
            async for finding in found:
                yield replace(finding, detail=hide(finding.detail), fix=hide(finding.fix))
        if inspection.is_over:
            return


_NAME, _WIDTH = 24, 100
#: characters that XML 1.0 has no place for
_UNWRITABLE = {code: "�" for code in range(32) if code not in (9, 10, 13)}


def lines(finding: Finding) -> str:
    """A finding as text: what was found, and what to do."""
    head = f"{finding.mark} {finding.name:<{_NAME - 2}}"
    indent = " " * (_NAME + 1)
    text = textwrap.wrap(finding.detail, _WIDTH - len(indent), break_long_words=False) or [""]
    found = [f"{head} {text[0]}", *(indent + one for one in text[1:])]
    if finding.fix:
        fix = textwrap.wrap(
            finding.fix, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False
        )
        found += [f"{indent}{'→' if number == 0 else ' '} {one}" for number, one in enumerate(fix)]
    return "\n".join(found)


def summary(findings: Sequence[Finding]) -> str:
    """One line about all of them."""
    marks = [one.mark for one in findings]
    return ", ".join(f"{marks.count(mark)} {mark}" for mark in "✓!✗" if mark in marks)


def tree(target: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings as one document."""
    return {
        "ok": is_ok(findings),
        "warnings": count_warnings(findings),
        "target": target,
        "steps": [step(one) for one in findings],
    }


def step(one: Finding) -> dict[str, Any]:
    """A finding as JSON."""
    return {"name": one.name, "ok": one.ok, "warning": one.warns, "detail": one.detail, "fix": one.fix}


def is_ok(findings: Sequence[Finding]) -> bool:
    """Whether nothing is wrong; warnings do not count."""
    return all(one.ok for one in findings)


def count_warnings(findings: Sequence[Finding]) -> int:
    """The number of warnings."""
    return sum(one.warns for one in findings)


def write_junit(path: Path, target: str, findings: Sequence[Finding]) -> None:
    """Writes a test suite with one case for each finding. Raises OSError."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"a2a-bridge check {target}".translate(_UNWRITABLE),
        tests=str(len(findings)),
        failures=str(sum(not one.ok for one in findings)),
        errors="0",
        skipped="0",
    )
    for one in findings:
        name = one.name.translate(_UNWRITABLE)
        case = ElementTree.SubElement(suite, "testcase", classname="a2a-bridge.check", name=name)
        text, fix = one.detail.translate(_UNWRITABLE), one.fix.translate(_UNWRITABLE)
        if one.ok:
            ElementTree.SubElement(case, "system-out").text = f"{text}\n{fix}".rstrip()
        else:
            ElementTree.SubElement(case, "failure", message=text).text = fix
    document = ElementTree.ElementTree(suite)
    ElementTree.indent(document)
    document.write(path, encoding="utf-8", xml_declaration=True)
