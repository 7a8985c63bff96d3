"""From the flags of `serve` to a hosted agent and the options of its server. It opens no socket."""

from __future__ import annotations

from dataclasses import replace

import typer

from a2a_bridge.cli.edge import check_card
from a2a_bridge.cli.listen_options import ListenOptions
from a2a_bridge.cli.loading import load
from a2a_bridge.cli.log_setup import open_logging
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail
from a2a_bridge.cli.serve_flags import ServeFlags
from a2a_bridge.cli.store_options import push_options, store_options, store_url, with_cluster
from a2a_bridge.cli.target import TargetKind, parse
from a2a_bridge.cli.tracing_setup import configure_tracing
from a2a_bridge.hosting import Agent
from a2a_bridge.hosting.options import EngineOptions


def load_agent(code: str, flags: ServeFlags) -> tuple[Agent, ListenOptions]:
    """The agent in code, which is loaded, and the options to serve it with.

    Raises BadTargetError, typer.BadParameter, and typer.Exit.
    """
    listening = ListenOptions.of(flags)
    store = store_options(flags, keep_tasks=flags.keep_tasks, keep_events=flags.keep_events)
    store = with_cluster(store, flags)
    push = push_options(flags)
    parsed = parse(code)
    if not parsed.is_code:
        if parsed.sort is TargetKind.CARD and not code.endswith(".json"):
            text = f"{code} is no Python file; name one that has an agent: FILE.py"
            raise typer.BadParameter(text, param_hint="AGENT")
        raise fail(
            Exit.USAGE,
            f"{code} is {parsed.sort.value}; serve needs Python code",
            f"a2a-bridge gateway {code}",
        )
    agent = load(parsed)
    open_logging(flags)
    options = replace(
        listening.options,
        store=store_url(flags.store, agent),
        store_options=store,
        engine=EngineOptions(
            tasks=flags.max_tasks,
            tenant_tasks=flags.max_tenant_tasks,
            history=flags.max_history,
            run_timeout=flags.run_timeout,
            silence_timeout=flags.silence_timeout,
            idempotent_sends=flags.idempotent_sends,
        ),
        push=flags.push,
        push_options=push,
        tracing=configure_tracing(flags.tracing),
    )
    check_card(agent, options)
    return agent, replace(listening, options=options)
