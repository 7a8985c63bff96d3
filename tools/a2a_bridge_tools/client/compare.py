"""`a2a-bridge compare`: the same message over every interface of a card."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import CompareFlags


@with_flags
def compare(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Text of the message; - reads standard input.")] = None,
    *,
    flags: CompareFlags,
) -> None:
    """Send a message over every interface and version of a card, and compare the responses.

    The agent sees the message once for each. Ids and times are not compared. Ends with 1 if answers differ.

    For example:

      a2a-bridge compare -a :8080 "hello"

      a2a-bridge compare -a https://agent.example --replay calls.ndjson -o json
    """
    from a2a_bridge_tools.client.comparing import compare_interfaces

    compare_interfaces(context, text, flags)
