"""`a2a-bridge send`: sends a message to an agent and shows what becomes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import SendFlags


@with_flags
def send(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Text of the message; - reads standard input.")] = None,
    *,
    flags: SendFlags,
) -> None:
    """Send a message to an agent, and show what becomes of it.

    The command waits until the task ends or asks for something, unless --async is given.

    For example:

      a2a-bridge send -a https://agent.example "hello"

      a2a-bridge send -a :8080 "summarise this" --file-part report.pdf --stream
    """
    from a2a_bridge_tools.client.sending import send_message

    send_message(context, text, flags)
