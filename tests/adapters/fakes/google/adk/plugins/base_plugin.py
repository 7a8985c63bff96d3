"""A plugin."""

from typing import Any


class BasePlugin:
    async def after_model_callback(self, **given: Any) -> None: ...

    async def after_agent_callback(self, **given: Any) -> None: ...

    async def on_event_callback(self, **given: Any) -> None: ...
