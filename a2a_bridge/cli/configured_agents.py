"""The agents of a configuration file in one process, and their changes when the file is read again.

Each agent has the flags of the command, with its own options in their place. A new file adds, replaces and
removes only the agents that differ. A gateway replaces an agent without a gap. If the old and the new agent
cannot both have the store or the address, the old agent ends before the new one starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.agents import PATH, AgentEntry, Agents, asgi_agents, interfaces_of, options_of, serve_agents
from a2a_bridge.app.planning import ServeOptions, keeps_owners
from a2a_bridge.app.runtime import serve_agent, serve_gateway
from a2a_bridge.app.serving import Server, Shared
from a2a_bridge.cards import interface
from a2a_bridge.cli.advertised import Advertised
from a2a_bridge.cli.config_file import ConfigFile
from a2a_bridge.cli.gateway_setup import GatewayPlanner, found
from a2a_bridge.cli.output import progress
from a2a_bridge.cli.reload import Reloader
from a2a_bridge.cli.running import builtin_or_envoy, launch_of, serve_until_signal
from a2a_bridge.cli.server_flags import flags_of
from a2a_bridge.cli.server_options import AgentPlanner, ListenOptions, ServerPlanner
from a2a_bridge.cli.target import BadTargetError, parse
from a2a_bridge.cli.values import HEADER, usage_error
from a2a_bridge.dialects import GRPC
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import MEMORY

if TYPE_CHECKING:
    from a2a_bridge.cli.running import Launch

logger = logging.getLogger("a2a_bridge.cli.agents")


@dataclass(frozen=True, slots=True)
class ConfiguredAgent:
    """One agent of a file."""

    name: str
    #: its table
    settings: Any
    #: the flags of the command, with the options of the table in their place
    flags: Any
    #: whether it is the only agent of the file
    only: bool

    @classmethod
    def all_of(cls, command: Any) -> dict[str, ConfiguredAgent]:
        """The agents of a file, by name. command: its flags."""
        only = len(command.agents) == 1
        found = {}
        for name, settings in command.agents.items():
            flags = flags_of(command, settings)
            if "public_url" not in settings.given:
                flags = replace(flags, public_url="")
            if relay := getattr(flags, "push_relay", ""):
                flags = replace(flags, push_relay=f"{relay.rstrip('/')}{PATH}/{name}")
            found[name] = cls(name, settings, flags, only)
        return found

    @property
    def key(self) -> object:
        """What the agent is made of, but for its limits, which change while it runs."""
        without = dict.fromkeys(("max_calls", "max_streams"))
        return replace(self.settings, given=self.settings.given - without.keys(), **without), self.only

    @property
    def names(self) -> tuple[str, ...]:
        """Its host names."""
        return (self.settings.host.lower(),) if self.settings.host else ()

    def interfaces(self, listening: ListenOptions) -> tuple[hub.AgentInterface, ...]:
        """Its interfaces: on the common addresses, but for a gRPC address of its own."""
        own = "grpc" in self.settings.given
        found = [
            one
            if own and one.protocol_binding == GRPC.name
            else interface(one.protocol_binding, version=one.protocol_version)
            for one in listening.interfaces
        ]
        return interfaces_of(self.name, found, self.names, at_root=self.only)

    def options(self, own: ServeOptions, server: ServeOptions) -> ServeOptions:
        """Its options. The access rules are the server's, where they can change for all."""
        return options_of(self.name, replace(own, access_rules=()), server)

    def entry(self, opening: Callable[[Shared], AbstractAsyncContextManager[Server]]) -> AgentEntry:
        return AgentEntry(self.name, opening, self.names, at_root=self.only)

    def check_credentials(self) -> None:
        """Raises typer.BadParameter if one of several agents would get credentials that no table gives it."""
        for option in _CREDENTIALS:
            if option not in self.settings.given and getattr(self.flags, option):
                raise usage_error(
                    f"--{option.replace('_', '-')}",
                    f"several agents must not share credentials; [agents.{self.name}] has those of one",
                )
        for variable in os.environ:
            if variable.startswith(HEADER):
                raise usage_error(
                    variable,
                    "several agents must not share credentials; header in [agents.NAME] takes @FILE",
                )

    def check_own_store(self) -> None:
        """Raises typer.BadParameter if one of several agents would have the store of the command."""
        if self.flags.store not in ("", MEMORY) and "store" not in self.settings.given:
            text = f"several agents cannot share it; [agents.{self.name}] store = … names one of its own"
            raise usage_error("--store", text)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Adds the place to an error of the table of the agent: its options have the names of flags."""
        file = self.flags.config
        try:
            yield
        except typer.BadParameter as error:
            option = str(error.param_hint or "").removeprefix("--").replace("-", "_")
            line = 0 if file is None else ConfigFile.read(file).line_of(("agents", self.name, option))
            place = f"{file}:{line}: " if line else ""
            error.message = f"{place}[agents.{self.name}]: {error.message}"
            raise
        except BadTargetError as error:
            raise BadTargetError(f"[agents.{self.name}]: {error}") from None


#: options that prove who calls an agent; the credentials for one agent must not reach another
_CREDENTIALS = (
    *("header", "credentials_for", "cert", "cert_key", "upstream_auth", "upstream_client_id"),
    *("upstream_client_secret", "upstream_issuer", "upstream_token_url"),
)


@dataclass(frozen=True, slots=True)
class AgentKind:
    """What differs between the commands. name: for `Launch`. entry: an agent, the playground → its entry and
    its limits. An entry raises typer.BadParameter.
    """

    name: str
    entry: Callable[[ConfiguredAgent, Launch | None], tuple[AgentEntry, LiveLimits]]
    #: whether two of an agent can be open at the same time
    overlaps: Callable[[ConfiguredAgent], bool]


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

    def entries(self, agents: Mapping[str, ConfiguredAgent]) -> list[AgentEntry]:
        """The agents at the start. Raises typer.BadParameter."""
        found = []
        for name, one in agents.items():
            entry, self._open[name] = self._entry(one)
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
        agents = ConfiguredAgent.all_of(new)
        same = {name for name, one in self._open.items() if name in agents and one.key == agents[name].key}
        # All before the first change: a file that is not valid changes nothing.
        made = {name: self._entry(one) for name, one in agents.items() if name not in same}
        gone = [name for name in self._open if name not in agents]
        for name in gone:
            del self._open[name]
        # Together: none of them takes calls while another one has its grace.
        await asyncio.gather(*(server.remove(name, self._grace) for name in gone))
        for name, one in agents.items():
            before = self._open.get(name)
            if before is not None and name in same:
                before.limits.change(ServerPlanner(one.flags).limits())
                continue
            entry, opened = made[name]
            if before is not None and self._kind.overlaps(one):
                await server.replace(entry, self._grace)
            else:
                if before is not None:
                    del self._open[name]
                    await server.remove(name, self._grace)
                await server.add(entry)
            # Only now: an agent that could not be opened is tried again with the next file.
            self._open[name] = opened

    def _entry(self, one: ConfiguredAgent) -> tuple[AgentEntry, _Open]:
        with one.reported():
            entry, limits = self._kind.entry(one, self._launch)
        return entry, _Open(one.key, limits)


async def serve_all(kind: AgentKind, flags: Any, reloader: Reloader | None) -> None:
    """Serves the agents of a configuration file until a signal. Raises typer.BadParameter."""
    if flags.no_http:
        raise usage_error("--no-http", "the agents of a file are found over HTTP")
    listening = ServerPlanner(flags).listening()
    options = replace(listening.options, http=listening.http, grpc=listening.grpc)
    launch = launch_of(flags, kind.name)
    listening.follow(reloader)
    changes = _Changes(kind, flags.timeout_graceful_shutdown, launch)
    entries = changes.entries(ConfiguredAgent.all_of(flags))
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


def _limits(listening: ListenOptions) -> LiveLimits:
    limits = listening.options.limits
    assert isinstance(limits, LiveLimits)  # noqa: S101  ServerPlanner makes them so
    return limits


def _remote(one: ConfiguredAgent, launch: Launch | None) -> tuple[AgentEntry, LiveLimits]:
    if not one.only:
        one.check_credentials()
    plan = GatewayPlanner(one.flags).plan()
    listening = plan.listening
    if not one.only and (one.flags.push_relay or keeps_owners(listening.options)):
        one.check_own_store()
    target = parse(one.settings.upstream)

    @asynccontextmanager
    async def open_server(shared: Shared) -> AsyncIterator[Server]:
        options = one.options(listening.options, shared.options)
        async with found(target, plan, options) as (card, candidates, served, dialling):
            tapped = dialling if launch is None else launch.tap(one.name, card, candidates, dialling)
            interfaces = one.interfaces(listening)
            async with serve_gateway(card, candidates, interfaces, served, tapped, shared=shared) as server:
                yield server

    return one.entry(open_server), _limits(listening)


def _host(one: ConfiguredAgent, _launch: Launch | None) -> tuple[AgentEntry, LiveLimits]:
    if not one.only:
        one.check_own_store()
    loaded = AgentPlanner(one.flags).load(one.settings.agent, one.name)
    interfaces = one.interfaces(loaded.listening)

    @asynccontextmanager
    async def open_server(shared: Shared) -> AsyncIterator[Server]:
        async with loaded.opened() as (agent, given):
            options = one.options(given, shared.options)
            async with serve_agent(agent, interfaces, options, shared=shared) as server:
                yield server

    return one.entry(open_server), _limits(loaded.listening)


GATEWAY = AgentKind("gateway", _remote, lambda one: not one.flags.store and "grpc" not in one.settings.given)
SERVE = AgentKind("agent", _host, lambda _: False)
