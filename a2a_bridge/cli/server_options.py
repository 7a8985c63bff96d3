"""From the flags of `serve` and `gateway` to interfaces and options, and the agent that `serve` hosts. It
opens no socket and no store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from a2a_bridge.app import runtime
from a2a_bridge.app.fronts import NAMES, find_front
from a2a_bridge.auth.rules import LiveRules, Rule
from a2a_bridge.bindings.binding import HostOptions, ListenAddress
from a2a_bridge.cards import interface
from a2a_bridge.cards.build import WILDCARDS
from a2a_bridge.cli.connect import card_file, note_unknown
from a2a_bridge.cli.envoy import inside
from a2a_bridge.cli.log_setup import configure_tracing, open_logging
from a2a_bridge.cli.output import fail, not_loaded
from a2a_bridge.cli.reload import Reloader
from a2a_bridge.cli.security import authentication, check_card, middleware_of, server_tls
from a2a_bridge.cli.server_flags import RuleSettings, ServeFlags, ServerFlags
from a2a_bridge.cli.target import TargetKind, load, parse
from a2a_bridge.cli.usage import UsageRecorder
from a2a_bridge.cli.values import (
    Exit,
    as_usage_error,
    file_text,
    listen_address,
    parse_dialect,
    text_or_file,
    usage_error,
)
from a2a_bridge.cli.worker import Worker
from a2a_bridge.cluster.nats_bus import split_server
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.extras import MissingExtraError, OtherVersionError
from a2a_bridge.core.option_classes import EngineOptions, ProgramOptions, ServerTlsValues, StoreOptions
from a2a_bridge.core.options import taken, texts
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, Dialect
from a2a_bridge.dialects.v0_3.card import without_carrier
from a2a_bridge.extensions import BrokenExtensionError
from a2a_bridge.hosting import Agent
from a2a_bridge.middleware import Limits, Usage
from a2a_bridge.middleware.limits import LiveLimits
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.push.notification import Signer
from a2a_bridge.push.secrets import Vault, keys_in
from a2a_bridge.signing import CardSigner

logger = logging.getLogger("a2a_bridge.cli.serve")


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """The interfaces to mount, and the options of the server."""

    interfaces: list[hub.AgentInterface]
    options: runtime.ServeOptions
    #: the common addresses
    http: ListenAddress
    grpc: ListenAddress
    #: None if calls are not counted
    counting: UsageRecorder | None = None

    def follow(self, reloader: Reloader | None) -> None:
        """Takes new limits and access rules from a file that is read again. In a worker the supervisor reads
        it, and starts a successor: until this worker has drained, callers need a rule of both files.
        """
        limits, rules = self.options.limits, self.options.access_rules
        worker = Worker.of_environment()
        if worker is not None and isinstance(rules, LiveRules):
            worker.on_rules.append(lambda new: rules.narrow(rules_of(new)))
        if reloader is not None and isinstance(rules, LiveRules):
            reloader.on_change(lambda _, new: rules.change(rules_of(new.rules)))
        if reloader is not None and isinstance(limits, LiveLimits):
            reloader.on_change(lambda _, new: limits.change(ServerPlanner(new).limits()))


@dataclass(frozen=True, slots=True)
class ServerPlanner:
    """What the flags of a server mean. Each part is decided here once; nothing behind it asks the flags."""

    flags: ServerFlags

    def listening(self) -> ListenOptions:
        """JSON-RPC at `/` and HTTP+JSON at the root paths of one listener, gRPC on another, in each version.
        Raises typer.BadParameter.
        """
        flags = self.flags
        http, grpc = self._addresses()
        interfaces = self._interfaces(http, grpc)
        plain, host = self._taken(runtime.ServeOptions), self._taken(HostOptions)
        self._check_public(plain.get("push_relay", ""))
        _check_proxies(host["trust_forwarded"])
        self._check_fronts()
        if flags.advertise:
            _check_advertised(flags.advertise, plain["advertise"], interfaces)
        if flags.card_versions:
            plain["card_versions"] = _card_versions(flags.card_versions, plain["advertise"], interfaces)
        worker, counting = Worker.of_environment(), self._counting()
        options = runtime.ServeOptions(
            **plain,
            host=HostOptions(
                **host,
                reuse_port=worker is not None,
                listener=worker.listener if worker is not None else None,
                grpc_listener=worker.grpc_listener if worker is not None else None,
            ),
            limits=LiveLimits(self.limits()),
            # Only a file has rules, and only a file can be read again.
            access_rules=LiveRules(rules_of(flags.rules)) if flags.config is not None else (),
            admin=self._admin(worker),
            # The playground has a page about callers, which shows what the admin listener counts.
            usage=counting.table if counting is not None else Usage() if flags.ui and flags.admin else None,
            authentication=authentication(flags),
            middleware=middleware_of(flags.middleware or ()),
            card_signing_keys=self._card_signing_keys(),
            tls=None if flags.envoy_address else server_tls(ServerTlsValues(**self._taken(ServerTlsValues))),
        )
        return ListenOptions(interfaces, options, http, grpc, counting)

    def limits(self) -> Limits:
        """The limits of one principal."""
        return Limits(**self._taken(Limits))

    def store(self) -> StoreOptions:
        """The options of the store, which keeps ended tasks. Raises typer.BadParameter."""
        return StoreOptions(keys=tuple(keys_of(self.flags.store_key)), **self._taken(StoreOptions))

    def push(self) -> PushOptions:
        """The allowed addresses and the signing keys of notifications. Raises typer.BadParameter."""
        keys = tuple(file_text(path, "--push-signing-key") for path in self.flags.push_signing_key or ())
        options = PushOptions(**{**self._taken(PushOptions), "signing_keys": keys})
        with as_usage_error("--push-allow", ValueError):
            options.policy()
        with as_usage_error("--push-signing-key", ValueError, ImportError):
            if keys:
                Signer(keys, options.issuer)
        return options

    def _taken(self, group: type) -> dict[str, Any]:
        """The values of the options of a class of the library; see `taken`."""
        return taken(group, self.flags)

    def _addresses(self) -> tuple[ListenAddress, ListenAddress]:
        """The addresses of HTTP and gRPC. Raises typer.BadParameter."""
        flags, worker = self.flags, Worker.of_environment()
        if flags.no_http and flags.no_grpc:
            raise usage_error("--no-grpc", "with --no-http too there is nothing to serve")
        envoy = flags.envoy_address
        http, grpc = envoy or flags.http, envoy or flags.grpc
        if worker is not None:
            http, grpc = worker.http or http, worker.grpc or grpc
        http_address = ListenAddress(*listen_address(http, "--http"))
        grpc_address = ListenAddress(*listen_address(grpc, "--grpc"))
        is_one = http_address == grpc_address and http_address.port
        if is_one and not (envoy or flags.no_http or flags.no_grpc):
            text = "HTTP and gRPC need a port each; with --server envoy they share the one of --listen"
            raise usage_error("--grpc", text)
        return http_address, grpc_address

    def _interfaces(self, http: ListenAddress, grpc: ListenAddress) -> list[hub.AgentInterface]:
        """The interfaces to mount. Raises typer.BadParameter."""
        flags, mounted = self.flags, list[hub.AgentInterface]()
        for dialect in _dialects(flags.versions):
            version = dialect.version
            if not flags.no_http and dialect.form(JSONRPC) is not None:
                mounted.append(interface("JSONRPC", f"http://{http}/", version=version))
            if not flags.no_http and dialect.form(HTTP_JSON) is not None:
                mounted.append(interface("HTTP+JSON", f"http://{http}", version=version))
            if not flags.no_grpc and dialect.form(GRPC) is not None:
                mounted.append(interface("GRPC", str(grpc), version=version))
        if not mounted:
            raise usage_error(
                "--versions",
                f"{flags.versions or 'no version'} cannot be served over what is left; name one such as 1.0",
            )
        return mounted

    def _check_public(self, push_relay: str) -> None:
        """Raises typer.BadParameter for an address that callers cannot use."""
        for given, flag in ((self.flags.public_url, "--public-url"), (push_relay, "--push-relay")):
            if given and not given.startswith(("http://", "https://")):
                raise usage_error(flag, f"{given!r} is not an http(s) URL such as https://agent.example")
        _check_grpc_address(self.flags.public_grpc)
        if push_relay and self.flags.no_http:
            raise usage_error("--push-relay", "notifications come over HTTP")

    def _check_fronts(self) -> None:
        """Raises typer.BadParameter, and typer.Exit for a front that is not installed."""
        for name in NAMES:
            if not getattr(self.flags, name):
                continue
            if self.flags.no_http:
                raise usage_error(f"--{name}", "is served over HTTP, which --no-http leaves out")
            try:
                find_front(name)
            except MissingExtraError as error:
                raise fail(Exit.USAGE, f"--{name}: {error.text}", error.remedy) from None
            except (OtherVersionError, BrokenExtensionError) as error:
                raise not_loaded(f"--{name}", error) from None

    def _counting(self) -> UsageRecorder | None:
        """The recorder of calls; None if calls are not counted. Raises typer.BadParameter."""
        file, address = self.flags.usage_file, self.flags.usage_listen
        if file is None and not address:
            return None
        listen = ListenAddress(*listen_address(address, "--usage-listen")) if address else None
        return UsageRecorder(Usage(), file, listen)

    def _admin(self, worker: Worker | None) -> ListenAddress | None:
        """Where operators ask. The supervisor asks workers, each at a port of its own."""
        if not self.flags.admin:
            return None
        if worker is not None:
            return ListenAddress()
        return ListenAddress(*listen_address(self.flags.admin, "--admin"))

    def _card_signing_keys(self) -> tuple[str, ...]:
        """The keys of `--card-signing-key`, newest first. Raises typer.BadParameter."""
        flags = self.flags
        keys = tuple(file_text(path, _SIGN) for path in flags.card_signing_key or ())
        if not keys:
            return ()
        if flags.no_http:
            raise usage_error(_SIGN, "the card is served over HTTP")
        wild = [
            one
            for one, flag, served in (
                (flags.http, "--http", True),
                (flags.grpc, "--grpc", not flags.no_grpc and not flags.public_grpc),
            )
            if served and listen_address(one, flag)[0] in WILDCARDS
        ]
        if not flags.public_url and (wild or inside() is not None):
            raise usage_error(
                _SIGN, "needs --public-url: a signed card cannot follow the Host header, which callers choose"
            )
        with as_usage_error(_SIGN, ValueError, ImportError):
            CardSigner(keys)
        return keys


_SIGN = "--card-signing-key"


def _check_advertised(given: str, listed: Sequence[str], mounted: Sequence[hub.AgentInterface]) -> None:
    """Raises typer.BadParameter for a binding of the card that is not served. given: the flag. listed: its
    bindings.
    """
    if not listed:
        raise usage_error("--advertise", "names no binding")
    served = dict.fromkeys(one.protocol_binding for one in mounted)
    if not served.keys() >= set(listed):
        raise usage_error("--advertise", f"{given!r} is not all of {', '.join(served)}")


def _card_versions(
    given: str, listed: Sequence[str], mounted: Sequence[hub.AgentInterface]
) -> tuple[str, ...]:
    """The versions of the card. given: the flag. listed: the bindings of the card; empty for all. Raises
    typer.BadParameter.
    """
    versions = tuple(dialect.version for dialect in _dialects(given, "--card-versions"))
    if not versions:
        raise usage_error("--card-versions", "names no version")
    if not {one.protocol_version for one in mounted if not listed or one.protocol_binding in listed} >= set(
        versions
    ):
        raise usage_error("--card-versions", f"{given!r} is not all served; see --versions and --advertise")
    return versions


def _check_proxies(trusted: Sequence[str]) -> None:
    """Raises typer.BadParameter for an entry of --forwarded-allow-ips that is not valid."""
    for text in trusted:
        try:
            if text != "*":
                ip_network(text, strict=False)
        except ValueError:
            raise usage_error("--forwarded-allow-ips", f"{text!r} is no address or network") from None


def rules_of(rules: Sequence[RuleSettings]) -> tuple[Rule, ...]:
    """The access rules. The names in them have been checked with their file."""
    return tuple(Rule(one.operations, one.scopes, one.principals, one.agents) for one in rules)


def _check_grpc_address(text: str) -> None:
    """Raises typer.BadParameter for a --public-grpc that no client of gRPC can dial."""
    scheme, named, rest = text.rpartition("://")
    address, _, path = rest.partition("/")
    if not text or (not named and rest.startswith("unix:")):
        return
    if scheme not in ("", "http", "https", "grpc", "grpcs", "dns") or not address:
        raise usage_error("--public-grpc", f"{text!r} is not HOST:PORT, such as agent.example:443")
    if path or "?" in text or "#" in text:
        raise usage_error(
            "--public-grpc",
            f"{text!r} has a path, and gRPC has none: name {address}, and let the proxy pass on what is below"
            " /lf.a2a.v1.A2AService/ and /a2a.v1.A2AService/",
        )


def _dialects(versions: str, flag: str = "--versions") -> list[Dialect]:
    """The dialects that a flag names, each once. Raises typer.BadParameter."""
    return list(dict.fromkeys(parse_dialect(text, flag) for text in texts(versions)))


#: below the working directory; only the owner can read it
FOLDER = Path(".a2a-bridge")
_LONGEST = 48


def store_url(url: str, agent: Agent) -> str:
    """The store to open: `url`, else a file for this agent, whose folder is created. Raises typer.Exit."""
    if url:
        return url
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise fail(
            Exit.USAGE,
            f"the folder {FOLDER} for tasks cannot be made: {error.strerror}",
            "--store sqlite:///PATH for another place, or --store memory:// to keep nothing",
        ) from None
    return f"sqlite:///{FOLDER / file_name(agent.card.name)}"


def keys_of(text: str) -> list[str]:
    """The keys of `--store-key`, which can be in a file. Raises typer.BadParameter."""
    keys = keys_in(text_or_file(text, "--store-key"))
    with as_usage_error("--store-key", ValueError, ImportError):
        Vault(keys)
    return keys


def file_name(name: str) -> str:
    """A file name for an agent: its name if that is valid; else its valid characters and a digest, so that no
    two agents share a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:_LONGEST]
    if plain and plain == name:
        return f"{plain}.db"
    return f"{plain or 'agent'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.db"


