"""From the flags of a client command to a client of its agent, and from errors to exit codes
(`cli/output.py`). The interface is the first of the card that this program speaks; `--transport` prefers
others. Versions below 1.0 are only spoken if `--a2a-version` asks for them.

Rules of references to agents (`--agent-card`):
1. A bare host is an origin, as the specification says, and so `host:port` is HTTP here; gRPC is `grpc://`.
   Over https, but http for names and addresses of this machine and of private networks. Everything else is a
   target as the other commands have it (`cli/target.py`). `reference` makes no connection.
2. A catalog (ai-catalog.io, 1.0) lists agents with the URLs of their cards: `https://host#NAME`, or
   `https://host/.well-known/ai-catalog.json#NAME`. An entry is named by its identifier, by the last part of
   the identifier, or by its display name. A catalog with one agent needs no name. If the catalog does not
   have it, catalogs of the same host that are entries of it are read.
3. The user has named the host of the catalog, and not the hosts of its entries: an entry gets what an
   interface of a card at its address would get (`gateway/destinations.py`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import quote_plus, unquote, urldefrag, urljoin, urlsplit

import typer

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.binding import DialOptions, Fetch, http_fetch, names
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards import Candidate, interface, select
from a2a_bridge.cards.read import CardError
from a2a_bridge.cards.resolve import CARD_TYPE, CATALOG_PATH, CATALOG_TYPE
from a2a_bridge.cli.connect import (
    dial_options,
    found_at,
    grpc_interface,
    open_target,
    version_of,
    with_user_url,
)
from a2a_bridge.cli.environment import Environment, warn_of_other_agent, warn_of_readable_secrets
from a2a_bridge.cli.output import Failure, MessageHandler, data, fail, guard, hide, print_message
from a2a_bridge.cli.specification import ERROR, OPTIONS
from a2a_bridge.cli.target import BadTargetError, Target, TargetKind, is_file, load, parse
from a2a_bridge.cli.values import Exit, parameters, parse_binding, text_or_file, usage_error, use_bridge_key
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call, CallContext, Joined
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.masking import HIDDEN, Secrets
from a2a_bridge.core.options import options_of
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.cards import rewrite
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.upstream import options_for
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.credentials import list_required, load_token, origin_of, place, secrets_of
from a2a_bridge_tools.client.equivalents import CapturedCallError, Capturing, format_request, request_of_call
from a2a_bridge_tools.client.flags import ClientFlags, EquivalentKind
from a2a_bridge_tools.client.recording import HOP, Recorded, add_observer, record_to, show_frame
from a2a_bridge_tools.client.text import state_name

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-][A-Za-z0-9_.-]*)(:\d{1,5})?([/?#].*)?")


def reference(text: str) -> Target:
    """Reads a reference. Raises BadTargetError."""
    text = text.strip()
    if not text:
        raise BadTargetError("no agent is named; try: -a REF, or the variable A2ACLI_AGENT_CARD")
    if text.lower().startswith("file://"):
        return Target(TargetKind.CARD, unquote(urlsplit(text).path))
    host = _HOST.fullmatch(text)
    is_code = text.rpartition(":")[0].endswith(".py") or text.endswith(".py")
    if host is None or is_code or (text.endswith(".json") and not host[3]) or is_file(text):
        return parse(text)
    if host[2] and int(host[2][1:]) > 65535:
        raise BadTargetError(f"{host[2][1:]} is not a port")
    return Target(TargetKind.URL, f"{'http' if _is_near(host[1]) else 'https'}://{text}")


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or in a private network."""
    try:
        return ip_address(host.strip("[]")).is_private
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


#: catalogs in a catalog that are read
_PARTS = 100


def is_entry(target: Target) -> bool:
    """Whether a target is an entry of a catalog."""
    if target.sort is not TargetKind.URL:
        return False
    parts = urlsplit(target.place)
    return bool(parts.fragment) or parts.path.endswith("/ai-catalog.json")


