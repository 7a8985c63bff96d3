"""docs/reference/limits.md has the limits of the code: their defaults, and the flags that set them."""

import inspect
import re
from typing import Any

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.option_classes import EngineOptions, ReplayOptions, StoreOptions
from a2a_bridge.middleware import Limits
from a2a_bridge.push import PushOptions
from a2a_bridge.stores import MemoryStore
from a2a_bridge.testing.each import each
from tests.docs.commands import VERBS, default
from tests.docs.pages import DOCS, prose
from tests.docs.test_cli_page import options

PAGE = DOCS / "reference/limits.md"
OPTIONS = (EngineOptions, HostOptions, Limits, MemoryStore, PushOptions, ReplayOptions, StoreOptions)
CLASSES: dict[str, Any] = {one.__name__: one for one in OPTIONS}
#: options that limit no resource of callers
NO_LIMITS = {
    "EngineOptions.cancel_timeout",
    "EngineOptions.patience",
    "EngineOptions.run_timeout",
    "EngineOptions.silence_timeout",
    "HostOptions.keep_alive",
    "PushOptions.first",
    "PushOptions.longest",
    "PushOptions.longest_retry_after",
    "ReplayOptions.longest_pause",
    "ReplayOptions.pause",
}
#: flags of one command only
ONLY = {"EngineOptions": ["serve"], "ReplayOptions": ["gateway"], "StoreOptions": ["serve"]}


def rows() -> list[list[str]]:
    found = []
    for line in prose(PAGE).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            found.append(cells)
    return found


def defaults() -> dict[str, str]:
    """The numeric defaults of options, as `Class.name`."""
    return {
        f"{name}.{parameter.name}": str(parameter.default)
        for name, cls in CLASSES.items()
        for parameter in inspect.signature(cls).parameters.values()
        if type(parameter.default) in (int, float)
    }


def test_the_defaults() -> None:
    said = {cells[0].strip("`"): cells[1] for cells in rows()}
    real = {name: value for name, value in defaults().items() if name not in NO_LIMITS}
    real.pop("HostOptions.backlog")  # of the system; callers get no error
    assert said == real
    assert defaults().keys() >= NO_LIMITS


@each("cells", [cells for cells in rows() if cells[2]])
def test_the_flags(cells: list[str]) -> None:
    verbs = ONLY.get(cells[0].partition(".")[0].strip("`"), ["serve", "gateway"])
    for verb in verbs:
        assert default(options(verb)[cells[2].strip("`")]) == cells[1]
    assert set(verbs) <= set(VERBS)


def test_the_errors_exist() -> None:
    named = {word for cells in rows() for word in re.findall(r"\b[A-Z]+_[A-Z_]+\b", cells[3])}
    assert named
    assert named <= set(Reason.__members__)
