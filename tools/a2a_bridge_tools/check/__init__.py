"""`a2a-bridge check`: looks at everything between a client and an agent, and names what to change."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from a2a_bridge.cli.flags import CardTrustFlags, DialFlags, Output, OutputFlags
from a2a_bridge.cli.output import data, document, fail, guard
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.values import Exit, usage_error
from a2a_bridge.core.options import flag

if TYPE_CHECKING:
    from a2a_bridge.cli.target import Target
    from a2a_bridge_tools.check.inspection import Finding, Inspection


@dataclass(frozen=True, kw_only=True)
class CheckFlags(DialFlags, CardTrustFlags, OutputFlags):
    """The flags of `check`."""

    send: str = flag("hello", "Text of the message that is sent over each interface.", "TEXT", variable="")
    no_send: bool = flag(False, "Send no message: only read.", variable="")
    timeout: float = flag(30.0, "Time limit for each call.", "SECONDS", least=0.001)
    webhook: str = flag(
        "",
        "Address of this machine at which the agent may call; default: 127.0.0.1, for agents here.",
        "HOST:PORT",
        variable="",
    )
    strict: bool = flag(False, "Exit with 1 for warnings, too.", variable="")
    junit: Path | None = flag(
        None, "Also write the findings to this file, as JUnit does.", "FILE", variable=""
    )


@with_flags
def check(
    target: Annotated[
        str, typer.Argument(help="URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent.")
    ],
    *,
    flags: CheckFlags,
) -> None:
    """Look at everything between a client and the agent at TARGET, and say what to change.

    ✓ is right, ! is a warning, ✗ is wrong. Exits with 0, also with warnings (with --strict: 1); with 1 if
    something is wrong, 3 if the agent cannot be reached. Sends the message over each interface, unless
    --no-send; tasks that are left running are cancelled.

    For example:

      a2a-bridge check https://agent.example

      a2a-bridge check :8080 --no-send -o json

      a2a-bridge check https://agent.example -H 'Authorization: @token.txt' --junit check.xml
    """
    from a2a_bridge.core.masking import without_query_values
    from a2a_bridge_tools.check import table as report

    # What fails is a finding, and no line of a log.
    logging.getLogger("a2a_bridge").setLevel(logging.CRITICAL)
    with guard(target):
        findings = asyncio.run(_run(target, flags))
    shown = without_query_values(target)
    if flags.output is Output.JSON:
        document(report.tree(shown, findings))
    else:
        data(report.summary(findings))
    if flags.junit is not None:
        try:
            report.write_junit(flags.junit, shown, findings)
        except OSError as error:
            raise fail(Exit.USAGE, f"{flags.junit} cannot be written: {error.strerror}", "--junit") from None
    if not report.is_ok(findings):
        raise typer.Exit(Exit.UNREACHABLE if any(one.unreachable for one in findings) else 1)
    if flags.strict and report.count_warnings(findings):
        raise typer.Exit(1)


async def _run(target: str, flags: CheckFlags) -> list[Finding]:
    """The findings; as text they are printed as they are made. Raises BadTargetError, typer.BadParameter."""
    from a2a_bridge.app import runtime
    from a2a_bridge.cli.target import Target, TargetKind, load, parse

    parsed = parse(target)
    inspection = _inspection(parsed, flags)
    if not parsed.is_code:
        return await _inspect(inspection, flags)
    async with runtime.serve_agent(load(parsed)) as server:
        # An agent in code has no address: it gets one while it is looked at.
        here = Target(TargetKind.URL, f"http://{server.http}")
        inspection.target, inspection.options = here, replace(inspection.options, named=here.place)
        return await _inspect(inspection, flags)


async def _inspect(inspection: Inspection, flags: CheckFlags) -> list[Finding]:
    from a2a_bridge_tools.check import table as report
    from a2a_bridge_tools.check.table import inspect

    findings = []
    async with aclosing(inspect(inspection)) as found:
        async for one in found:
            findings.append(one)
            if flags.output is not Output.JSON:
                data(report.lines(one))
    return findings


def _inspection(target: Target, flags: CheckFlags) -> Inspection:
    """Raises BadTargetError, typer.BadParameter."""
    from a2a_bridge.cards.build import WILDCARDS
    from a2a_bridge.cli.connect import dial_options, with_user_url
    from a2a_bridge.cli.security import card_check
    from a2a_bridge.cli.target import BadTargetError, TargetKind
    from a2a_bridge.cli.values import listen_address
    from a2a_bridge_tools.check.inspection import Inspection

    if target.sort is TargetKind.CARD:
        try:
            Path(target.place).read_bytes()
        except OSError as error:
            text = f"{target.place} cannot be read: {error.strerror}; name a card file or the URL of an agent"
            raise BadTargetError(text) from None
    if flags.junit is not None and not flags.junit.absolute().parent.is_dir():
        raise usage_error("--junit", f"there is no folder {flags.junit.parent}")
    if flags.webhook and listen_address(flags.webhook, "--webhook")[0] in WILDCARDS:
        text = "the agent cannot call all addresses; name the one of this machine that it reaches"
        raise usage_error("--webhook", text)
    if flags.card_keys or flags.card_jku_host:
        # The question is whether a signature is valid.
        flags = replace(flags, require_signed_card=True)
    return Inspection(
        target,
        with_user_url(target, dial_options(flags)),
        text="" if flags.no_send else flags.send,
        limit=flags.timeout,
        trust=card_check(flags, flags.cacert),
        webhook=flags.webhook,
    )
