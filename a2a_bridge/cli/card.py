"""`a2a-bridge card`: fetches and shows an agent card."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from a2a_bridge.cli.flags import DialFlags, Output, OutputFlags, flag, with_flags

if TYPE_CHECKING:
    from a2a_bridge.bindings import DialOptions
    from a2a_bridge.cli.target import Target
    from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, kw_only=True)
class CardFlags(DialFlags, OutputFlags):
    """The flags of `card`."""

    extended: bool = flag(False, "Show the extended card, with your credentials.", variable="")
    binding: str = flag("", "Binding for --extended.", "BINDING", variable="")


@with_flags
def card(
    target: Annotated[str, typer.Argument(help="URL, :PORT, host:port (gRPC) or card file.")],
    *,
    flags: CardFlags,
) -> None:
    """Show the agent card of TARGET.

    For example:

      a2a-bridge card https://agent.example

      a2a-bridge card :8080 -o json
    """
    from a2a_bridge.cli.connect import dial_options
    from a2a_bridge.cli.output import data, document, guarded
    from a2a_bridge.cli.target import parse
    from a2a_bridge.dialects import V1_0

    options = dial_options(flags)
    with guarded(target, flags.output):
        found = asyncio.run(_fetch(parse(target), flags.extended, flags.binding, options))
        if flags.output is Output.JSON:
            document(V1_0.card.encode(found))
        else:
            data("\n".join(_lines(found)))


async def _fetch(target: Target, extended: bool, binding: str, options: DialOptions) -> hub.AgentCard:
    from a2a_bridge.cli.connect import card_of, reached

    if not extended:
        return await card_of(target, options)
    async with reached(target, binding, options) as peer:
        return await peer.get_extended_agent_card()


def _lines(card: hub.AgentCard) -> list[str]:
    """The card as text: description, interfaces, skills and security."""
    lines = [f"{card.name}  {card.version}".rstrip(), f"  {card.description}", ""]
    lines += [
        f"  {one.protocol_binding:<10} {one.protocol_version:<4} {one.url}"
        + (f"  tenant {one.tenant}" if one.tenant else "")
        for one in card.supported_interfaces
    ]
    can = [
        name
        for name, able in (
            ("streaming", card.capabilities.streaming),
            ("push notifications", card.capabilities.push_notifications),
            ("extended card", card.capabilities.extended_agent_card),
        )
        if able
    ]
    lines += ["", f"  can: {', '.join(can) or 'nothing optional'}"]
    lines += [
        f"  extension{' (required)' if one.required else ''}: {one.uri}"
        for one in card.capabilities.extensions
    ]
    lines += [f"  asks for: {name}" for name in sorted(card.security_schemes)]
    lines += [f"  skill: {skill.name} — {skill.description}" for skill in card.skills]
    return lines
