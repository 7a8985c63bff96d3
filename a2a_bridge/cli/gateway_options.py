"""From the flags of `gateway` to the options of its server and of its client sides. It opens no socket."""

from __future__ import annotations

import os
from dataclasses import replace

import typer

from a2a_bridge.app.planning import keeps_owners
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli.connect import dial_options
from a2a_bridge.cli.gateway_flags import GatewayFlags
from a2a_bridge.cli.listen_options import ListenOptions
from a2a_bridge.cli.options import PREFIX, parse_binding
from a2a_bridge.cli.signing_options import check_card
from a2a_bridge.cli.store_options import push_options, store_options
from a2a_bridge.cli.tracing_setup import configure_tracing
from a2a_bridge.cli.upstream_options import with_upstream
from a2a_bridge.gateway import ReplayOptions
from a2a_bridge.stores.opening import MEMORY


def gateway_options(flags: GatewayFlags) -> tuple[ListenOptions, DialOptions]:
    """The options for one agent. Raises typer.BadParameter, and typer.Exit."""
    parse_binding(flags.binding)
    store, push_relay = flags.store, flags.push_relay
    if flags.push_signing_key and (not push_relay or store in ("", MEMORY)):
        raise typer.BadParameter(
            f"needs --push-relay and a --store other than {MEMORY}; a gateway signs nothing without one",
            param_hint="--push-signing-key",
        )
    listening = ListenOptions.of(flags, push_relay)
    replay = ReplayOptions(linger=flags.linger, total=flags.replay_memory, revalidate=flags.revalidate)
    if not flags.replay_memory:
        replay = replace(replay, tasks=0)
    options = replace(
        listening.options,
        replay=replay,
        store=store or None,
        store_options=store_options(flags),
        push_options=push_options(flags),
        tracing=configure_tracing(flags.tracing),
    )
    dialling = dial_options(flags)
    dialling = replace(
        dialling,
        # The deadline of the caller limits a call; a blocking send has no usual duration.
        timeout=None,
        silence_timeout=flags.silence_timeout,
        forward=dialling.forward | {name.lower() for name in flags.forward or ()},
        check_card=check_card(flags, flags.cacert),
    )
    options = with_upstream(options, flags, dialling.parameters, ca=str(flags.cacert or ""))
    used = push_relay or keeps_owners(options)
    if store and not used and store != os.environ.get(PREFIX + "STORE"):
        # The variable may be set for `serve`. The flag shows that the user expects a store.
        raise typer.BadParameter(
            "needs --push-relay, or callers that this gateway checks and the agent does not; nothing else is"
            " stored",
            param_hint="--store",
        )
    return replace(listening, options=options), dialling
