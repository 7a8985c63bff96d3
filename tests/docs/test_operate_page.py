"""docs/reference/metrics.md lists every metric with its type and labels, and the pages name no other."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge import Run, agent, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.bindings.binding import ListenAddress, names
from a2a_bridge.cards import select
from a2a_bridge.cli.server_flags import LogFormat, TracingMode
from a2a_bridge.core.operations import ALL
from a2a_bridge.middleware.logging import FIELDS
from tests.docs.pages import DOCS, section, table
from tests.patience import PATIENCE

PAGE = DOCS / "how-to/operate-a-server.md"
METRICS = (DOCS / "reference/metrics.md").read_text()
SYMPTOMS = (DOCS / "reference/symptoms.md").read_text()
PREFIX = "a2a_bridge_"


@agent
async def weather(run: Run) -> AsyncIterator[Any]:
    """An agent."""
    yield run.status("working")
    yield run.reply("sunny")


async def families(server: Server) -> dict[str, tuple[str, frozenset[str]]]:
    """Metric → type and labels, of those that have samples."""
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
        text = (await client.get(f"http://{server.admin}/metrics")).text
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(PREFIX) and family.samples and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = frozenset(name for one in family.samples for name in one.labels) - {"le"}
            found[name] = (family.type, labels)
    return found


async def test_every_metric_is_in_the_table(tmp_path: Path) -> None:
    bindings = [interface("JSONRPC"), interface("GRPC")]
    of_agent = ServeOptions(admin=ListenAddress(), store=f"sqlite:///{tmp_path}/tasks.db")
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
        real = await families(server) | await families(gateway)
    rows = table(METRICS, "metric", "type", "labels", "what")
    said = {
        name: (kind, frozenset(filter(None, (label.strip() for label in labels.split(",")))))
        for name, kind, labels, _ in rows
    }
    assert said == real


def test_symptoms_name_metrics_that_exist() -> None:
    known = {name for name, *_ in table(METRICS, "metric", "type", "labels", "what")}
    known |= {name + end for name in known for end in ("_sum", "_count")}
    named = set(re.findall(r"a2a_bridge_[a-z_]+[a-z]\b", SYMPTOMS))
    assert len(named) > 12
    assert named - known - {"a2a_bridge_upstream"} == set()


def test_the_fields_of_a_line_and_the_choices_of_flags() -> None:
    text = section(PAGE, "Logs")
    assert [name for name in FIELDS if f"`{name}`" not in text] == []
    assert [one.value for one in TracingMode if f"`--tracing {one.value}`" not in PAGE.read_text()] == []
    assert f"`--log-format {LogFormat.JSON.value}`" in text
    assert len(ALL) == 11
