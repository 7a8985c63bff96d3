"""The faults of real replicas, by name, and the runs that repeat one of them."""

from collections.abc import Mapping
from typing import NamedTuple

#: seconds, of each replica
LEASE = 4

#: of faults
KINDS = (
    "cut",
    "hole",
    "slow",
    "lonely",
    "far",
    "all buses",
    "nats stopped",
    "nats killed",
    "database",
    "pause",
    "suspended",
    "vanished",
    "kill",
    "restart",
)


class Repeated(NamedTuple):
    """The same fault many times, at one replica after the other. pause: seconds after each."""

    kind: str
    times: int
    seconds: float = 0.0
    pause: float = 0.0


RUNS: Mapping[str, Repeated] = {
    # Ten times each of three.
    "rolling": Repeated("restart", 30),
    # The next one after the takeover.
    "kills": Repeated("kill", 10, pause=2 * LEASE),
    "stops": Repeated("pause", 3, 30.0, 2 * LEASE),
    "cuts": Repeated("lonely", 3, 30.0, 2 * LEASE),
    # Inside a transaction: the process is stopped, or its connection is cut without a word.
    "suspended": Repeated("suspended", 6, 15.0, 2 * LEASE),
    "vanished": Repeated("vanished", 6, 15.0, 2 * LEASE),
    "latency": Repeated("far", 3, 30.0),
}
