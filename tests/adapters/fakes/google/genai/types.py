"""The parts of google-genai that the adapter of Google ADK uses."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Blob:
    data: bytes | None = None
    mime_type: str | None = None
    display_name: str | None = None


@dataclass
class FileData:
    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


@dataclass
class FunctionCall:
    name: str
    args: dict[str, Any]
    id: str = ""


@dataclass
class FunctionResponse:
    id: str
    name: str
    response: dict[str, Any]


@dataclass
class Part:
    text: str | None = None
    thought: bool | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


@dataclass
class Content:
    role: str = ""
    parts: list[Part] = field(default_factory=list)
