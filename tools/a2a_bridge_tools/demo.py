"""`a2a-bridge server`: an agent to practise on."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.server_flags import LogLevel, ServeFlags
from a2a_bridge.core.options import flag

_AGENT = "a2a_bridge_tools.demo_agent:agent"


@dataclass(frozen=True, kw_only=True)
class DemoFlags:
    """The flags of `server`."""

    http: str = flag("127.0.0.1:8080", "Listen here for JSON-RPC and HTTP+JSON.", "HOST:PORT")
    grpc: str = flag("127.0.0.1:50051", "Listen here for gRPC.", "HOST:PORT")
    push_allow: list[str] | None = flag(
        None,
        "Allow webhooks at this private host or network; default: this machine. May be repeated.",
        "HOST|NETWORK",
    )
    ui: bool = flag(False, "Serve the playground, a page to call and inspect the agent, on this machine.")
    ui_listen: str = flag("127.0.0.1:0", "Address of --ui.", "HOST:PORT")
    log_level: LogLevel = flag(LogLevel.WARNING, "Log level on stderr.")


@with_flags
def server(*, flags: DemoFlags) -> None:
    """Serve a demo agent over every binding, to practise on. It repeats what it hears.

    A text that begins with a prefix of A2A's conformance documents asks for another behaviour:
    tck-input-required, tck-artifact-file, tck-long-running, tck-cancel and so on. Tasks are kept in memory.

    For example:

      a2a-bridge server --ui

      a2a-bridge send -a :8080 "tck-input-required"
    """
    from a2a_bridge.app import runtime
    from a2a_bridge.cli.log_setup import configure_logging
    from a2a_bridge.cli.output import guard
    from a2a_bridge.cli.running import builtin_or_envoy, launch_of, run_on, serve_until_signal
    from a2a_bridge.cli.server_options import load_agent

    served = ServeFlags(
        http=flags.http,
        grpc=flags.grpc,
        log_level=flags.log_level,
        push_allow=flags.push_allow or ["127.0.0.0/8", "::1"],
        store="memory://",
        ui=flags.ui,
        ui_listen=flags.ui_listen,
    )
    configure_logging(served)
    with guard(_AGENT):
        agent, listening = load_agent(_AGENT, served)
        options, interfaces = listening.options, listening.interfaces
        opening = builtin_or_envoy(
            lambda: runtime.serve_agent(agent, interfaces, options),
            lambda: runtime.asgi(agent, interfaces, options),
            interfaces,
            served.drain_window,
        )
        grace, launch = served.timeout_graceful_shutdown, launch_of(served)
        run_on(served.loop, serve_until_signal(opening, grace, listening.counting, playground=launch))
