"""`card get`: fetches the card, checks it, and prints it.

Rules:
1. The request for the public card carries no credentials. The extended card is only asked for if the public
   one has it, and over a scheme that the public card declares (SPEC.md 10.4).
2. The outcome of signatures is `verified`, `unverifiable` or `absent`; only with --require-signed-card is the
   last one an error.
"""

from __future__ import annotations

import asyncio

import typer

from a2a_bridge.cli.client import text
from a2a_bridge.cli.client.flags import CardGetFlags, ClientFlags
from a2a_bridge.cli.client.reaching import (
    Credentials,
    Session,
    client_options,
    found_card,
    reported,
    run,
    wanted_transports,
)
from a2a_bridge.cli.client.reference import reference
from a2a_bridge.cli.connect import version_of
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub


def shown_card(context: typer.Context, flags: CardGetFlags) -> None:
    """Prints the card of an agent. Raises typer.Exit."""
    if flags.extended:
        card = run(context, flags, _extended)
    else:
        options = client_options(flags)
        Credentials.of(flags)  # complains of files that cannot be read
        with reported(context, flags, credentials=bool(options.parameters)):
            card = asyncio.run(_public(flags))
    if flags.output is Output.JSON:
        document(V1_0.card.encode(card))
    else:
        data("".join(text.card(card, verbose=flags.verbose)), end="")


async def _public(flags: ClientFlags) -> hub.AgentCard:
    target = None if flags.endpoint else reference(flags.agent_card)
    wanted, version = wanted_transports(flags), version_of(flags.a2a_version)
    async with (
        asyncio.timeout(flags.timeout),
        found_card(flags, target, client_options(flags), wanted, version) as (card, _),
    ):
        return card


async def _extended(session: Session) -> hub.AgentCard:
    if session.card.name and not session.card.capabilities.extended_agent_card:
        raise A2AError(Reason.UNSUPPORTED_OPERATION, "the card says that there is no extended card")
    return await session.peer.get_extended_agent_card(None, session.context)
