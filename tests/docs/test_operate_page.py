"""docs/reference/metrics.md lists every metric with its type and labels, and the pages name no other."""

import re
from pathlib import Path

from a2a_bridge.cli.server_flags import LogFormat, TracingMode
from a2a_bridge.core.errors import request_too_large
from a2a_bridge.core.operations import ALL
from a2a_bridge.middleware.logging import FIELDS
from tests.docs.metrics import exposed
from tests.docs.pages import DOCS, section, table

PAGE = DOCS / "how-to/operate-a-server.md"
METRICS = (DOCS / "reference/metrics.md").read_text()
SYMPTOMS = (DOCS / "reference/symptoms.md").read_text()


async def test_every_metric_is_in_the_table(tmp_path: Path) -> None:
    real = {name: one[:2] for name, one in (await exposed(tmp_path)).items()}
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
    (too_large,) = [line for line in SYMPTOMS.splitlines() if line.startswith("| 413 ")]
    assert f'code="{request_too_large(1).reason.name}"' in too_large


def test_the_fields_of_a_line_and_the_choices_of_flags() -> None:
    text = section(PAGE, "Logs")
    assert [name for name in FIELDS if f"`{name}`" not in text] == []
    assert [one.value for one in TracingMode if f"`--tracing {one.value}`" not in PAGE.read_text()] == []
    assert f"`--log-format {LogFormat.JSON.value}`" in text
    assert len(ALL) == 11
