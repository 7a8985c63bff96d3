"""A2AAgent of Strands. Argument: the URL of the agent."""

import sys

from strands.agent.a2a_agent import A2AAgent

print(A2AAgent(endpoint=sys.argv[1])("a question"))
