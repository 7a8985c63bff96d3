"""A stand-in for the checkpointer in memory."""

from typing import Any


class InMemorySaver:
    def __init__(self) -> None:
        self.threads: dict[str, Any] = {}

    def get_tuple(self, config: Any) -> Any:
        return self.threads.get(config["configurable"]["thread_id"])

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    def delete_thread(self, thread_id: str) -> None:
        self.threads.pop(thread_id, None)
