"""From the flags of `gateway` to options, and to the gateway: its card is read, dialled and served.
`GatewayPlanner` makes a plan of flags, and opens no connection. `found` and `bridge` take the plan, and know
no flags.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from a2a_bridge.app import runtime
from a2a_bridge.app.fronts import NAMES
from a2a_bridge.app.planning import ServeOptions, identifies, keeps_owners
from a2a_bridge.bindings.binding import DialOptions, http_fetch, names
from a2a_bridge.bindings.probing import AGENTS
from a2a_bridge.cards import Candidate, Resolver, interface, select
from a2a_bridge.cards.read import CardError, assumption
from a2a_bridge.cards.select import unusable
from a2a_bridge.cli.advertised import FAULTS, Advertised, ask
from a2a_bridge.cli.connect import (
    dial_options,
    found_at,
    grpc_interface,
    note_unknown,
    read_card_file,
    version_of,
    with_user_url,
)
from a2a_bridge.cli.log_setup import configure_tracing
from a2a_bridge.cli.output import fail, print_message
from a2a_bridge.cli.reload import Reloader
from a2a_bridge.cli.running import builtin_or_envoy, serve_until_signal
from a2a_bridge.cli.security import card_check
from a2a_bridge.cli.server_flags import GatewayFlags, UpstreamAuth
from a2a_bridge.cli.server_options import ListenOptions, ServerPlanner
from a2a_bridge.cli.target import Target, TargetKind
from a2a_bridge.cli.values import Exit, as_usage_error, file_text, parse_binding, secret_in, usage_error
from a2a_bridge.core.errors import A2AError, Blame, Reason, cause_of
from a2a_bridge.core.masking import without_query_values
from a2a_bridge.core.option_classes import GrantValues, ReplayOptions, TokenEndpointValues, UpstreamValues
from a2a_bridge.core.options import PREFIX
from a2a_bridge.dialects import GRPC, V0_3
from a2a_bridge.gateway.cards import CardReader
from a2a_bridge.gateway.credentials.grants import ClientCredentials, TokenExchange
from a2a_bridge.gateway.credentials.sending import StaticCredentials, UpstreamCredentials
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint
from a2a_bridge.gateway.destinations import Destination, Destinations, check_endpoint, with_endpoints
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MEMORY

if TYPE_CHECKING:
    from a2a_bridge.cli.running import Launch


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """A gateway to one agent, before any connection is open."""

    listening: ListenOptions
    #: how the agent is called
    dialling: DialOptions
    #: the file of its card, in place of the card that it serves
    file: Path | None
    #: the binding and the version to use; empty: as the card says
    binding: str
    version: str


_SECRET = "--upstream-client-secret"  # noqa: S105  the name of a flag
#: the kinds that ask a token endpoint
_TOKENS = (UpstreamAuth.CLIENT_CREDENTIALS, UpstreamAuth.TOKEN_EXCHANGE)


@dataclass(frozen=True, slots=True)
class GatewayPlanner(ServerPlanner):
    """What the flags of `gateway` mean for one agent."""

    flags: GatewayFlags

    def plan(self, *, relays: bool = True) -> GatewayPlan:
        """The gateway that the flags ask for. relays: whether the command can relay notifications. Raises
        typer.BadParameter, and typer.Exit.
        """
        flags = self.flags
        binding, kind = parse_binding(flags.binding), flags.upstream_auth
        if kind in (UpstreamAuth.PASS_THROUGH, UpstreamAuth.TOKEN_EXCHANGE):
            for name in [one for one in NAMES if getattr(flags, one)]:
                auth = f"--upstream-auth {kind.value}"
                text = f"calls the agent without credentials of callers, which {auth} needs"
                raise usage_error(f"--{name}", text)
        store, push_relay = flags.store, flags.push_relay
        if flags.push_signing_key and (not push_relay or store in ("", MEMORY)):
            raise usage_error(
                "--push-signing-key",
                f"needs --push-relay and a --store other than {MEMORY}; a gateway signs nothing without one",
            )
        listening = self.listening()
        replay = ReplayOptions(**self._taken(ReplayOptions))
        if not flags.replay_memory:
            replay = replace(replay, tasks=0)
        options = replace(
            listening.options,
            replay=replay,
            store=store or None,
            store_options=self.store(),
            push_options=self.push(),
            tracing=configure_tracing(flags.tracing),
        )
        dialling = dial_options(flags)
        dialling = replace(
            dialling,
            # The deadline of the caller limits a call; a blocking send has no usual duration.
            timeout=None,
            forward=dialling.forward | {name.lower() for name in flags.forward or ()},
            check_card=card_check(flags, flags.cacert),
        )
        options = self._with_upstream(options, dialling.parameters)
        used = push_relay or keeps_owners(options)
        if store and not used and store != os.environ.get(PREFIX + "STORE"):
            # The variable may be set for `serve`. The flag shows that the user expects a store.
            relay = "--push-relay, or " if relays else ""
            raise usage_error(
                "--store",
                f"needs {relay}callers that are checked here and not by the agent; nothing else is stored",
            )
        version = version_of(flags.a2a_version)
        return GatewayPlan(replace(listening, options=options), dialling, flags.card, binding, version)

    def _with_upstream(self, options: ServeOptions, parameters: Mapping[str, str]) -> ServeOptions:
        """The options of a gateway, with the options for its agent. parameters: those of every call."""
        flags = self.flags
        for text in flags.endpoint or ():
            with as_usage_error("--endpoint", ValueError):
                check_endpoint(text)
        if flags.upstream_auth is UpstreamAuth.TOKEN_EXCHANGE and not identifies(options):
            raise usage_error(
                "--upstream-auth",
                "is token-exchange, which needs callers that this gateway authenticates by bearer tokens",
            )
        upstream = replace(
            options.upstream, credentials=self._credentials(parameters), **self._taken(UpstreamValues)
        )
        passes = flags.upstream_auth is UpstreamAuth.PASS_THROUGH
        return replace(options, upstream=upstream, pass_credentials=options.pass_credentials or passes)

    def _credentials(self, parameters: Mapping[str, str]) -> UpstreamCredentials | None:
        kind = self.flags.upstream_auth
        if kind not in _TOKENS:
            self._reject_token_flags()
        if kind is None:
            return None
        if "authorization" in parameters and kind is not UpstreamAuth.STATIC:
            raise usage_error(
                "--upstream-auth",
                f"is {kind.value}, and a header Authorization is configured for all calls",
            )
        if kind is UpstreamAuth.PASS_THROUGH:
            return None
        if kind is UpstreamAuth.NONE:
            return StaticCredentials({})
        if kind is UpstreamAuth.STATIC:
            if not parameters:
                raise usage_error(
                    "--upstream-auth", f"is static, which needs -H 'NAME: @FILE' or {PREFIX}HEADER_NAME"
                )
            # The client side sends them already.
            return StaticCredentials({}, also=frozenset(parameters))
        make = ClientCredentials if kind is UpstreamAuth.CLIENT_CREDENTIALS else TokenExchange
        return make(self._endpoint(), **self._taken(GrantValues))

    def _endpoint(self) -> TokenEndpoint:
        flags = self.flags
        if bool(flags.upstream_token_url) == bool(flags.upstream_issuer):
            raise usage_error("--upstream-auth", "needs one of --upstream-token-url and --upstream-issuer")
        with as_usage_error("--upstream-auth", ValueError):
            secret, ca = _secret(flags.upstream_client_secret), str(flags.cacert or "")
            return TokenEndpoint(**self._taken(TokenEndpointValues), secret=secret, ca=ca)

    def _reject_token_flags(self) -> None:
        for name in ("token_url", "issuer", "client_id", "client_secret", "scope", "audience", "resource"):
            if getattr(self.flags, f"upstream_{name}"):
                raise usage_error(
                    f"--upstream-{name.replace('_', '-')}",
                    "needs --upstream-auth client-credentials or token-exchange",
                )


def _secret(text: str) -> Callable[[], str]:
    """Reads the client secret. A file is read for each token, because secrets are rotated."""
    if not text:
        raise usage_error(_SECRET, "is missing")
    if text.startswith("@"):
        file_text(text[1:], _SECRET)
        return partial(secret_in, text[1:])
    if text != os.environ.get(PREFIX + "UPSTREAM_CLIENT_SECRET"):
        # Everybody on the machine can read the arguments of a process.
        raise usage_error(_SECRET, f"is @FILE; the secret itself belongs into {PREFIX}UPSTREAM_CLIENT_SECRET")
    return lambda: text


async def bridge(
    target: Target,
    plan: GatewayPlan,
    *,
    grace: float,
    reloader: Reloader | None = None,
    launch: Launch | None = None,
) -> None:
    """Serves `target` until a signal. launch: the playground. Raises A2AError for an agent that cannot be
    reached or used.
    """
    listening = plan.listening
    async with found(target, plan, listening.options) as upstream:
        card, candidates, served, dialling = upstream
        if launch is not None:
            dialling = launch.tap("", card, candidates, dialling)
        arguments = (card, candidates, listening.interfaces, served, dialling)
        opening = builtin_or_envoy(
            lambda: runtime.serve_gateway(*arguments),
            lambda: runtime.asgi_gateway(*arguments),
            listening.interfaces,
            listening.options.host.drain_window,
        )
        advertised = Advertised.of(listening.options)
        await serve_until_signal(opening, grace, listening.counting, reloader, advertised, launch)


@asynccontextmanager
async def found(
    target: Target, plan: GatewayPlan, served: ServeOptions
) -> AsyncIterator[tuple[hub.AgentCard, list[Candidate], ServeOptions, DialOptions]]:
    """The card of an agent, its interfaces to dial, and the options to serve it and to dial it with. served:
    the options to serve it with, but for its card. While the context is open, its card can be read again.
    Raises A2AError when the agent cannot be reached or used.
    """
    options, file, binding, version = plan.dialling, plan.file, plan.binding, plan.version
    if target.is_code:
        raise fail(
            Exit.USAGE,
            f"{target.place} is Python code, not a running agent",
            f"a2a-bridge serve {target.place}",
        )
    async with AsyncExitStack() as stack:
        resolver: Resolver | None = None
        async with AGENTS.at(target.place):
            if target.sort is TargetKind.URL and file is None:
                # It keeps the ETag of the card for as long as the gateway runs.
                fetch = await stack.enter_async_context(http_fetch(options))
                resolver = Resolver(fetch, check=options.check_card)
            if file is not None:
                try:
                    card = await read_card_file(file, options)
                    note_unknown(file)
                except CardError as error:
                    if not error.absent:
                        raise
                    raise fail(Exit.USAGE, f"--card: {error.message}") from None
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
    """The interfaces to dial. The one in use is printed on stderr, with the warnings about it and about those
    that the card prefers; the others are counted. Raises UNSUPPORTED_OPERATION if there is none.
    """
    found = await Destinations(options).check_and_connect(candidates)
    faults = await asyncio.gather(*(_fault(one, options) for one in found))
    usable = []
    works = [not (one.rejection or one.silence or fault) for one, fault in zip(found, faults, strict=True)]
    in_use = works.index(True) if True in works else len(found)
    for place_in_card, (one, fault) in enumerate(zip(found, faults, strict=True)):
        interface = one.candidate.interface
        place = without_query_values(interface.url)
        words = f"{interface.protocol_binding} {interface.protocol_version} {place}"
        if one.rejection:
            print_message(f"warning: {words} is not used: the card leads to {one.rejection}", "yellow")
            continue
        usable.append(one.candidate)
        if place_in_card > in_use:
            continue
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
            text = f"{words} does not answer as an agent: {fault}"
            advice = "--card FILE can name another address or version"
            print_message(f"warning: {text}; {advice}", "yellow")
    more = [ok for ok, one in zip(works[in_use + 1 :], found[in_use + 1 :], strict=True) if not one.rejection]
    if more:
        silent = f"; {more.count(False)} of them do not answer" if False in more else ""
        print_message(f"  and {len(more)} more of its card, for calls that fail there{silent}")
    if not usable:
        text = "no interface of the card may be used; --credentials-for ORIGIN or --trust-card-urls allow it"
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
    return usable


async def _fault(one: Destination, options: DialOptions) -> str:
    """The fault that a question for an unknown task shows: a wrong path, a redirect, a response that is none
    of A2A. Empty if there is none, or if nobody can be asked.
    """
    if one.rejection or one.silence:
        return ""
    error = await ask(one.candidate, options)
    if error is None or error.reason is Reason.TASK_NOT_FOUND:
        return ""
    if error.reason in _NO_SERVICE and one.candidate.interface.protocol_binding == GRPC.name:
        older = await ask(replace(one.candidate, dialect=V0_3), options)
        if older is None or older.reason not in _NO_SERVICE | {Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED}:
            return (
                "its gRPC service is a2a.v1, that of 0.3 (--a2a-version 0.3); a2a-java 1.0.0.Alpha3 speaks a"
                " draft of 1.0 under this name, so call that over JSON-RPC or HTTP+JSON"
            )
    if error.reason is Reason.DEADLINE_EXCEEDED:
        return cause_of(error)
    if not hasattr(error, "__notes__") and error.reason not in FAULTS:
        return ""
    # Only a response can show that the version is another one.
    assumed = assumption(one.candidate.interface.protocol_version)
    return f"{cause_of(error)}; {assumed}" if assumed else cause_of(error)


#: answers of a gRPC server without the service of a version
_NO_SERVICE = frozenset({Reason.METHOD_NOT_FOUND, Reason.VERSION_NOT_SUPPORTED})


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc}" if "://" in url else url


def upstream_card(
    target: Target, card: hub.AgentCard, from_file: bool, binding: str, version: str
) -> hub.AgentCard:
    """The card whose interfaces are dialled. A gRPC address is dialled as it is given, and so is a URL with a
    card from a file (as JSON-RPC, unless another binding was requested). Else the card has the addresses.
    """
    if target.sort is TargetKind.GRPC:
        return hub.AgentCard(supported_interfaces=[grpc_interface(target.place, version)])
    if target.sort is TargetKind.URL and from_file:
        address = interface(binding or "JSONRPC", target.place, version=version or "1.0")
        return hub.AgentCard(supported_interfaces=[address])
    return card
