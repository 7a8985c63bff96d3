"""The agents of a configuration file in one process, and their changes when the file is read again.

Each agent has the flags of the command, with its own options in their place. A new file adds, replaces and
removes only the agents that differ. A gateway replaces an agent without a gap. If the old and the new agent
cannot both have the store or the address, the old agent ends before the new one starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.agents import PATH, AgentEntry, Agents, asgi_agents, interfaces_of, options_of, serve_agents
from a2a_bridge.app.planning import ServeOptions, keeps_owners
from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.app.serving import Server, Shared
from a2a_bridge.cards import interface
from a2a_bridge.cli.advertised import Advertised
from a2a_bridge.cli.config_file import ConfigFile
from a2a_bridge.cli.connect import version_of
from a2a_bridge.cli.gateway_setup import found, gateway_options
from a2a_bridge.cli.output import progress
from a2a_bridge.cli.reload import Reloader
from a2a_bridge.cli.running import builtin_or_envoy, launch_of, serve_until_signal
from a2a_bridge.cli.server_flags import flags_of
from a2a_bridge.cli.server_options import ListenOptions, limits_of, load_agent
from a2a_bridge.cli.target import BadTargetError, parse
from a2a_bridge.cli.values import HEADER, parse_binding, usage_error
from a2a_bridge.dialects import GRPC
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MEMORY

if TYPE_CHECKING:
    from a2a_bridge.cli.running import Launch

logger = logging.getLogger("a2a_bridge.cli.agents")


@dataclass(frozen=True, slots=True)
class AgentKind:
    """What differs between the commands. name: for `Launch`. entry: (name, its settings, its flags, its host
    names, whether it is the only one, the playground) → the agent and its limits. An entry raises
    typer.BadParameter.
    """

    name: str
    entry: Callable[[str, Any, Any, tuple[str, ...], bool, Launch | None], tuple[AgentEntry, LiveLimits]]
    #: whether two of an agent can be open at the same time, by its flags and settings
    overlaps: Callable[[Any, Any], bool]


@dataclass(slots=True)
class _Open:
    """An agent that is served. key: what it was made of."""

    key: object
    limits: LiveLimits


class _Changes:
    """Adds, replaces and removes running agents until they are the agents of a configuration."""

    def __init__(self, kind: AgentKind, grace: float, launch: Launch | None) -> None:
        self._kind = kind
        self._launch = launch
        self._grace = grace
        self._open: dict[str, _Open] = {}
        self.server: Agents | None = None

    def entries(self, flags: Any) -> list[AgentEntry]:
        """The agents at the start. Raises typer.BadParameter."""
        found = []
        for name in flags.agents:
            entry, self._open[name] = self._entry(flags, name)
            found.append(entry)
        return found

    async def apply(self, old: Any, new: Any) -> None:
        """Adds, replaces and removes agents; all of them or none. Raises the errors of `Agents.add`."""
        try:
            await self._change(new)
        except Exception:
            # Some agents have left or are new already, and nothing else would bring the old ones back.
            try:
                await self._change(old)
            except Exception:
                missing = ", ".join(name for name in old.agents if name not in self._open)
                logger.exception("not served before the agents of the file change: %s", missing)
            raise

    async def _change(self, new: Any) -> None:
        if not new.agents:  # as at the start; a file that is written anew is empty for a moment
            raise usage_error("[agents]", "the file has no agent")
        server = self.server
        assert server is not None  # noqa: S101  set before the first change
        same = {name for name, one in self._open.items() if name in new.agents and one.key == _key(new, name)}
        # All before the first change: a file that is not valid changes nothing.
        made = {name: self._entry(new, name) for name in new.agents if name not in same}
        gone = [name for name in self._open if name not in new.agents]
        for name in gone:
            del self._open[name]
        # Together: none of them takes calls while another one has its grace.
        await asyncio.gather(*(server.remove(name, self._grace) for name in gone))
        for name, settings in new.agents.items():
            before = self._open.get(name)
            if before is not None and name in same:
                before.limits.change(limits_of(flags_of(new, settings)))
                continue
            entry, opened = made[name]
            if before is not None and self._kind.overlaps(flags_of(new, settings), settings):
                await server.replace(entry, self._grace)
            else:
                if before is not None:
                    del self._open[name]
                    await server.remove(name, self._grace)
                await server.add(entry)
            # Only now: an agent that could not be opened is tried again with the next file.
            self._open[name] = opened

    def _entry(self, flags: Any, name: str) -> tuple[AgentEntry, _Open]:
        settings, only = flags.agents[name], len(flags.agents) == 1
        names = (settings.host.lower(),) if settings.host else ()
        with _in_table(flags.config, name):
            own = flags_of(flags, settings)
            entry, limits = self._kind.entry(name, settings, own, names, only, self._launch)
        return entry, _Open(_key(flags, name), limits)


@contextmanager
def _in_table(file: Path | None, name: str) -> Iterator[None]:
    """Adds the place to an error of the table of an agent: its options have the names of flags."""
    try:
        yield
    except typer.BadParameter as error:
        option = str(error.param_hint or "").removeprefix("--").replace("-", "_")
        line = 0 if file is None else ConfigFile.read(file).line_of(("agents", name, option))
        place = f"{file}:{line}: " if line else ""
        error.message = f"{place}[agents.{name}]: {error.message}"
        raise
    except BadTargetError as error:
        raise BadTargetError(f"[agents.{name}]: {error}") from None


def _key(flags: Any, name: str) -> object:
    """What an agent is made of, but for its limits, which change while it runs."""
    settings = flags.agents[name]
    without = dict.fromkeys(("max_calls", "max_streams"))
    return replace(settings, given=settings.given - without.keys(), **without), len(flags.agents) == 1


async def serve_all(kind: AgentKind, flags: Any, reloader: Reloader | None) -> None:
    """Serves the agents of a configuration file until a signal. Raises typer.BadParameter."""
    if flags.no_http:
        raise usage_error("--no-http", "the agents of a file are found over HTTP")
    listening = ListenOptions.of(flags)
    options = replace(listening.options, http=listening.http, grpc=listening.grpc)
    launch = launch_of(flags, kind.name)
    listening.follow(reloader)
    changes = _Changes(kind, flags.timeout_graceful_shutdown, launch)
    entries = changes.entries(flags)
    if reloader is not None:
        reloader.on_change(changes.apply)

    def on_open(server: Agents) -> None:
        changes.server = server

    def show(opened: int, of: int) -> None:
        progress(f"{opened:,} of {of:,} agents answer")

    @asynccontextmanager
    async def builtin() -> AsyncIterator[Agents]:
        async with serve_agents(
            entries,
            options,
            grpc=not flags.no_grpc,
            progress=show,
        ) as server:
            on_open(server)
            yield server

    opening = builtin_or_envoy(
        builtin,
        lambda: asgi_agents(entries, options, opened=on_open, progress=show),
        listening.interfaces,
        flags.drain_window,
    )
    advertised = Advertised.of(replace(options, public_url=""))
    if advertised is None:
        public = [name for name, one in flags.agents.items() if "public_url" in one.given and one.public_url]
        advertised = Advertised(frozenset(public)) if public else None
    await serve_until_signal(
        opening, flags.timeout_graceful_shutdown, listening.counting, reloader, advertised, launch
    )


def _own(options: ServeOptions) -> ServeOptions:
    """The options of one agent. The access rules are the server's, where they can change for all."""
    return replace(options, access_rules=())


