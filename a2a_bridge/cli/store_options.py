"""From flags to the options of the store and of push notifications: URL, keys, allowed addresses.

It opens no store.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import typer

from a2a_bridge.cli.flags import ServerFlags
from a2a_bridge.cli.options import Exit, file_text, text_or_file
from a2a_bridge.cli.output import fail
from a2a_bridge.cli.serve_flags import ServeFlags
from a2a_bridge.cluster.nats_login import split_server
from a2a_bridge.hosting import Agent
from a2a_bridge.push import PushOptions
from a2a_bridge.push.signing import Signer
from a2a_bridge.push.vault import Vault, keys_in
from a2a_bridge.stores.options import StoreOptions

#: below the working directory; only the owner can read it
FOLDER = Path(".a2a-bridge")
_LONGEST = 48


def store_url(url: str, agent: Agent) -> str:
    """The store to open: `url`, else a file for this agent, whose folder is created. Raises
    typer.Exit.
    """
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


def store_options(flags: ServerFlags, keep_tasks: float = 0.0, keep_events: float = 1.0) -> StoreOptions:
    """The options of the store. Times in days; `keep_tasks` 0 keeps tasks. Raises typer.BadParameter."""
    days = 24 * 3600.0
    return StoreOptions(
        keys=tuple(keys_of(flags.store_key)),
        tasks_kept=keep_tasks * days or None,
        events_kept=keep_events * days,
        lease=flags.lease,
        max_memory=flags.max_memory,
    )


def with_cluster(options: StoreOptions, flags: ServeFlags) -> StoreOptions:
    """The options with the NATS of `--cluster`. Raises typer.BadParameter."""
    if not flags.cluster:
        if flags.cluster_credentials or flags.cluster_ca:
            raise typer.BadParameter("the addresses of NATS are missing", param_hint="--cluster")
        return options
    try:
        for one in flags.cluster.split(","):
            split_server(one.strip())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cluster") from None
    if not flags.store.startswith("postgresql:"):
        raise typer.BadParameter("replicas need --store postgresql://…", param_hint="--cluster")
    for path, name in (
        (flags.cluster_credentials, "--cluster-credentials"),
        (flags.cluster_ca, "--cluster-ca"),
    ):
        if path:
            file_text(path, name)
    return replace(
        options,
        cluster=flags.cluster,
        cluster_credentials=flags.cluster_credentials,
        cluster_ca=flags.cluster_ca,
    )


def keys_of(text: str) -> list[str]:
    """The keys of `--store-key`, which can be in a file. Raises typer.BadParameter."""
    keys = keys_in(text_or_file(text, "--store-key"))
    try:
        Vault(keys)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error), param_hint="--store-key") from None
    return keys


def push_options(flags: ServerFlags) -> PushOptions:
    """The allowed addresses and the signing keys of notifications. Raises typer.BadParameter."""
    keys = tuple(file_text(path, "--push-signing-key") for path in flags.push_signing_key or ())
    options = PushOptions(allow=tuple(flags.push_allow or ()), signing_keys=keys)
    try:
        options.policy()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--push-allow") from None
    try:
        if keys:
            Signer(keys, options.issuer)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error), param_hint="--push-signing-key") from None
    return options


def file_name(name: str) -> str:
    """A file name for an agent: its name if that is a valid one; else its valid characters and a digest, so
    that no two agents share a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:_LONGEST]
    if plain and plain == name:
        return f"{plain}.db"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain or 'agent'}-{digest}.db"
