"""An agent of Microsoft's agent-framework with an offline client, by A2AExecutor."""

import base64
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)
from agent_framework_a2a import A2AExecutor
from replies import Call, replies

import a2a_bridge


@tool(approval_mode="always_require")
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@tool
def report() -> Content:
    """Makes a file."""
    encoded = base64.b64encode(b"a,b\n").decode()
    return Content.from_uri(f"data:text/csv;base64,{encoded}", media_type="text/csv")


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Does what the newest message says."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Any:
        assert stream
        return ResponseStream(self._updates(messages), finalizer=ChatResponse.from_updates)

    async def _updates(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        name = uuid.uuid4().hex
        results = [one for one in messages[-1].contents if one.type == "function_result"]
        if results:
            told = [Content.from_text("done: " + ", ".join(str(one.result) for one in results))]
            yield ChatResponseUpdate(role="assistant", contents=told, message_id=name)
            return
        users = [message.text for message in messages if message.role == "user"]
        async for said in replies(users[-1], users):
            one = Content.from_text(said) if isinstance(said, str) else _call(said)
            yield ChatResponseUpdate(role="assistant", contents=[one], message_id=name)


def _call(call: Call) -> Content:
    return Content.from_function_call(uuid.uuid4().hex, call.name, arguments=call.arguments)


agent = Agent(Scripted(), name="scripted", tools=[delete, report])
served = a2a_bridge.Agent(A2AExecutor(agent, stream=True), name="scripted", mask_errors=True)
