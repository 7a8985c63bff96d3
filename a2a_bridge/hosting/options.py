"""The options of an engine. Plain numbers and flags: collaborators are arguments of `Engine`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine treats its tasks. Times in seconds; 0 means no limit."""

    #: time that a cancelled run gets to stop; if it ignores its cancellation, its later events are dropped
    patience: float = 5.0
    #: time that the executor's `cancel` gets to clean up; then the run is stopped without it
    cancel_timeout: float = 30.0
    #: messages that may wait for the run of one task to end; more are RESOURCE_EXHAUSTED
    queue: int = 16
    #: tasks of one principal, over all tenants, that may be worked on at once; more are RESOURCE_EXHAUSTED
    tasks: int = 10_000
    #: the same of one tenant, over all principals
    tenant_tasks: int = 0
    #: messages that a task may have before it rejects further ones with RESOURCE_EXHAUSTED
    history: int = 10_000
    #: duration of one run; a run that takes longer is stopped, and its task fails
    run_timeout: float = 0
    #: time without an event of a run; a run that is silent for longer is stopped, and its task fails
    silence_timeout: float = 0
    #: True to answer a repeated message (same id, same content) with the result of the first one, without a
    #: second
    #: run; off because clients in the field reuse ids
    idempotent_sends: bool = False


DEFAULT = EngineOptions()
