"""A stand-in for the messages of LangChain, as far as the adapter uses them."""

import uuid
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BaseMessage:
    content: Any
    id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(block["text"] for block in self.content if block["type"] == "text")


@dataclass
class HumanMessage(BaseMessage):
    type = "human"


@dataclass
class AIMessage(BaseMessage):
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    type = "ai"


@dataclass
class AIMessageChunk(AIMessage):
    type = "AIMessageChunk"


@dataclass
class ToolMessage(BaseMessage):
    tool_call_id: str = ""
    name: str = ""
    status: str = "success"
    type = "tool"


def new_id() -> str:
    return f"lc_run--{uuid.uuid4()}"
