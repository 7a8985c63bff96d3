"""A flow of CrewAI with an offline model, for `a2a-bridge serve crewai_flow.py:served`."""

import os
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import BaseLLM, Flow
from crewai.flow import start
from pydantic import BaseModel
from replies import Call, done, replies

from a2a_bridge import Agent
from a2a_bridge.ext import hub


class Scripted(BaseLLM):
    """Streams what it is asked to say."""

    async def acall(self, messages: Any, *_: Any, **__: Any) -> str:
        self._emit_stream_chunk_event(messages, response_id="1")
        return messages

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        return str(messages)


class Conversation(BaseModel):
    message: str = ""
    users: list[str] = []


class Desk(Flow[Conversation]):
    """Does what the newest message says."""

    @start()
    async def answer(self) -> Any:
        self.state.users.append(self.state.message)
        said, results = "", []
        async for one in replies(self.state.message, self.state.users):
            if not isinstance(one, Call):
                said += await Scripted(model="scripted").acall(one)
            elif one.name == "report":
                return hub.Part(raw=b"a,b\n", media_type="text/csv", filename="table.csv")
            elif one.name == "question":
                results.append((one.name, self.ask(one.arguments["text"])))
            else:
                path = one.arguments["path"]
                agreed = (self.ask(f"delete {path}?") or "").lower() == "yes"
                results.append((one.name, f"deleted {path}" if agreed else "denied"))
        return said or done(results)


# The text of the model is the answer, which no other flow can promise.
served = Agent.of(Desk(), stream=True)
