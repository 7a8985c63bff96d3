"""`a2a-bridge card`: the card of an agent."""

from __future__ import annotations

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import CardGetFlags

app = command_group("card", "Show the card of an agent.")


@app.command("get", cls=Command)
@with_flags
def get(context: typer.Context, *, flags: CardGetFlags) -> None:
    """Show the card of an agent: who it is, how it is reached, what it can do.

    For example:

      a2a-bridge card get -a https://agent.example

      a2a-bridge card get -a :8080 --validate -o json
    """
    from a2a_bridge_tools.client.cards import show_card

    show_card(context, flags)
