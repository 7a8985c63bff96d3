"""`a2a-bridge auth`: tokens of identity providers."""

from __future__ import annotations

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import LoginFlags

app = command_group("auth", "Get a token for an agent from its identity provider.")


@app.callback()
def auth() -> None:
    """Get a token for an agent from its identity provider."""


@app.command(cls=Command)
@with_flags
def login(context: typer.Context, *, flags: LoginFlags) -> None:
    """Get a token for an agent, and keep it for later commands.

    The card of the agent names the provider: OAuth 2 or OpenID Connect. With the device flow you approve in
    a browser, on any machine. The token is kept in ~/.config/a2a-cli/tokens.json, which only you can read;
    remove it there.

    For example:

      a2a-bridge auth login -a https://agent.example --client-id me

      a2a-bridge auth login -a https://agent.example --client-id ci --client-secret @secret
    """
    from a2a_bridge_tools.client.logging_in import log_in

    log_in(context, flags)
