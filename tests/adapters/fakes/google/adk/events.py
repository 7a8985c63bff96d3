"""Events of sessions."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

NUMBERS = itertools.count(1)


@dataclass
class EventActions:
    artifact_delta: dict[str, int] = field(default_factory=dict)
    skip_summarization: bool = False


@dataclass
class Event:
    author: str
    content: types.Content | None = None
    invocation_id: str = ""
    branch: str | None = None
    partial: bool | None = None
    long_running_tool_ids: set[str] | None = None
    output: Any = None
    error_code: str | None = None
    error_message: str | None = None
    actions: EventActions = field(default_factory=EventActions)
    id: int = field(default_factory=lambda: next(NUMBERS))

    def _parts(self) -> list[types.Part]:
        return self.content.parts if self.content else []

    def is_final_response(self) -> bool:
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        return not (self.partial or self.get_function_calls() or self.get_function_responses())

    def get_function_calls(self) -> list[types.FunctionCall]:
        return [part.function_call for part in self._parts() if part.function_call]

    def get_function_responses(self) -> list[types.FunctionResponse]:
        return [part.function_response for part in self._parts() if part.function_response]
