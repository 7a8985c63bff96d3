from dataclasses import dataclass, field
from typing import Any


@dataclass
class ClaudeAgentOptions:
    """log: the options of each client, and interrupts. outputs: results by what the model has said."""

    system_prompt: Any = None
    can_use_tool: Any = None
    permission_prompt_tool_name: str | None = None
    resume: str | None = None
    resume_session_at: str | None = None
    session_id: str | None = None
    continue_conversation: bool = False
    fork_session: bool = False
    include_partial_messages: bool = False
    max_buffer_size: int | None = None
    output_format: Any = None
    hooks: Any = None
    agents: Any = None
    user: str | None = None
    sessions: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)


@dataclass
class AgentDefinition:
    description: str


@dataclass
class ToolPermissionContext:
    tool_use_id: str
    decision_reason: str | None = None


@dataclass
class PermissionResultAllow:
    updated_input: dict[str, Any] | None = None


@dataclass
class PermissionResultDeny:
    message: str = ""
    interrupt: bool = False


@dataclass
class ToolUseBlock:
    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ToolResultBlock:
    tool_use_id: str
    content: Any = None


@dataclass
class AssistantMessage:
    content: list[Any]
    session_id: str | None = None
    parent_tool_use_id: str | None = None


@dataclass
class UserMessage:
    content: Any
    parent_tool_use_id: str | None = None


@dataclass
class StreamEvent:
    event: dict[str, Any]
    session_id: str
    parent_tool_use_id: str | None = None


@dataclass
class ResultMessage:
    session_id: str
    subtype: str = "success"
    is_error: bool = False
    result: str | None = None
    structured_output: Any = None
    errors: list[str] | None = None
