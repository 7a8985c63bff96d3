"""The steps of `check`, in their order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from a2a_bridge_tools.check.authentication import authentication
from a2a_bridge_tools.check.card import card, check_serving
from a2a_bridge_tools.check.inspection import Finding, Inspection, Step
from a2a_bridge_tools.check.interfaces import check_unknown_task, interfaces, other_versions, public_url
from a2a_bridge_tools.check.limits import size, time_limits
from a2a_bridge_tools.check.messages import answers, message
from a2a_bridge_tools.check.network import dns, tcp
from a2a_bridge_tools.check.readers import readers
from a2a_bridge_tools.check.schema import schema
from a2a_bridge_tools.check.signatures import signatures
from a2a_bridge_tools.check.streams import stream
from a2a_bridge_tools.check.tls import tls
from a2a_bridge_tools.check.webhooks import webhooks

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
    time_limits,
    authentication,
    message,
    answers,
    stream,
    size,
    webhooks,
)


async def inspect(inspection: Inspection, steps: Sequence[Step] = STEPS) -> AsyncGenerator[Finding, None]:
    """The findings of all steps, as they are made, without secrets. Ends early where an earlier one makes the
    rest useless.
    """
    hide = inspection.without_secrets
    for step in steps:
        async with aclosing(step(inspection)) as found:
            async for finding in found:
                yield replace(finding, detail=hide(finding.detail), fix=hide(finding.fix))
        if inspection.is_over:
            return
