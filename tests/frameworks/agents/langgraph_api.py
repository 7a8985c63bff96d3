"""A LangGraph graph without a model on `langgraph dev`. Argument: the port."""

import json
import os
import sys
import tempfile
from pathlib import Path

GRAPH = """
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(state: State) -> State:
    return {"messages": [AIMessage("the answer")]}


graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile()
"""

folder = Path(tempfile.mkdtemp())
(folder / "graph.py").write_text(GRAPH)
(folder / "langgraph.json").write_text(
    json.dumps({"dependencies": ["."], "graphs": {"answering": "./graph.py:graph"}})
)
os.chdir(folder)
command = [
    str(Path(sys.executable).with_name("langgraph")),
    "dev",
    "--no-browser",
    "--no-reload",
    "--port",
    sys.argv[1],
]
os.environ["LANGSMITH_TRACING"] = "false"
os.execv(command[0], command)  # noqa: S606  it replaces this process