def _limits(listening: ListenOptions) -> LiveLimits:
    limits = listening.options.limits
    assert isinstance(limits, LiveLimits)  # noqa: S101  ListenOptions makes them so
    return limits


def _interfaces(settings: Any, listening: ListenOptions) -> list[hub.AgentInterface]:
    """The interfaces of an agent: on the common addresses, but for a gRPC address of its own."""
    own = "grpc" in settings.given
    return [
        one
        if own and one.protocol_binding == GRPC.name
        else interface(one.protocol_binding, version=one.protocol_version)
        for one in listening.interfaces
    ]


#: options that prove who calls an agent; the credentials for one agent must not reach another
_CREDENTIALS = (
    *("header", "credentials_for", "cert", "cert_key", "upstream_auth", "upstream_client_id"),
    *("upstream_client_secret", "upstream_issuer", "upstream_token_url"),
)


def _check_credentials(name: str, settings: Any, flags: Any) -> None:
    """Raises typer.BadParameter if one of several agents would get credentials that no table gives it."""
    for option in _CREDENTIALS:
        if option not in settings.given and getattr(flags, option):
            raise usage_error(
                f"--{option.replace('_', '-')}",
                f"several agents must not share credentials; [agents.{name}] has those of one",
            )
    for variable in os.environ:
        if variable.startswith(HEADER):
            raise usage_error(
                variable, "several agents must not share credentials; header in [agents.NAME] takes @FILE"
            )


