"""Options of the Claude Agent SDK with an offline stand-in for Claude Code, for
`a2a-bridge serve claude_agent.py:served`.
"""

import tempfile
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions

#: removed at the end of the process
SESSIONS = tempfile.TemporaryDirectory()

served = ClaudeAgentOptions(
    cli_path=Path(__file__).with_name("claude_code.py"), env={"SESSIONS": SESSIONS.name}, setting_sources=[]
)
