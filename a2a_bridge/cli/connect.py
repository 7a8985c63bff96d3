"""From a target to a peer or a card, for the commands that call agents. It does not parse targets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from a2a_bridge.app import runtime
from a2a_bridge.bindings.binding import DialOptions, TlsFiles, http_fetch
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards import interface
from a2a_bridge.cards.read import CardError, parse_bytes, unknown_in, without_mark
from a2a_bridge.cards.resolve import Resolver
from a2a_bridge.cli.config_file import suggestion
from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.flags import AgentFlags, DialFlags
from a2a_bridge.cli.output import print_message
from a2a_bridge.cli.target import BadTargetError, Target, TargetKind, load
from a2a_bridge.cli.values import parameters, parse_dialect, parse_peer, usage_error
from a2a_bridge.cli.worker import Worker
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.options import taken
from a2a_bridge.dialects import KNOWN
from a2a_bridge.gateway.cards import synthesise_card
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the errors of agents without an extended card
NO_CARD = frozenset(
    {Reason.UNSUPPORTED_OPERATION, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, Reason.METHOD_NOT_FOUND}
)


def dial_options(flags: DialFlags) -> DialOptions:
    """The options of a client, from the flags. Raises typer.BadParameter."""
    for origin in flags.credentials_for or ():
        if place_of(origin) is None:
            raise usage_error(
                "--credentials-for", f"{origin!r} is no origin such as https://host or host:port"
            )
    options = DialOptions(
        **taken(DialOptions, flags),
        tls=_tls_files(TlsFiles(**taken(TlsFiles, flags), verify=not flags.insecure)),
        parameters=parameters(flags.header),
    )
    if isinstance(flags, AgentFlags):
        options = replace(options, peer=parse_peer(flags.peer), base64_files=flags.base64_files.base64)
    return options


def _tls_files(files: TlsFiles) -> TlsFiles | None:
    """The files of the flags, checked; None without any. Raises typer.BadParameter."""
    if files == TlsFiles():
        return None
    if files.key and not files.certificate:
        raise usage_error("--key", "needs --cert")
    for path, flag in ((files.ca, "--cacert"), (files.certificate, "--cert"), (files.key, "--cert-key")):
        if path:
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise usage_error(flag, f"{path} cannot be read: {error.strerror}") from None
    for checked, flag in ((TlsFiles(files.ca), "--cacert"), (files, "--cert")):
        try:
            checked.context()
        except OSError as error:
            name = files.ca if flag == "--cacert" else files.certificate
            text = f"{name} cannot be used: {getattr(error, 'reason', None) or error}"
            if flag == "--cert" and not files.key:
                text += "; --cert-key names the file of its key, if that is another one"
            raise usage_error(flag, text) from None
    return files


def version_of(text: str) -> str:
    """`--a2a-version` as the dialects name it, empty when it was not given. Raises typer.BadParameter."""
    return parse_dialect(text, "--a2a-version").version if text else ""


async def found_at(
    target: Target, options: DialOptions, version: str = "", *, resolver: Resolver | None = None
) -> tuple[hub.AgentCard, DialOptions]:
    """An agent's card, and the options for the recognised implementation. An agent at a bare gRPC address is
    asked for its extended card; if it has none, a minimal card is used. resolver: reads the card of a URL.
    Raises A2AError, and BadTargetError for a file that holds no card.
    """
    if target.sort is TargetKind.URL:
        async with AsyncExitStack() as stack:
            if resolver is None:
                fetch = await stack.enter_async_context(http_fetch(options))
                resolver = Resolver(fetch, check=options.check_card)
            found = await resolver.locate(target.place, exact=options.exact)
        if found.fallback:
            print_message(
                f"note: {target.place} shows no card of its own; this is the agent {found.card.name!r} of "
                f"{found.location}; --exact rejects it",
                "yellow",
            )
        return found.card, options.with_profile(found.profile)
    if target.sort is TargetKind.CARD:
        return await read_card_file(Path(target.place), options), options
    if target.sort is TargetKind.GRPC:
        if options.check_card is not None:
            # A response of gRPC is no JSON: the members that this bridge does not know would be lost.
            raise BadTargetError(
                f"the card of {target.place} comes over gRPC, where its signature cannot be checked: name the"
                " URL of the card, or its file (--card)"
            )
        return await _card_over_grpc(target.place, options, version), options
    raise BadTargetError(f"{target.place} is an agent in Python code, which has no address; serve it first")


async def read_card_file(path: Path, options: DialOptions) -> hub.AgentCard:
    """The card in a file, checked as the options say. Raises CardError, and the errors of the check."""
    content = await asyncio.to_thread(_content, path)
    if options.check_card is not None:
        content = await options.check_card(content, str(path))
    return parse_bytes(content, str(path))


def card_file(path: Path, *, hosted: bool = False) -> hub.AgentCard:
    """The card in a file. hosted: as for `parse_bytes`. Raises CardError."""
    return parse_bytes(_content(path), str(path), hosted=hosted)


def note_unknown(path: Path) -> None:
    """Warns of members in a card file that no card has. The file is valid. For workers and Envoy, the
    supervisor does so.
    """
    if inside() is not None or Worker.of_environment() is not None:
        return
    for place, name, names in unknown_in(_content(path)):
        where = f" of {place}" if place else ""
        text = f"{path}: unknown member {name[:64]}{where}{suggestion(name[:64], names)}"
        print_message(f"warning: {text}", "yellow")


def _content(path: Path) -> bytes:
    try:
        return without_mark(path.read_bytes())
    except OSError as error:
        raise CardError(f"{path} cannot be read: {error.strerror}", absent=True) from None


def grpc_interface(place: str, version: str = "") -> hub.AgentInterface:
    """The interface of a bare gRPC address, which names no version: the newest unless one is given."""
    return interface("GRPC", place, version=version or KNOWN[0].version)


def with_user_url(target: Target, options: DialOptions) -> DialOptions:
    """The options with the address that the user named. Card files and code name their own interfaces."""
    named = target.sort in (TargetKind.URL, TargetKind.GRPC)
    return replace(options, named=target.place) if named else options


@asynccontextmanager
async def open_target(
    target: Target, options: DialOptions
) -> AsyncIterator[tuple[hub.AgentCard, DialOptions]]:
    """The card of an agent, and the options to dial it. An agent in code has addresses of its own while the
    context is open.
    """
    if target.is_code:
        async with runtime.serve_agent(load(target)) as server:
            yield server.card, options
    else:
        yield await found_at(target, options)


async def _card_over_grpc(place: str, options: DialOptions, version: str) -> hub.AgentCard:
    address = grpc_interface(place, version)
    async with runtime.connect(address, options=options) as peer:
        try:
            return await peer.get_extended_agent_card()
        except A2AError as error:
            if error.reason not in NO_CARD:
                raise
            print_message(
                f"note: {place} has no card ({error.name}); a minimal one is used; see gateway --card FILE",
                "yellow",
            )
            return synthesise_card(address)
