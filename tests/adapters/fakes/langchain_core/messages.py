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

    @property
    def content_blocks(self) -> list[Any]:
        return [] if isinstance(self.content, str) else self.content


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


def convert_to_messages(given: list[Any]) -> list[BaseMessage]:
    """Messages in other forms: dictionaries and pairs."""
    kinds: dict[str, Any] = {"ai": AIMessage, "human": HumanMessage}
    made = []
    for one in given:
        if isinstance(one, dict):
            made.append(kinds[one["role"]](one["content"]))
        elif isinstance(one, tuple):
            made.append(kinds[one[0]](one[1]))
        elif isinstance(one, BaseMessage):
            made.append(one)
        else:
            raise NotImplementedError(type(one))
    return made


def new_id() -> str:
    return f"lc_run--{uuid.uuid4()}"
