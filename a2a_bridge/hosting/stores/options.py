"""What can be chosen of a store that outlives its process. Not where it is: the URL says that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Times in seconds.

    commit_delay: how long a change may wait for others to be committed with, when nobody waits for it. What a crash
        can lose is no older than this, and nobody has seen it.
    ack_timeout: how long a caller waits for a store that does not work, before it is told UNAVAILABLE.
    events_kept: how long the events of a task that has ended can be asked for.
    tasks_kept: how long tasks are kept after they ended; None for ever.
    sends_kept: how long messages are recognised that are sent again.
    keys: what secrets are sealed with, the newest first (see a2a_bridge.push.vault); empty to keep them as they are.
    lease: without a sign of life for this long a replica counts as dead (PostgreSQL only).
    cache_bytes: of ended tasks kept at hand.
    max_memory: bytes of tasks, events, requests and answers that the process may hold; 0 for no limit. Stores in memory and
        gateways have it, too.
    """

    commit_delay: float = 0.01
    ack_timeout: float = 10.0
    events_kept: float = _DAY
    tasks_kept: float | None = None
    sends_kept: float = _DAY
    keys: Sequence[str] = field(default=(), repr=False)
    lease: float = 10.0
    cache_bytes: int = 8 << 20
    max_memory: int = 1 << 30
