"""`a2a-bridge card`: the card of an agent."""

from __future__ import annotations

import typer

from a2a_bridge.cli.client.flags import CardGetFlags
from a2a_bridge.cli.commands import Command, Group
from a2a_bridge.cli.flags import with_flags

app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    name="card",
    help="Show the card of an agent.",
    no_args_is_help=True,
)


@app.command("get", cls=Command)
@with_flags
def get(context: typer.Context, *, flags: CardGetFlags) -> None:
    """Show the card of an agent: who it is, how it is reached, what it can do.

    For example:

      a2a-bridge card get -a https://agent.example

      a2a-bridge card get -a :8080 --validate -o json
    """
    from a2a_bridge.cli.client.cards import shown_card

    shown_card(context, flags)
