"""Capabilities: hooks around the requests of a model, and around its output."""

from collections.abc import Callable
from typing import Any


class AbstractCapability:
    """Has every hook."""

    def apply(self, visitor: Callable[[Any], None]) -> None:
        visitor(self)


async def _hook(self: Any, *given: Any, **named: Any) -> None: ...


for _what in ("output_process", "output_validate", "model_request", "node_run", "run"):
    for _when in ("before", "after", "wrap"):
        setattr(AbstractCapability, f"{_when}_{_what}", _hook)


class Hooks(AbstractCapability):
    def __init__(self, registry: dict[str, list[Any]]) -> None:
        self._registry = registry


class CombinedCapability(AbstractCapability):
    def __init__(self) -> None:
        self.capabilities: list[AbstractCapability] = []

    def apply(self, visitor: Callable[[Any], None]) -> None:
        for one in self.capabilities:
            one.apply(visitor)
