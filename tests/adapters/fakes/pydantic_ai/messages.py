"""Stand-ins for the messages of Pydantic AI, as far as the adapter uses them."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TextPart:
    content: str


@dataclass
class TextPartDelta:
    content_delta: str


@dataclass
class FilePart:
    content: Any


@dataclass
class ToolCallPart:
    tool_name: str
    args: dict[str, Any]
    tool_call_id: str

    def args_as_dict(self) -> dict[str, Any]:
        return self.args


@dataclass
class UserPromptPart:
    content: Any


@dataclass
class ToolReturnPart:
    tool_name: str
    content: Any
    tool_call_id: str
    metadata: Any = None


@dataclass
class RetryPromptPart:
    tool_call_id: str


@dataclass
class ModelRequest:
    parts: list[Any] = field(default_factory=list)


@dataclass
class ModelResponse:
    parts: list[Any] = field(default_factory=list)

    @property
    def tool_calls(self) -> list[ToolCallPart]:
        return [part for part in self.parts if isinstance(part, ToolCallPart)]
