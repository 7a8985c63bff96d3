"""`a2a-bridge chat`: a conversation with an agent."""

from __future__ import annotations

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import ContinueFlags


@with_flags
def chat(context: typer.Context, *, flags: ContinueFlags) -> None:
    """Talk with an agent, message by message. It needs a terminal.

    The context goes along from message to message, and the task as long as it asks for something. An empty
    line is not sent; Ctrl-D, or /quit, ends.

    For example:

      a2a-bridge chat -a :8080
    """
    from a2a_bridge_tools.client.sending import talk

    talk(context, flags)