async def resolve_entry(target: Target, options: DialOptions) -> tuple[Target, DialOptions]:
    """The card of an entry, and the options to read it with. Raises CardError, and errors of a fetch."""
    place, fragment = urldefrag(target.place)
    if urlsplit(place).path in ("", "/"):
        place = urljoin(place, CATALOG_PATH)
    wanted = unquote(fragment)
    async with http_fetch(options) as fetch:
        entries = await _entries(fetch, place)
        agents = [one for one in entries if one.get("type") == CARD_TYPE]
        found = [one for one in agents if not wanted or wanted in _names(one)]
        parts = [] if found else [one for one in entries if one.get("type") == CATALOG_TYPE]
        for one in parts[:_PARTS]:
            url = str(one.get("url"))
            # Parts of this catalog only: the user has named no other host.
            if place_of(url) == place_of(place):
                more = [other for other in await _entries(fetch, url) if other.get("type") == CARD_TYPE]
                agents += more
                found += [other for other in more if not wanted or wanted in _names(other)]
    if len(found) != 1 or not isinstance(found[0].get("url"), str):
        known = ", ".join(str(one.get("displayName") or one.get("identifier")) for one in agents)
        text = f"the catalog at {place} has {len(found)} agents named {wanted!r}; it has: {known or 'none'}"
        raise CardError(text, absent=True)
    try:
        url = urljoin(place, found[0]["url"])
    except ValueError as error:
        raise CardError(f"the catalog at {place} names no URL of a card: {error}") from None
    vetted = await Destinations(options).check_url(url)
    if vetted.rejection:
        raise CardError(f"the catalog leads to {url}, {vetted.rejection}; name that URL yourself")
    return Target(TargetKind.URL, url), options_for(vetted.candidate, options)


async def _entries(fetch: Fetch, place: str) -> list[dict[str, Any]]:
    """The entries of a catalog. Raises CardError, and errors of a fetch."""
    reply = await fetch(place, {"accept": "application/json"})
    if reply.status != 200:
        raise CardError(f"no catalog at {place}: it answered {reply.status}", absent=True)
    try:
        tree: Any = loads(reply.body)
    except JsonSyntaxError as error:
        raise CardError(f"the catalog at {place} is not JSON: {error}") from None
    entries = tree.get("entries") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise CardError(f"the document at {place} is no catalog")
    return [one for one in entries if isinstance(one, dict)]


def _names(entry: Any) -> Iterator[str]:
    identifier = str(entry.get("identifier", ""))
    yield identifier
    yield identifier.rpartition(":")[2]
    yield str(entry.get("displayName", ""))


_T = TypeVar("_T")
#: bindings that a command can speak
_AS: dict[EquivalentKind | None, list[str]] = {
    EquivalentKind.CURL: ["JSONRPC", "HTTP+JSON"],
    EquivalentKind.GRPCURL: ["GRPC"],
}
_LATE = Reason.DEADLINE_EXCEEDED
_SECRETS = [OPTIONS[name].variable_name for name in ("bearer", "api_key")]


class OlderVersionError(A2AError):
    """VERSION_NOT_SUPPORTED of an agent that speaks versions below 1.0 only. hint: what to try."""

    def __init__(self, offered: str, newest: str) -> None:
        text = f"the agent speaks {offered} only, and versions below 1.0 are used only when asked for"
        super().__init__(Reason.VERSION_NOT_SUPPORTED, text, blame=Blame.PEER)
        self.hint = f"--a2a-version {newest}"


class SilentTaskError(A2AError):
    """DEADLINE_EXCEEDED: nothing of a task has changed for too long. cause: the error of its stream."""

    def __init__(self, seconds: float, cause: A2AError | None) -> None:
        why = f" since its stream broke ({cause.message})" if cause is not None else ""
        text = f"nothing of the task has changed for {seconds:g} s{why}"
        super().__init__(Reason.DEADLINE_EXCEEDED, text, blame=Blame.PEER)


