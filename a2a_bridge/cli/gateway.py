"""`a2a-bridge gateway`: serves a remote agent over every binding and version."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.running import check_one_process, launch_of, prepare, run_on
from a2a_bridge.cli.security import note_task_owners
from a2a_bridge.cli.server_flags import GatewayFlags, check_target
from a2a_bridge.cli.values import parse_binding, usage_error, use_bridge_key
from a2a_bridge.core.errors import Reason


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

    It prints one line when ready: ready http=http://HOST:PORT grpc=HOST:PORT

    For example:

      a2a-bridge gateway http://localhost:9999

      a2a-bridge gateway agent.internal:50051 --card card.json --public-url https://agent.example
    """
    check_target(target, flags.agents, "UPSTREAM")
    reloader = prepare(context, flags)
    from a2a_bridge.cli import workers
    from a2a_bridge.cli.log_setup import open_logging

    open_logging(flags.log_config, flags.log_format)
    parse_binding(flags.binding)
    if workers.is_requested(flags.workers):

        def check(new: GatewayFlags) -> None:
            check_one_process(new)
            if new.push_relay and not new.store.startswith("postgresql:"):
                raise usage_error("--workers", "--push-relay needs a --store postgresql://…")

        check(flags)
        note_task_owners(flags)
        raise workers.supervise(flags, reloader, check=check)

    from a2a_bridge.cli.gateway_setup import GatewayPlanner, bridge
    from a2a_bridge.cli.output import guard
    from a2a_bridge.cli.target import parse

    use_bridge_key(flags.bridge_key)
    if target is None:
        from a2a_bridge.cli.configured_agents import GATEWAY, serve_all

        with guard("the agents"):
            run_on(flags.loop, serve_all(GATEWAY, flags, reloader))
        return
    plan = GatewayPlanner(flags).plan()
    plan.listening.follow(reloader)
    grace = flags.timeout_graceful_shutdown
    with guard(target, advice=_advice(target, signed=flags.require_signed_card)):
        parsed = parse(target)
        launch = launch_of(flags, "gateway")
        run_on(flags.loop, bridge(parsed, plan, grace=grace, reloader=reloader, launch=launch))


def _advice(target: str, *, signed: bool) -> dict[Reason, str]:
    """What to try if the gateway cannot start, by the reason. signed: whether the card has to be signed."""
    show = f"a2a-bridge card get -a {target}"
    other = f"{show}; --card FILE takes the place of what is there"
    if signed:
        other = "--card-keys with the keys of the agent, or no --require-signed-card"
    start = "the agent first, or --card FILE, with which the gateway starts without it"
    if "://" not in target and target.count(":") == 1 and target[0] != ":":
        start = f"http://{target} if that is an HTTP address; host:port means gRPC"
    guarded = "the URL of the card, or --card FILE; -H would replace the credentials of each caller"
    return {
        Reason.UNAUTHENTICATED: guarded,
        Reason.PERMISSION_DENIED: guarded,
        Reason.UNAVAILABLE: start,
        Reason.INVALID_AGENT_RESPONSE: other,
        Reason.UNSUPPORTED_OPERATION: f"{show}, and an interface of it with --binding",
    }
