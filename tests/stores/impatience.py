"""Callers of a store that give up soon, for the part of a test that needs it.

The limit of a whole store would hold for the steps that have to succeed, too, and a busy machine reaches tenths of a
second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from a2a_bridge.stores import StoreOptions
from tests.patience import PATIENCE

PATIENT = StoreOptions(ack_timeout=PATIENCE)


@contextmanager
def impatient(store: Any, seconds: float = 0.1) -> Iterator[None]:
    """Callers and readers of an open store wait for so many seconds inside."""
    before = store.writer.ack_timeout
    store.writer.ack_timeout = store._logs._patience = seconds
    try:
        yield
    finally:
        store.writer.ack_timeout = store._logs._patience = before
