"""The table of docs/reference/metrics.md: the metrics of an agent and of a gateway before it, which are called."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge import Run, agent, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.bindings.binding import ListenAddress, names
from a2a_bridge.cards import select
from tests.docs.api import cell
from tests.patience import PATIENCE

PREFIX = "a2a_bridge_"


@agent
async def weather(run: Run) -> AsyncIterator[Any]:
    """An agent."""
    yield run.status("working")
    yield run.reply("sunny")


async def _families(server: Server) -> dict[str, tuple[str, frozenset[str], str]]:
    """Metric → type, labels and help, of those that have samples."""
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
        text = (await client.get(f"http://{server.admin}/metrics")).text
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(PREFIX) and family.samples and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = frozenset(name for one in family.samples for name in one.labels) - {"le"}
            found[name] = (family.type, labels, family.documentation)
    return found


async def exposed(folder: Path) -> dict[str, tuple[str, frozenset[str], str]]:
    """The metrics of an agent with its store in a folder, and of a gateway before it, after a call of each kind."""
    bindings = [interface("JSONRPC"), interface("GRPC")]
    of_agent = ServeOptions(admin=ListenAddress(), store=f"sqlite:///{folder}/tasks.db")
    async with (
        serve(weather, bindings, of_agent) as server,
        serve_gateway(
            server.card, select(server.card, known=names()), bindings, ServeOptions(admin=ListenAddress())
        ) as gateway,
        connect(f"http://{gateway.http}") as peer,
    ):
        async for _ in peer.stream("Bern"):
            pass
        async with httpx.AsyncClient(verify=False) as client:  # noqa: S501
            await client.post(f"http://{gateway.http}/", content=b"{")
        return await _families(server) | await _families(gateway)


#: in which order labels are written
_LABELS = ("agent", "interface", "binding", "version", "operation", "code", "phase", "family", "python")


def table() -> str:
    """The metrics with their types, labels and help."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(exposed(Path(folder)))
    lines = ["| metric | type | labels | what |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {kind} | {', '.join(sorted(labels, key=_LABELS.index))} | {cell(text)} |"
        for name, (kind, labels, text) in sorted(found.items())
    ]
    return "\n".join(lines) + "\n"
