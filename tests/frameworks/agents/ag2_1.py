"""An AG2 agent with an offline model. Argument: the port."""

import sys
from typing import Any

import ag2
import uvicorn
from ag2.a2a import A2AServer
from ag2.events import ModelMessage, ModelMessageChunk, ModelResponse
from ag2.testing import TestConfig


class Offline(TestConfig):
    """Sends a constant answer."""

    def create(self) -> Any:
        async def called(_messages: Any, context: Any, **_: Any) -> ModelResponse:
            await context.send(ModelMessageChunk("the answer"))
            return ModelResponse(ModelMessage("the answer"))

        return called


port = int(sys.argv[1])
server = A2AServer(ag2.Agent("answering", config=Offline()))
uvicorn.run(
    server.build_jsonrpc(url=f"http://127.0.0.1:{port}"), host="127.0.0.1", port=port, log_level="warning"
)
