"""`a2a-bridge card`: fetches and shows an agent card."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from a2a_bridge.cli.options import (
    Cacert,
    Cert,
    ConnectTimeout,
    CredentialsFor,
    Exact,
    GrpcTls,
    Header,
    Insecure,
    Key,
    Output,
    OutputFormat,
    TrustCardUrls,
    parameters,
    tls_files,
)

if TYPE_CHECKING:
    from a2a_bridge.bindings import DialOptions
    from a2a_bridge.cli.target import Target
    from a2a_bridge.pb import lf_a2a_v1 as hub


def card(
    target: Annotated[str, typer.Argument(help="URL, :PORT, host:port (gRPC) or card file.")],
    *,
    extended: Annotated[
        bool, typer.Option("--extended", help="Show the extended card, with your credentials.")
    ] = False,
    binding: Annotated[str, typer.Option(metavar="BINDING", help="Binding for --extended.")] = "",
    exact: Exact = False,
    credentials_for: CredentialsFor = None,
    trust_card_urls: TrustCardUrls = False,
    cacert: Cacert = None,
    insecure: Insecure = False,
    cert: Cert = None,
    cert_key: Key = None,
    grpc_tls: GrpcTls = None,
    connect_timeout: ConnectTimeout = 10.0,
    header: Header = None,
    output: OutputFormat = Output.TEXT,
) -> None:
    """Show the agent card of TARGET.

    For example:

      a2a-bridge card https://agent.example

      a2a-bridge card :8080 -o json
    """
    from a2a_bridge.bindings import DialOptions
    from a2a_bridge.cli.output import data, document, guarded
    from a2a_bridge.cli.target import parse
    from a2a_bridge.dialects import V1_0

    options = DialOptions(
        connect_timeout=connect_timeout,
        exact=exact,
        parameters=parameters(header),
        credentials_for=frozenset(credentials_for or ()),
        trust_card_urls=trust_card_urls,
        tls=tls_files(cacert, cert, cert_key, insecure=insecure),
        grpc_tls=grpc_tls,
    )
    with guarded(target, output):
        found = asyncio.run(_fetch(parse(target), extended, binding, options))
        if output is Output.JSON:
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
