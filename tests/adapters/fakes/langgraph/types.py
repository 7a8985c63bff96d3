"""Stand-ins for the types of LangGraph that the adapter uses."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Command:
    resume: Any = None


@dataclass
class Interrupt:
    value: Any
    id: str


@dataclass
class StateSnapshot:
    values: dict[str, Any]
    interrupts: tuple[Interrupt, ...] = field(default=())
