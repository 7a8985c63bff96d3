"""The parts that all task runs of an engine share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from a2a_bridge.hosting.executor import AgentExecutor
from a2a_bridge.hosting.options import EngineOptions
from a2a_bridge.hosting.reading import EventReaders
from a2a_bridge.hosting.run import Run
from a2a_bridge.hosting.turns import Turns
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Clock, Store


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The collaborators of an engine's task runs."""

    executor: AgentExecutor
    store: Store
    readers: EventReaders
    clock: Clock
    options: EngineOptions
    #: True if events go to the outbox
    push: bool
    #: the executor's `reply`, called instead of `execute` for messages that name no task; None to call
    #: `execute`
    reply: Callable[[Run], Awaitable[hub.Message]] | None = None
    turns: Turns = field(default_factory=Turns)

    @property
    def resumes(self) -> bool:
        """True if another process can continue an unfinished run."""
        return self.store.durable and hasattr(self.executor, "resume")
