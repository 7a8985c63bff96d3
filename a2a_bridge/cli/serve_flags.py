"""The flags of `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from a2a_bridge.cli.agent_settings import ServedAgent
from a2a_bridge.cli.declared import table
from a2a_bridge.cli.flags import ServerFlags, flag


@dataclass(frozen=True, kw_only=True)
class ServeFlags(ServerFlags):
    """The flags of `serve`, with the defaults of EngineOptions and StoreOptions; a test compares them."""

    store: str = flag(
        "",
        "Task store: sqlite:///PATH, postgresql://…, or memory:// (lost at exit).",
        "URL",
        group="Store",
        common=True,
        secret=True,
    )
    keep_tasks: float = flag(
        0.0, "Delete tasks this long after their end; 0: never.", "DAYS", least=0, group="Store"
    )
    keep_events: float = flag(
        1.0,
        "Keep the events of a task this long after its end, for streams that resume.",
        "DAYS",
        least=0,
        group="Store",
    )
    cluster: str = flag(
        "",
        "NATS over which replicas on one PostgreSQL talk: nats:// or tls:// addresses.",
        "URL,…",
        group="Store",
        secret=True,
    )
    cluster_credentials: str = flag("", "Credentials file (JWT and key) for NATS.", "FILE", group="Store")
    cluster_ca: str = flag("", "Certificates to trust for NATS (PEM).", "FILE", group="Store")
    push: bool = flag(
        True,
        "Send push notifications, if the agent declares them.",
        None,
        "--push/--no-push",
        group="Push notifications",
    )
    run_timeout: float = flag(0.0, "Time limit of one run; 0: none.", "SECONDS", least=0, group="Limits")
    silence_timeout: float = flag(
        0.0, "Time limit for a run without output; 0: none.", "SECONDS", least=0, group="Limits"
    )
    idempotent_sends: bool = flag(
        False, "Process a message that is sent twice only once, with the same answer.", group="Protocol"
    )
    max_tasks: int = flag(
        10000,
        "Running tasks of one principal, over all tenants; 0: no limit.",
        "N",
        least=0,
        group="Limits",
    )
    max_tenant_tasks: int = flag(0, "Running tasks of one tenant; 0: no limit.", "N", least=0, group="Limits")
    agents: Mapping[str, ServedAgent] = table(dict, "The agents, by name.", live=True)
    max_history: int = flag(
        10000, "Messages of one task; further ones are rejected; 0: no limit.", "N", least=0, group="Limits"
    )
