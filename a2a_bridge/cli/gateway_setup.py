"""Builds the gateway: reads the card of the upstream, dials it, serves it. It reads no flags."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from a2a_bridge.app import runtime
from a2a_bridge.bindings.binding import DialOptions, http_fetch, names
from a2a_bridge.cards import Candidate, Resolver, interface, select
from a2a_bridge.cards.read import assumption
from a2a_bridge.cards.select import unusable
from a2a_bridge.cli.advertised import FAULTS, Advertised, ask
from a2a_bridge.cli.connect import found_at, grpc_interface, read_card_file, with_user_url
from a2a_bridge.cli.listen_options import ListenOptions
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail, print_message
from a2a_bridge.cli.reload import Reloader
from a2a_bridge.cli.running import run, serve
from a2a_bridge.cli.target import Target, TargetKind
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.masking import without_query_values
from a2a_bridge.gateway.card_reader import CardReader
from a2a_bridge.gateway.destinations import Destination, Destinations
from a2a_bridge.gateway.endpoints import with_endpoints
from a2a_bridge.pb import lf_a2a_v1 as hub

if TYPE_CHECKING:
    from a2a_bridge.cli.playground import Launch


async def bridge(
    target: Target,
    listening: ListenOptions,
    options: DialOptions,
    *,
    file: Path | None,
    binding: str,
    version: str,
    grace: float,
    reloader: Reloader | None = None,
    launch: Launch | None = None,
) -> None:
    """Serves `target` until a signal. launch: makes the playground. Raises A2AError when the agent cannot be
    reached or used.
    """
    async with found(
        target, listening.options, options, file=file, binding=binding, version=version
    ) as upstream:
        card, candidates, served, dialling = upstream
        if launch is not None:
            dialling = launch.tap("", card, candidates, dialling)
        arguments = (card, candidates, listening.interfaces, served, dialling)
        opening = serve(
            lambda: runtime.serve_gateway(*arguments),
            lambda: runtime.asgi_gateway(*arguments),
            listening.interfaces,
            listening.options.host.drain_window,
        )
        advertised = Advertised.of(listening.options)
        await run(opening, grace, listening.counting, reloader, advertised, launch)


@asynccontextmanager
async def found(
    target: Target,
    served: runtime.ServeOptions,
    options: DialOptions,
    *,
    file: Path | None,
    binding: str,
    version: str,
) -> AsyncIterator[tuple[hub.AgentCard, list[Candidate], runtime.ServeOptions, DialOptions]]:
    """The card of an agent, its interfaces to dial, and the options to serve it and to dial it with. While
    the context is open, its card can be read again. Raises A2AError when the agent cannot be reached or used.
    """
    if target.is_code:
        raise fail(
            Exit.USAGE,
            f"{target.place} is Python code, not a running agent",
            f"a2a-bridge serve {target.place}",
        )
    async with AsyncExitStack() as stack:
        resolver: Resolver | None = None
        if target.sort is TargetKind.URL and file is None:
            # It keeps the ETag of the card for as long as the gateway runs.
            fetch = await stack.enter_async_context(http_fetch(options))
            resolver = Resolver(fetch, check=options.check_card)
        if file is not None:
            card = await read_card_file(file, options)
        else:
            card, options = await found_at(target, options, version, resolver=resolver)
        source_card = upstream_card(target, card, file is not None, binding, version)
        for text in unusable(source_card, known=names()):
            print_message(f"warning: the card's interface {text}; it is not used", "yellow")
        candidates = select(source_card, known=names(), binding=binding, version=version)
        if file is None:
            options = with_user_url(target, options)
        candidates = await _settle(candidates, options)
        try:
            with_endpoints(candidates, served.upstream.endpoints)
        except ValueError as error:
            raise fail(Exit.USAGE, str(error), "--endpoint") from None
        if resolver is not None:
            read = CardReader(resolver, target.place, options, binding=binding, version=version)
            served = replace(served, upstream=replace(served.upstream, read_card=read))
        yield card, candidates, served, options


async def _settle(candidates: Sequence[Candidate], options: DialOptions) -> list[Candidate]:
    """The interfaces to dial; prints each on stderr, with warnings. Raises UNSUPPORTED_OPERATION if there is
    none.
    """
    found = await Destinations(options).check_and_connect(candidates)
    faults = await asyncio.gather(*(_fault(one, options) for one in found))
    usable = []
    for one, fault in zip(found, faults, strict=True):
        interface = one.candidate.interface
        place = without_query_values(interface.url)
        words = f"{interface.protocol_binding} {interface.protocol_version} {place}"
        if one.rejection:
            print_message(f"warning: {words} is not used: the card leads to {one.rejection}", "yellow")
            continue
        usable.append(one.candidate)
        sent = ""
        if options.parameters:
            sent = " with your headers" if one.candidate.credentials else " without your headers"
        print_message(f"upstream: {words}{sent}")
        if not one.candidate.credentials:
            headers = "headers of yours and of callers" if options.parameters else "headers of callers"
            print_message(
                f"  only the card names it; --credentials-for {_origin(interface.url)} sends {headers}",
                "yellow",
            )
        if one.instead_of:
            card_url = without_query_values(one.instead_of)
            print_message(f"  instead of the card's {card_url}; --trust-card-urls dials that", "yellow")
        if one.silence:
            print_message(f"warning: {place} does not answer yet: {one.silence}", "yellow")
        elif fault:
            assumed = assumption(interface.protocol_version)
            text = (
                f"{words} does not answer as an agent: {fault}{'; ' if assumed else ''}{assumed};"
                " --card FILE can name another address or version"
            )
            print_message(f"warning: {text}", "yellow")
    if not usable:
        text = "no interface of the card may be used; --credentials-for ORIGIN or --trust-card-urls allow it"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
    return usable


async def _fault(one: Destination, options: DialOptions) -> str:
    """The fault that a question for a task that nobody has shows: a wrong path, a redirect, a response that
    is none of A2A. Empty if there is none, or if nobody can be asked.
    """
    if one.rejection or one.silence:
        return ""
    error = await ask(one.candidate, options)
    if error is None or error.reason is Reason.TASK_NOT_FOUND:
        return ""
    is_fault = (
        hasattr(error, "__notes__") or error.reason in FAULTS or error.reason is Reason.DEADLINE_EXCEEDED
    )
    return cause_of(error) if is_fault else ""


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc}" if "://" in url else url


def upstream_card(
    target: Target, card: hub.AgentCard, from_file: bool, binding: str, version: str
) -> hub.AgentCard:
    """The card whose interfaces are dialled.

    The given address is dialled as it is for gRPC, and for a URL with a card from a file (as JSON-RPC, if no
    other binding was requested). Otherwise the card has the addresses.
    """
    if target.sort is TargetKind.GRPC:
        return hub.AgentCard(supported_interfaces=[grpc_interface(target.place, version)])
    if target.sort is TargetKind.URL and from_file:
        address = interface(binding or "JSONRPC", target.place, version=version or "1.0")
        return hub.AgentCard(supported_interfaces=[address])
    return card
