"""`a2a-bridge gateway`: serves a remote agent over every binding and version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from a2a_bridge.cli.agent_settings import AgentSettings, target_of
from a2a_bridge.cli.declared import table
from a2a_bridge.cli.edge import note_open
from a2a_bridge.cli.envoy.flags import run_if_requested
from a2a_bridge.cli.flags import ServerFlags, UpstreamFlags, flag, with_flags
from a2a_bridge.cli.options import PREFIX, check_binding, use_bridge_key


@dataclass(frozen=True, kw_only=True)
class GatewayFlags(ServerFlags, UpstreamFlags):
    """The flags of `gateway`, with the defaults of ReplayOptions; a test compares them."""

    agents: Mapping[str, AgentSettings] = table(dict, "The agents, by name.")
    push_relay: str = flag(
        "",
        "Relay push notifications in the version of their receivers; URL of this gateway.",
        "URL",
        group="Push notifications",
    )
    store: str = flag(
        "",
        "Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    linger: float = flag(
        30.0,
        "Keep the stream of an agent that cannot resume open this long without readers.",
        "SECONDS",
        least=0,
        group="Upstream",
    )
    replay_memory: int = flag(
        67108864,
        "Memory for events of streams, for readers that resume or join; 0: keep none.",
        "BYTES",
        least=0,
        group="Limits",
    )
    revalidate: float = flag(
        60.0,
        "Cache the agent's permission for a caller to join a stream this long; 0: ask each time.",
        "SECONDS",
        least=0,
        group="Upstream",
    )


@with_flags
def gateway(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(help="The agent: URL, :PORT, host:port (gRPC) or card file.", metavar="UPSTREAM"),
    ] = None,
    *,
    flags: GatewayFlags,
) -> None:
    """Serve the agent at UPSTREAM over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.

    The command prints one line when it is ready: ready http=http://HOST:PORT grpc=HOST:PORT

    For example:

      a2a-bridge gateway http://localhost:9999

      a2a-bridge gateway agent.internal:50051 --card card.json --public-url https://agent.example
    """
    upstream, flags = target_of(target, flags, flags.agents)
    note_open(flags)
    run_if_requested(context, flags)
    from a2a_bridge.cli import workers
    from a2a_bridge.cli.log_setup import configure_logging, open_logging
    from a2a_bridge.cli.running import reloader_of, run_on

    configure_logging(flags)
    reloader = reloader_of(context)
    open_logging(flags)
    check_binding(flags.binding)
    store, push_relay = flags.store, flags.push_relay
    if workers.requested(flags):
        if push_relay and not store.startswith("postgresql:"):
            raise typer.BadParameter("--push-relay needs a --store postgresql://…", param_hint="--workers")
        raise workers.supervise(flags, reloader)

    from a2a_bridge.cli.connect import dial_options, version_of
    from a2a_bridge.cli.gateway_setup import bridge
    from a2a_bridge.cli.listen_options import ListenOptions
    from a2a_bridge.cli.output import guarded
    from a2a_bridge.cli.signing_options import check_card
    from a2a_bridge.cli.store_options import push_options, store_options
    from a2a_bridge.cli.target import parse
    from a2a_bridge.cli.tracing_setup import configure_tracing
    from a2a_bridge.cli.upstream_options import with_upstream
    from a2a_bridge.gateway import ReplayOptions
    from a2a_bridge.hosting.stores.opening import MEMORY

    listening = ListenOptions.of(flags, push_relay)
    listening.follow(reloader, lambda new: target_of(target, new, new.agents)[1])
    if store and not push_relay and store != os.environ.get(PREFIX + "STORE"):
        # The variable may be set for `serve`. The flag shows that the user expects a store.
        raise typer.BadParameter("needs --push-relay; a gateway stores nothing else", param_hint="--store")
    if flags.push_signing_key and (not push_relay or store in ("", MEMORY)):
        raise typer.BadParameter(
            f"needs --push-relay and a --store other than {MEMORY}; a gateway signs nothing without one",
            param_hint="--push-signing-key",
        )
    use_bridge_key(flags.bridge_key)
    replay_options = ReplayOptions(
        linger=flags.linger, total=flags.replay_memory, revalidate=flags.revalidate
    )
    if not flags.replay_memory:
        replay_options = replace(replay_options, tasks=0)
    listening = replace(
        listening,
        options=replace(
            listening.options,
            replay=replay_options,
            store=store or None,
            store_options=store_options(flags),
            push_options=push_options(flags),
            tracing=configure_tracing(flags.tracing),
        ),
    )
    options = dial_options(flags)
    options = replace(
        options,
        # The deadline of the caller limits a call; a blocking send has no usual duration.
        timeout=None,
        silence_timeout=flags.silence_timeout,
        forward=options.forward | {name.lower() for name in flags.forward or ()},
        check_card=check_card(flags, flags.cacert),
    )
    ca = str(flags.cacert or "")
    listening = replace(listening, options=with_upstream(listening.options, flags, options.parameters, ca=ca))
    with guarded(upstream):
        run_on(
            flags.loop,
            bridge(
                parse(upstream),
                listening,
                options,
                file=flags.card,
                binding=flags.binding,
                version=version_of(flags.a2a_version),
                grace=flags.timeout_graceful_shutdown,
                reloader=reloader,
            ),
        )