@dataclass(frozen=True, slots=True)
class Loaded:
    """An agent that `serve` has loaded, and the options to serve it with. store: of the flags."""

    agent: Agent
    listening: ListenOptions
    store: str
    #: name of an agent that has none
    name: str = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Agent, runtime.ServeOptions]]:
        """The open agent with the options that depend on it. A worker that has to wait for its turn does so
        here: a factory that fails leaves the worker before this one at work. Raises AgentFactoryError,
        typer.Exit.
        """
        async with self.agent.open() as found:
            agent = self._named(found)
            options = self._complete(agent)
            if (worker := Worker.of_environment()) is not None:
                await worker.turn()
            yield agent, options

    def check(self) -> None:
        """Raises typer.Exit for a card, or a folder of tasks, that cannot be used. Nothing is known
        of the agent of a factory before it is open.
        """
        if self.agent.is_open:
            self._complete(self._named(self.agent))

    def _named(self, agent: Agent) -> Agent:
        return agent if agent.is_named or not self.name else agent.named(name=self.name)

    def _complete(self, agent: Agent) -> runtime.ServeOptions:
        options = replace(self.listening.options, store=store_url(self.store, agent))
        check_card(agent, options)
        return options


@dataclass(frozen=True, slots=True)
class AgentPlanner(ServerPlanner):
    """What the flags of `serve` mean for one agent."""

    flags: ServeFlags

    def load(self, code: str | None, name: str = "") -> Loaded:
        """The agent in code, which is loaded, or of a program, and the options to serve it with. code: None,
        or empty, for a program. name: of the agent of a program that is given no other name. Raises
        BadTargetError, typer.BadParameter, typer.Exit.
        """
        flags = self.flags
        listening, store = self.listening(), self.store()
        self._check_cluster()
        push = self.push()
        agent = self._of_program(name) if flags.exec and not code else self._of_code(code or "")
        open_logging(flags.log_config, flags.log_format)
        options = replace(
            listening.options,
            store_options=store,
            engine=EngineOptions(**self._taken(EngineOptions)),
            push_options=push,
            tracing=configure_tracing(flags.tracing),
        )
        loaded = Loaded(agent, replace(listening, options=options), flags.store, name or _name_of(code or ""))
        loaded.check()
        return loaded

    def _check_cluster(self) -> None:
        """Raises typer.BadParameter for flags of NATS that cannot be used."""
        flags = self.flags
        if not flags.cluster:
            if flags.cluster_credentials or flags.cluster_ca:
                raise usage_error("--cluster", "the addresses of NATS are missing")
            return
        with as_usage_error("--cluster", ValueError):
            for one in flags.cluster.split(","):
                split_server(one.strip())
        if not flags.store.startswith("postgresql:"):
            raise usage_error("--cluster", "replicas need --store postgresql://…")
        for path, name in (
            (flags.cluster_credentials, "--cluster-credentials"),
            (flags.cluster_ca, "--cluster-ca"),
        ):
            if path:
                file_text(path, name)

    def _of_code(self, code: str) -> Agent:
        """The agent in code. Raises as `load` does."""
        flags = self.flags
        parsed = parse(code)
        if not parsed.is_code:
            if parsed.sort is TargetKind.CARD and not code.endswith(".json"):
                raise usage_error("AGENT", f"{code} is no Python file; name one that has an agent: FILE.py")
            raise fail(
                Exit.USAGE,
                f"{code} is {parsed.sort.value}; serve needs Python code",
                f"a2a-bridge gateway {code}",
            )
        given: dict[str, Any] = {name: True for name in _OF_EXECUTORS if getattr(flags, name)}
        if flags.card is not None:
            given["card"] = _card(flags.card)
        return load(parsed, **given, **self._card_members())

    def _card_members(self) -> dict[str, Any]:
        """The members of the card that flags give. Raises typer.BadParameter if --card gives them, too."""
        flags = self.flags
        given = {name: text for name in _MEMBERS if (text := getattr(flags, name))}
        for name, text in given.items():
            if flags.card is not None:
                raise usage_error(f"--{name}", "--card has it; leave one of the two out")
            if not text.strip():
                raise usage_error(f"--{name}", "has no text")
        return given

    def _of_program(self, name: str) -> Agent:
        """The agent of `--exec`. Raises typer.BadParameter, CardError."""
        flags = self.flags
        from a2a_bridge.hosting.programs import Program, ProgramError, remove_leftovers

        with as_usage_error("--exec", ProgramError):
            program = Program(*flags.exec or (), **self._taken(ProgramOptions))
        for missing in (one for one in flags.exec_env or () if one not in os.environ):
            logger.warning("--exec-env: this process has no variable %s", missing)
        if given := [one for one in _OF_EXECUTORS if getattr(flags, one)]:
            hint = f"--{given[0].replace('_', '-')}"
            raise usage_error(hint, "is for executors of the a2a-sdk, not for programs")
        remove_leftovers()
        members = self._card_members()
        if flags.card is not None:
            return Agent(program, card=_card(flags.card))
        return Agent(program, push_notifications=True, **{"name": name or program.name, **members})


#: files that say nothing about their agent; their folder does
_USUAL = ("__main__", "agent", "app", "main")


def _name_of(code: str) -> str:
    """The name of an agent after its file or module; empty for a program, which has one."""
    if not code:
        return ""
    parsed = parse(code)
    if parsed.sort is not TargetKind.FILE:
        return parsed.place.rpartition(".")[2]
    path = Path(parsed.place).resolve()
    return path.parent.name if path.stem in _USUAL else path.stem


#: flags of executors of the a2a-sdk, and arguments of `Agent`
_OF_EXECUTORS = ("resume", "mask_errors")


#: flags of every agent, and members of a card
_MEMBERS = ("name", "description", "version")


def _card(path: Path) -> hub.AgentCard:
    """The card of `--card`, which needs no interfaces. Raises typer.BadParameter."""
    try:
        card = card_file(path, hosted=True)
        note_unknown(path)
        return without_carrier(card)
    except A2AError as error:
        raise usage_error("--card", error.message) from None