@dataclass(slots=True)
class Session:
    """An agent that a command talks to."""

    peer: Peer
    #: its public card; for an address without one, a card with that interface only
    card: hub.AgentCard
    #: words that name the agent in a command line
    words: tuple[str, ...]
    #: the task that the command works on, as soon as it is known
    task: hub.Task | None = None
    #: files of responses that could not be saved
    unsaved: int = 0
    #: by the monotonic clock; None: no limit
    deadline: float | None = None
    #: the extensions that every call declares
    extensions: tuple[str, ...] = ()
    #: the interface that is called first, and the options to dial it with; None for an agent in this process
    candidate: Candidate | None = None
    options: DialOptions = field(default_factory=DialOptions)

    @property
    def context(self) -> CallContext:
        """The context of a call; the agent gets the deadline, too."""
        parameters = {EXTENSIONS_PARAMETER: Joined(self.extensions)} if self.extensions else {}
        return CallContext(deadline=self.deadline, parameters=parameters)

    def command(self, *words: str) -> str:
        """A command line about the same agent, for a person to copy."""
        name, *rest = words
        return shlex.join(["a2a-bridge", *name.split(), *self.words, *rest])


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of the flags."""

    bearer: str
    api_key: str

    @classmethod
    def of(cls, flags: ClientFlags) -> Credentials:
        """Reads the credentials that are in files. Raises typer.BadParameter."""
        return cls(text_or_file(flags.bearer, "--bearer"), text_or_file(flags.api_key, "--api-key"))

    def are_sent(self, options: DialOptions) -> bool:
        """True if calls carry credentials: these, or parameters of the user."""
        return bool(self.bearer or self.api_key or options.parameters)


def run(
    context: typer.Context,
    flags: ClientFlags,
    work: Callable[[Session], Awaitable[_T]],
    observe: Callable[[Frame], None] | None = None,
) -> _T:
    """Does a command's work with its agent. observe: gets frames. Raises typer.Exit, typer.BadParameter."""
    use_bridge_key(flags.bridge_key)
    given = Credentials.of(flags)
    options = client_options(flags)
    sends = given.are_sent(options)
    session: list[Session] = []
    started = time.monotonic()

    async def whole() -> _T:
        async with asyncio.timeout(flags.timeout), reach(flags, options, given, observe) as found:
            session.append(found)
            found.extensions = extensions_of(found.card, flags)
            found.deadline = None if flags.timeout is None else started + flags.timeout
            if not (flags.dry_run or flags.as_command):
                result = await work(found)
                if found.unsaved:
                    raise typer.Exit(Exit.FAILURE)
                return result
            if not getattr(flags, "stream", False):
                found.card.capabilities.streaming = False  # one call is enough to be shown
            found.peer.service = Capturing()
            try:
                await work(found)
            except CapturedCallError as captured:
                await _show_equivalent(captured.call, found, flags, given)
            raise typer.Exit

    with report_errors(context, flags, credentials=sends, session=session):
        return asyncio.run(whole())


def refuse_equivalents(flags: ClientFlags, why: str) -> None:
    """For a command that makes no single call of an operation. Raises typer.BadParameter."""
    if flags.dry_run or flags.as_command:
        raise usage_error("--dry-run" if flags.dry_run else "--as", f"shows one call, and {why}; send has it")


async def _show_equivalent(
    call: Call[Any, Any], session: Session, flags: ClientFlags, given: Credentials
) -> None:
    """Prints a call that is not made."""
    if session.candidate is None:
        hint = "--as" if flags.as_command else "--dry-run"
        raise usage_error(hint, "needs an agent with an address, or --transport")
    if isinstance(call.request, hub.SendMessageRequest) and not getattr(flags, "return_immediately", False):
        # A command or a program waits in the call itself.
        call.request.configuration.ClearField("return_immediately")
    names = zip((given.bearer, given.api_key), _SECRETS, strict=True)
    # The value may also stand in a URL.
    secrets = {form: f"${name}" for value, name in names if value for form in (value, quote_plus(value))}
    secrets |= {value: HIDDEN for value in parameters(flags.header).values() if value}
    request = await request_of_call(call, session.candidate, session.options)
    data(format_request(flags.as_command, request, call, session.candidate, secrets))


@contextmanager
def report_errors(
    context: typer.Context, flags: ClientFlags, *, credentials: bool = True, session: Sequence[Session] = ()
) -> Iterator[None]:
    """Turns errors into a message and an exit code, errors of this program included."""
    # An unreachable agent is reported once, by the error that ends the command.
    log = logging.getLogger("a2a_bridge")
    log.setLevel(logging.DEBUG if flags.debug else logging.ERROR)
    log.handlers[:] = [MessageHandler(logging.WARNING)]
    environment = Environment.of(context)
    warn_of_readable_secrets(environment, _SECRETS)
    warn_of_other_agent(environment)
    if flags.insecure:
        text = "warning: certificates are not verified (--insecure)"
        print_message(f"{text}; your CREDENTIALS can be read by others" if credentials else text, "yellow")
    where = flags.endpoint or flags.agent_card
    advice = {
        Reason.UNAUTHENTICATED: "--bearer or --api-key, or their variables",
        Reason.VERSION_NOT_SUPPORTED: f"a2a-bridge card get -a {shlex.quote(where)}",
    }
    if "://" not in where and not where.startswith(":"):
        advice[Reason.UNAVAILABLE] = f"grpc://{where}, if that is an address of gRPC"
    try:
        with guard(where, advice, credentials=credentials):
            try:
                yield
            except (TimeoutError, A2AError) as error:
                known = session[-1].task if session else None
                if known is None or getattr(error, "reason", _LATE) is not _LATE:
                    raise
                hint = session[-1].command("task get", known.id, "--wait")
                text = f"the time is up; task {known.id} goes on"
                if isinstance(error, SilentTaskError):
                    text = f"{error.message}; task {known.id} is still {state_name(known.status.state)}"
                late = Failure(f"{ERROR}TIMEOUT", text, hint)
                raise fail(Exit.TIMEOUT, "", error=late) from None
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, the user gets one error object
        if flags.debug:
            print_message(traceback.format_exc().rstrip())
        if isinstance(error, OSError):
            # A full disk, or a place that cannot be written; the network has errors of its own.
            raise fail(Exit.FAILURE, str(error)) from None
        text = f"this program has failed: {type(error).__name__}: {error}"
        raise fail(Exit.FAILURE, text, "--debug, and a report of what it shows") from None


