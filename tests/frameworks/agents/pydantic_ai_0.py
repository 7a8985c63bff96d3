"""A pydantic-ai agent of 2025 with an offline model. Argument: the port."""

import sys

import uvicorn
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

port = int(sys.argv[1])
agent = Agent(TestModel(custom_output_text="the answer"), name="answering")
app = agent.to_a2a(url=f"http://127.0.0.1:{port}")
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