def _check_own_store(name: str, settings: Any, flags: Any) -> None:
    """Raises typer.BadParameter if one of several agents would have the store of the command."""
    if flags.store not in ("", MEMORY) and "store" not in settings.given:
        text = f"several agents cannot share it; [agents.{name}] store = … names one of its own"
        raise usage_error("--store", text)


def _remote(
    name: str, settings: Any, flags: Any, names: tuple[str, ...], only: bool, launch: Launch | None
) -> tuple[AgentEntry, LiveLimits]:
    if not only:
        _check_credentials(name, settings, flags)
    if "public_url" not in settings.given:
        flags = replace(flags, public_url="")
    if flags.push_relay:
        flags = replace(flags, push_relay=f"{flags.push_relay.rstrip('/')}{PATH}/{name}")
    listening, dialling = gateway_options(flags)
    if not only and (flags.push_relay or keeps_owners(listening.options)):
        _check_own_store(name, settings, flags)
    target = parse(settings.upstream)

    @asynccontextmanager
    async def open_server(shared: Shared) -> AsyncIterator[Server]:
        options = options_of(name, _own(listening.options), shared.options)
        version = version_of(flags.a2a_version)
        async with found(
            target, options, dialling, file=flags.card, binding=parse_binding(flags.binding), version=version
        ) as (card, candidates, served, dial_options):
            tapped = dial_options if launch is None else launch.tap(name, card, candidates, dial_options)
            interfaces = interfaces_of(name, _interfaces(settings, listening), names, at_root=only)
            async with serve_gateway(card, candidates, interfaces, served, tapped, shared=shared) as server:
                yield server

    return AgentEntry(name, open_server, names, at_root=only), _limits(listening)


def _host(
    name: str, settings: Any, flags: Any, names: tuple[str, ...], only: bool, _launch: Launch | None
) -> tuple[AgentEntry, LiveLimits]:
    if "public_url" not in settings.given:
        flags = replace(flags, public_url="")
    if not only:
        _check_own_store(name, settings, flags)
    loaded = load_agent(settings.agent, flags, name)
    listening = loaded.listening
    interfaces = interfaces_of(name, _interfaces(settings, listening), names, at_root=only)

    @asynccontextmanager
    async def open_server(shared: Shared) -> AsyncIterator[Server]:
        async with loaded.opened() as (agent, given):
            options = options_of(name, _own(given), shared.options)
            async with serve_agent(agent, interfaces, options, shared=shared) as server:
                yield server

    return AgentEntry(name, open_server, names, at_root=only), _limits(listening)


GATEWAY = AgentKind(
    "gateway", _remote, lambda flags, settings: not flags.store and "grpc" not in settings.given
)
SERVE = AgentKind("agent", _host, lambda _flags, _settings: False)
