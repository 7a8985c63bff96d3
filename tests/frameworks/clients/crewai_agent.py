"""How a CrewAI agent delegates to another one. Argument: the URL of the agent."""

import os
import sys

# Otherwise it waits for servers of its maker.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from crewai.a2a.utils.delegation import execute_a2a_delegation

told = execute_a2a_delegation(
    endpoint=f"{sys.argv[1]}/.well-known/agent-card.json",
    auth=None,
    timeout=60,
    task_description="a question",
)
print(told["result"])