def client_options(flags: ClientFlags) -> DialOptions:
    """The options of the connection, without credentials. Raises typer.BadParameter."""
    options = dial_options(flags)
    # Whatever a parameter is called, its value may be a secret.
    secrets = Secrets.of(options.parameters) | secret_values(flags)
    hide(secrets)
    if flags.debug:
        options = replace(options, frame_observer=partial(show_frame, secrets=secrets))
    return replace(options, timeout=flags.timeout)


@asynccontextmanager
async def reach(
    flags: ClientFlags,
    options: DialOptions,
    given: Credentials,
    observe: Callable[[Frame], None] | None = None,
) -> AsyncIterator[Session]:
    """The agent of the flags. observe: see `run`. Raises A2AError, BadTargetError, typer.BadParameter."""
    wanted = parse_transports(flags) or _AS.get(flags.as_command, [])
    version = version_of(flags.a2a_version)
    words = words_of(flags)
    async with AsyncExitStack() as stack:
        target = None if flags.endpoint else reference(flags.agent_card)
        if target is not None and target.is_code and not wanted:
            peer = await stack.enter_async_context(runtime.connect(load(target), options=options))
            yield Session(peer, peer.card, words)
            return
        card, options = await stack.enter_async_context(found_card(flags, target, options, wanted, version))
        candidates = choose_interfaces(card, wanted, version)
        given = with_stored_token(given, options, candidates)
        options, secrets = with_credentials(card, options, given, flags)
        source = rewrite(card, [one.interface for one in candidates])
        recorder = stack.enter_context(record_to(flags.record))
        if recorder is not None:
            recorder.secrets = secrets
            options = add_observer(options, recorder.observer(HOP))
        if observe is not None:
            options = add_observer(options, observe)
        peer = await stack.enter_async_context(runtime.connect(source, version=version, options=options))
        peer.card = card
        if recorder is not None:
            peer.service = Recorded(peer.service, recorder)
        first = candidates[0]
        if flags.insecure and first.interface.protocol_binding == "GRPC":
            print_message(
                "note: gRPC verifies certificates all the same; --cacert names an authority", "yellow"
            )
        yield Session(peer, card, words, candidate=first, options=options)


@asynccontextmanager
async def found_card(
    flags: ClientFlags, target: Target | None, options: DialOptions, wanted: Sequence[str], version: str
) -> AsyncIterator[tuple[hub.AgentCard, DialOptions]]:
    """The card of an agent, and the options to dial it with. target: None for `--endpoint`."""
    if target is None:
        if len(wanted) != 1:
            raise usage_error("--endpoint", "needs exactly one --transport")
        address = interface(wanted[0], flags.endpoint, version=version or V1_0.version)
        yield _build_unknown_card(address), replace(options, named=flags.endpoint)
    elif target.sort is TargetKind.GRPC:
        yield _build_unknown_card(grpc_interface(target.place, version)), options
    else:
        async with open_reference(target, options) as found:
            yield found


@asynccontextmanager
async def open_reference(
    target: Target, options: DialOptions
) -> AsyncIterator[tuple[hub.AgentCard, DialOptions]]:
    """The card of a reference, and the options to dial its interfaces with."""
    if is_entry(target):
        options = with_user_url(target, options)
        card, found = await found_at(*await resolve_entry(target, options))
        yield card, replace(options, peer=found.peer)
        return
    async with open_target(target, options) as (card, dialling):
        yield card, with_user_url(target, dialling)


def _build_unknown_card(address: hub.AgentInterface) -> hub.AgentCard:
    """A card of an agent of which only an address is known. It may stream; if not, its response says so."""
    return hub.AgentCard(supported_interfaces=[address], capabilities=hub.AgentCapabilities(streaming=True))


