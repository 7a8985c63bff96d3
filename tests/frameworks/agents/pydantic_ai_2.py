"""A pydantic-ai agent with an offline model, served by fasta2a. Arguments: the port; `url` to tell its card."""

import sys

import uvicorn
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

port = int(sys.argv[1])
agent = Agent(TestModel(custom_output_text="the answer"), name="answering")
# Otherwise its card keeps the default URL, http://localhost:8000, as most deployments do.
told = {"url": f"http://127.0.0.1:{port}"} if "url" in sys.argv else {}
uvicorn.run(agent_to_a2a(agent, **told), host="127.0.0.1", port=port, log_level="warning")
