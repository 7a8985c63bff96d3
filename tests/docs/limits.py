"""The tables of docs/reference/limits.md, generated from the options that are limits."""

import dataclasses
from typing import Any

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.cli.server_flags import GatewayFlags, ServeFlags
from a2a_bridge.core.option_classes import EngineOptions, ReplayOptions, StoreOptions
from a2a_bridge.core.options import options_of
from a2a_bridge.middleware import Limits
from a2a_bridge.push import PushOptions
from tests.docs.api import cell, meanings

#: part of the page -> its options
PARTS: dict[str, list[tuple[Any, tuple[str, ...]]]] = {
    "callers": [(Limits, ("calls", "streams")), (EngineOptions, ("tasks", "tenant_tasks"))],
    "listeners": [(HostOptions, ("max_connections", "max_connection_streams"))],
    "memory": [(StoreOptions, ("max_memory",))],
    "requests": [
        (HostOptions, ("max_body", "max_values", "max_header", "header_timeout")),
        (Limits, ("parts",)),
    ],
    "tasks": [(EngineOptions, ("history", "queue"))],
    "databases": [
        (StoreOptions, ("events_kept", "sends_kept", "cache_bytes", "commit_delay", "ack_timeout", "lease"))
    ],
    "notifications": [(PushOptions, ("attempts", "age", "timeout", "at_once", "each", "trip"))],
    "streams": [
        (
            ReplayOptions,
            (
                *("tasks", "events", "size", "task_size", "total"),
                *("window", "window_size", "revalidate", "linger", "attempts"),
            ),
        )
    ],
}


def _flag(cls: type, name: str) -> tuple[str, str]:
    """The flag of an option, and the unit that it has instead of seconds."""
    for flags in (ServeFlags, GatewayFlags):
        for key, one in options_of(flags).items():
            source = one.described.source
            if source is not None and issubclass(cls, source[0]) and source[1] == name:
                unit = "days" if one.described.metavar == "DAYS" else ""
                return f"--{key.replace('_', '-')}", unit
    return "", ""


def _meaning(cls: Any, name: str) -> str:
    """The help of an option, and the comment that says more."""
    (field,) = (one for one in dataclasses.fields(cls) if one.name == name)
    described = field.metadata.get("option")
    said, more = described.help if described is not None else "", meanings(cls)[name]
    if more == said:
        return cell(said)
    return f"{cell(said)}. {cell(more)[0].upper()}{cell(more)[1:]}" if said else cell(more)


def table(part: str) -> str:
    lines = ["| limit | default | flag | what is limited |", "|---|---|---|---|"]
    for cls, names in PARTS[part]:
        defaults = {one.name: one.default for one in dataclasses.fields(cls)}
        for name in names:
            flag, unit = _flag(cls, name)
            meaning = _meaning(cls, name) + (f" (`{flag}`, in {unit})" if unit else "")
            shown = f"`{flag}`" if flag and not unit else ""
            lines.append(f"| `{cls.__name__}.{name}` | {defaults[name]} | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"
