"""The options of a store, beside its URL, and the error of opening one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Times in seconds."""

    #: longest delay of a change that no caller waits for, so that changes share commits; a crash can lose
    #: changes of
    #: this age, which no client has seen
    commit_delay: float = 0.01
    #: time after which a caller that waits for a failing store gets UNAVAILABLE
    ack_timeout: float = 10.0
    #: time for which the events of an ended task are kept
    events_kept: float = _DAY
    #: time for which tasks are kept after their end; None to keep them for ever
    tasks_kept: float | None = None
    #: time for which ids of messages are kept, for idempotent sends
    sends_kept: float = _DAY
    #: keys that encrypt secrets of push configs, the newest first (see a2a_bridge.push.secrets); empty for no
    #: encryption
    keys: Sequence[str] = field(default=(), repr=False)
    #: time without a heartbeat after which a replica counts as dead (PostgreSQL only)
    lease: float = 10.0
    #: bytes of ended tasks in the cache
    cache_bytes: int = 8 << 20
    #: bytes of tasks, events, requests and responses that the process may hold; 0 for no limit; stores in
    #: memory and
    #: gateways have it, too
    max_memory: int = 1 << 30
    #: addresses of NATS (`nats://HOST:4222`, `tls://…`), separated by commas, over which replicas talk; empty
    #: for PostgreSQL alone. They may contain a secret
    cluster: str = field(default="", repr=False)
    #: the path of a credentials file for NATS; empty for none
    cluster_credentials: str = ""
    #: the path of certificates to trust for NATS; empty for those of the system
    cluster_ca: str = ""


class StoreOpenError(Exception):
    """The store of a URL cannot be opened."""

    def __init__(self, text: str, remedy: str = "", *, unreachable: bool = False) -> None:
        super().__init__(f"{text}; try {remedy}" if remedy else text)
        #: the reason, for people
        self.text = text
        #: what to do: a command line or an option; may be empty
        self.remedy = remedy
        #: the database server does not answer or rejects the login: trying again may help
        self.unreachable = unreachable
