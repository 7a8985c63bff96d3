"""An agno agent with an offline model. Argument: the port."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.os import AgentOS


class Offline(Model):
    """Sends a constant answer."""

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content="the answer")

    async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
        return self.invoke()

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        yield self.invoke()

    async def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke()

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


agent = Agent(
    id="answering", name="Answering", description="Answers.", model=Offline(id="offline"), telemetry=False
)
app = AgentOS(agents=[agent], a2a_interface=True, telemetry=False).get_app()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
