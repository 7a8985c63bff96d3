"""The files of a starter project, as `a2a-bridge init` writes them. `$name` and the like are filled in."""

from __future__ import annotations

_FUNCTION = '''"""An agent: a function of the text of a message. Serve it: a2a-bridge serve agent.py"""

from a2a_bridge import agent


@agent(name="$name")
async def answer(text: str):
    """Repeats what it is told, word by word."""  # the description in the card
    for word in text.split():
        yield f"{word} "  # each value is streamed; `return` gives one answer instead
'''
_EXECUTOR = '''"""An agent: an executor, which says each event. Serve it: a2a-bridge serve agent.py"""

from a2a_bridge import Agent


class Answer:
    async def execute(self, run):
        yield run.status("working", "reading")
        yield run.artifact(f"{run.text} ", name="answer")
        yield run.status("completed")


agent = Agent(Answer(), name="$name", description="Repeats what it is told.")
'''
_LANGGRAPH = '''"""An agent: a compiled graph. Serve it: a2a-bridge serve agent.py"""

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


async def answer(state: MessagesState):
    # Call your model here.
    return {"messages": [AIMessage(f"{state['messages'][-1].content} ")]}


# For a checkpointer that outlives the process, give a function that opens it, and serve agent.py:make_graph
graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile(name="$name")
'''
_PROGRAM = '''"""An agent: a program that runs for each message. Serve it: a2a-bridge serve agent.py"""

import sys
from pathlib import Path

from a2a_bridge import Agent, Program

# Any program: its standard input is the text of the message, its standard output the answer.
agent = Agent(
    Program(sys.executable, str(Path(__file__).with_name("answer.py"))),
    name="$name",
    description="Repeats what it is told.",
)
'''
_ANSWER = """import sys

print(sys.stdin.read(), end=" ")
"""
_TEST = '''"""Tests on every binding, at free ports of this machine: pytest"""

import pytest
from agent import $object


@pytest.fixture
def a2a_target():
    return $object


def test_it_answers(a2a_peer):
    assert a2a_peer.send("hello world").text.split() == ["hello", "world"]


def test_its_card(a2a_agent):
    assert a2a_agent.card.name == "$name"
'''
_PYPROJECT = """[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [$needs]

[project.optional-dependencies]
test = ["pytest"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
py-modules = [$modules]

[tool.pytest.ini_options]
pythonpath = ["."]
"""
_DOCKERFILE = """FROM python:3.12-slim
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir .
RUN useradd --create-home app && mkdir .a2a-bridge && chown app .a2a-bridge
USER app
EXPOSE 8080 50051
# Everybody who reaches the ports may call it: see api_keys in bridge.toml.
ENV A2A_BRIDGE_HTTP=0.0.0.0:8080 A2A_BRIDGE_GRPC=0.0.0.0:50051
CMD ["a2a-bridge", "serve", "agent.py", "--config", "bridge.toml"]
"""
_CONFIGURATION = """# Options of: a2a-bridge serve agent.py --config bridge.toml
# All keys: a2a-bridge serve --help-all
http = "127.0.0.1:8080"
grpc = "127.0.0.1:50051"

# The address that callers use, for the card:
# public_url = "https://agent.example"

# Where tasks are kept; by default in .a2a-bridge/ here:
# store = "postgresql://user@host/database"

# Who may call. First: a2a-bridge keys create --file keys.json --id me
# api_keys = "keys.json"

# Metrics and probes for operators:
# admin = "127.0.0.1:9090"

log_level = "info"
"""
_IGNORED = """.a2a-bridge/
.pytest_cache/
.venv/
__pycache__/
*.egg-info/
build/
keys.json
"""

#: kind of a project → its agent, the object in it, and further files
KINDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "function": (_FUNCTION, "answer", {}),
    "executor": (_EXECUTOR, "agent", {}),
    "langgraph": (_LANGGRAPH, "graph", {}),
    "program": (_PROGRAM, "agent", {"answer.py": _ANSWER}),
}


def files_of(kind: str, name: str, version: str) -> dict[str, str]:
    """The files of a project, by name. name: of the agent: lower-case letters, digits and -. version: of the
    distributions that it needs.
    """
    agent, thing, more = KINDS[kind]
    needs = [f"a2a-transport-bridge[server]=={version}", f"a2a-transport-bridge-tools=={version}"]
    if kind == "langgraph":
        needs.append(f"a2a-transport-bridge-adapters[langgraph]=={version}")
    modules = [one.removesuffix(".py") for one in ("agent.py", *more)]
    values = {
        "$name": name,
        "$object": thing,
        "$needs": "".join(f'\n    "{one}",' for one in needs) + "\n",
        "$modules": ", ".join(f'"{one}"' for one in modules),
    }
    texts = {
        "agent.py": agent,
        **more,
        "test_agent.py": _TEST,
        "pyproject.toml": _PYPROJECT,
        "bridge.toml": _CONFIGURATION,
        "Dockerfile": _DOCKERFILE,
        ".dockerignore": _IGNORED,
        ".gitignore": _IGNORED,
    }
    made = {}
    for file, text in texts.items():
        made[file] = text
        for place, value in values.items():
            made[file] = made[file].replace(place, value)
    return made