def choose_interfaces(card: hub.AgentCard, wanted: Sequence[str], version: str) -> list[Any]:
    """The interfaces to dial, best first. Raises A2AError."""
    found = select(card, known=names(), version=version)
    if not version:
        current = [one for one in found if not one.dialect.version.startswith("0.")]
        if not current:
            offered = ", ".join(dict.fromkeys(one.dialect.version for one in found))
            raise OlderVersionError(offered, found[0].dialect.version)
        found = current
    preferred = [one for name in wanted for one in found if one.interface.protocol_binding == name]
    if wanted and not preferred:
        print_message(f"note: the card offers no {' or '.join(wanted)}; its own order is used", "yellow")
    return preferred or found


def secret_values(flags: ClientFlags) -> Secrets:
    """What the flags of a command say is a secret, but for headers and for values in files."""
    kind: type = type(flags)
    secret = [one.name for one in options_of(kind).values() if one.described.secret]
    values = [getattr(flags, name) for name in secret]
    return Secrets(
        values=frozenset(one for one in values if isinstance(one, str) and one[:1] not in ("", "@"))
    )


def with_credentials(
    card: hub.AgentCard, options: DialOptions, given: Credentials, flags: ClientFlags
) -> tuple[DialOptions, Secrets]:
    """The options with credentials where the card wants them, and all credentials that are known. Warns if
    the card asks for credentials and the user gave none.
    """
    if not (given.bearer or given.api_key or options.parameters or options.tls) and (
        asks := list_required(card)
    ):
        print_message(
            f"note: the card asks for credentials ({', '.join(asks)}), and none are given", "yellow"
        )
    placed = place(card, given.bearer, given.api_key)
    for flag in placed.unused:
        print_message(f"warning: no security scheme of the card takes {flag}; it is not sent", "yellow")
    # A flag of the user outweighs what is made of the credentials.
    options = replace(options, parameters={**placed.parameters, **options.parameters}, query=placed.query)
    used = frozenset(filter(None, (given.bearer, given.api_key)))
    secrets = secrets_of(card, options) | Secrets(values=used) | secret_values(flags)
    hide(secrets)
    if options.frame_observer is not None:
        options = replace(options, frame_observer=partial(show_frame, secrets=secrets))
    return options, secrets


def extensions_of(card: hub.AgentCard, flags: ClientFlags) -> tuple[str, ...]:
    """The extensions that calls declare; says which extensions the agent requires besides."""
    declared = tuple(flags.extension or ())
    for one in card.capabilities.extensions:
        if one.required and one.uri not in (*declared, RESUME_URI):
            text = f"note: the agent requires the extension {one.uri}; --extension declares that you know it"
            print_message(text, "yellow")
    return declared


def with_stored_token(
    given: Credentials, options: DialOptions, candidates: Sequence[Candidate]
) -> Credentials:
    """The credentials with the token of `auth login` for an agent, if the user gives none."""
    if given.bearer or "authorization" in options.parameters:
        return given
    urls = [one.interface.url for one in candidates]
    try:
        token = load_token(origin_of(options.named or urls[0]))
    except (OSError, ValueError) as error:
        print_message(f"warning: the tokens of `auth login` cannot be read: {error}", "yellow")
        return given
    if token is None:
        return given
    if not token.is_fresh:
        print_message(
            "note: the token of `auth login` has expired; a2a-bridge auth login gets another", "yellow"
        )
        return given
    if not options.named and len({place and place.host for place in map(place_of, urls)}) > 1:
        # The card is a file, so that each of its interfaces counts as named.
        print_message(
            "warning: the token of `auth login` is not sent: the card names several hosts", "yellow"
        )
        return given
    return replace(given, bearer=token.access_token)


def parse_transports(flags: ClientFlags) -> list[str]:
    """The bindings of `--transport`, in order. Raises typer.BadParameter."""
    words = [word for one in flags.transport or () for word in one.split(",") if word]
    return list(dict.fromkeys(parse_binding(word, "--transport") for word in words))


def words_of(flags: ClientFlags) -> tuple[str, ...]:
    """The words that name the agent of a command line."""
    words = ["-e", flags.endpoint] if flags.endpoint else ["-a", flags.agent_card]
    words += [word for one in flags.transport or () for word in ("--transport", one)]
    return (*words, *(("--a2a-version", flags.a2a_version) if flags.a2a_version else ()))
