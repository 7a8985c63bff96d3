"""A stand-in for claude-agent-sdk 0.2: options, and a client without a process, which does what the newest message
says.

It has the interface that the adapter uses, and its rules: a client has one session, a session that is resumed is
known, a permission is asked of a callback. `make frameworks` has the real package, and a stand-in for Claude Code.
"""

from claude_agent_sdk.client import ClaudeSDKClient as ClaudeSDKClient
from claude_agent_sdk.types import AssistantMessage as AssistantMessage
from claude_agent_sdk.types import ClaudeAgentOptions as ClaudeAgentOptions
from claude_agent_sdk.types import PermissionResultAllow as PermissionResultAllow
from claude_agent_sdk.types import PermissionResultDeny as PermissionResultDeny
from claude_agent_sdk.types import ResultMessage as ResultMessage
from claude_agent_sdk.types import StreamEvent as StreamEvent
from claude_agent_sdk.types import ToolResultBlock as ToolResultBlock
from claude_agent_sdk.types import ToolUseBlock as ToolUseBlock
from claude_agent_sdk.types import UserMessage as UserMessage
