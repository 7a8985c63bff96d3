"""A stand-in for the checkpointer in memory."""

from typing import Any


class InMemorySaver:
    def __init__(self) -> None:
        self.threads: dict[str, Any] = {}

    def delete_thread(self, thread_id: str) -> None:
        self.threads.pop(thread_id, None)
