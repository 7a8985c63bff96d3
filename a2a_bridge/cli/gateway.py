"""`a2a-bridge gateway`: serves a remote agent over every binding and version."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge.cli.envoy.flags import run_if_requested
from a2a_bridge.cli.flags import AgentFlags, ServerFlags, flag, with_flags
from a2a_bridge.cli.options import PREFIX, check_binding, use_bridge_key
from a2a_bridge.cli.upstream_flags import UpstreamFlags


@dataclass(frozen=True, kw_only=True)
class GatewayFlags(ServerFlags, AgentFlags, UpstreamFlags):
    """The flags of `gateway`, with the defaults of ReplayOptions; a test compares them."""

    card: Path | None = flag(None, "Card of the agent, if the agent serves none.", "FILE")
    binding: str = flag("", "Binding to use with the agent; default: the first of the card.", "BINDING")
    forward: list[str] | None = flag(
        None, "Pass on this header of the caller too; may be repeated.", "NAME", variable=""
    )
    silence_timeout: float = flag(
        0.0, "Time limit for a call without an answer or event of the agent; 0: none.", "SECONDS", least=0
    )
    push_relay: str = flag(
        "", "Relay push notifications in the version of their receivers; URL of this gateway.", "URL"
    )
    store: str = flag(
        "",
        "Store of the notifications of --push-relay: sqlite:///PATH, postgresql://…; default: memory.",
        "URL",
    )
    linger: float = flag(
        30.0,
        "Keep the stream of an agent that cannot resume open this long without readers.",
        "SECONDS",
        least=0,
    )
    replay_memory: int = flag(
        67108864,
        "Memory for events of streams, for readers that resume or join; 0: keep none.",
        "BYTES",
        least=0,
    )
    revalidate: float = flag(
        60.0,
        "Cache the agent's permission for a caller to join a stream this long; 0: ask each time.",
        "SECONDS",
        least=0,
    )


@with_flags
def gateway(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="The agent: URL, :PORT, host:port (gRPC) or card file.", metavar="UPSTREAM")
    ],
    *,
    flags: GatewayFlags,
) -> None:
    """Serve the agent at UPSTREAM over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.

    The command prints one line when it is ready: ready http=http://HOST:PORT grpc=HOST:PORT

    For example:

      a2a-bridge gateway http://localhost:9999

      a2a-bridge gateway agent.internal:50051 --card card.json --public-url https://agent.example
    """
    run_if_requested(context, flags)
    from a2a_bridge.cli import workers
    from a2a_bridge.cli.running import configure_logging, open_logging, run_on

    configure_logging(flags.log_level)
    open_logging()
    check_binding(flags.binding)
    store, push_relay = flags.store, flags.push_relay
    if workers.requested(flags):
        if push_relay and not store.startswith("postgresql:"):
            raise typer.BadParameter("--push-relay needs a --store postgresql://…", param_hint="--workers")
        raise workers.supervise(flags)

    from a2a_bridge.cli.connect import dial_options, version_of
    from a2a_bridge.cli.gateway_setup import bridge
    from a2a_bridge.cli.listen_options import ListenOptions
    from a2a_bridge.cli.output import guarded
    from a2a_bridge.cli.store_options import push_options, store_options
    from a2a_bridge.cli.target import parse
    from a2a_bridge.cli.upstream_options import with_upstream
    from a2a_bridge.gateway import ReplayOptions
    from a2a_bridge.hosting.stores.opening import MEMORY

    listening = ListenOptions.of(flags, push_relay)
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
        ),
    )
    options = dial_options(flags)
    options = replace(
        options,
        # The deadline of the caller limits a call; a blocking send has no usual duration.
        timeout=None,
        silence_timeout=flags.silence_timeout,
        forward=options.forward | {name.lower() for name in flags.forward or ()},
    )
    ca = str(flags.cacert or "")
    listening = replace(listening, options=with_upstream(listening.options, flags, options.parameters, ca=ca))
    with guarded(target):
        run_on(
            flags.loop,
            bridge(
                parse(target),
                listening,
                options,
                file=flags.card,
                binding=flags.binding,
                version=version_of(flags.a2a_version),
                grace=flags.timeout_graceful_shutdown,
            ),
        )
