"""A Strands agent with an offline model. Argument: the port."""

import sys
from collections.abc import AsyncIterable
from typing import Any

from strands import Agent
from strands.models import Model
from strands.multiagent.a2a import A2AServer


class Offline(Model):
    """Sends a constant answer."""

    def update_config(self, **_: Any) -> None:
        """There is no configuration."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this model writes text only")

    async def stream(self, *_: Any, **__: Any) -> AsyncIterable[dict[str, Any]]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "the answer"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


port = int(sys.argv[1])
agent = Agent(name="Answering", description="Answers.", model=Offline(), callback_handler=None)
A2AServer(agent=agent, host="127.0.0.1", port=port).serve(log_level="warning")
