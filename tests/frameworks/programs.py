"""The frameworks and clients that are run: packages, versions, programs, as data."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"

#: the answer of every agent here
ANSWER = "the answer"


@dataclass(frozen=True)
class Framework:
    """The own server of a framework."""

    name: str
    title: str
    #: its own package, whose version is told
    package: str
    #: the packages for pip; those that determine the bytes on the wire are pinned
    packages: tuple[str, ...]
    #: its program below agents/, which takes a port
    program: str
    #: path of its card, with a query where it needs one
    card: str = ""
    #: flags that `a2a-bridge gateway` needs before it
    flags: tuple[str, ...] = ()
    #: whether it has GetTask
    tasks: bool = True
    #: its special features, for readers
    note: str = ""


FRAMEWORKS = (
    Framework(
        "pydantic-ai-2",
        "Pydantic AI (fasta2a)",
        "fasta2a",
        ("pydantic-ai-slim==2.68.0", "fasta2a==2.1.1", "httpx", "uvicorn"),
        "pydantic_ai_2.py",
        note="timestamps have no zone; its card says http://localhost:8000 unless told otherwise",
    ),
    Framework(
        "pydantic-ai-0",
        "Pydantic AI (fasta2a)",
        "fasta2a",
        ("pydantic-ai-slim==0.8.1", "fasta2a==0.6.0", "uvicorn", "opentelemetry-api<1.36"),
        "pydantic_ai_0.py",
        note="wants acceptedOutputModes in every configuration; answers before the task has run",
    ),
    Framework("google-adk-2", "Google ADK", "google-adk", ("google-adk[a2a]==2.13.0",), "google_adk.py"),
    Framework(
        "langgraph-api",
        "LangGraph Server",
        "langgraph-api",
        ("langgraph-cli[inmem]==0.4.40", "langgraph-api==0.16.7"),
        "langgraph_api.py",
        card=".well-known/agent-card.json?assistant_id=f6656b99-8bed-5a18-803c-1fe67bf265ce",
        note="methods of 1.0, stream events in the shape of 0.3",
    ),
    Framework(
        "agent-framework-1",
        "Agent Framework",
        "agent-framework-core",
        (
            "agent-framework-core==1.23.0",
            "agent-framework-a2a==1.0.0b261022",
            "a2a-sdk[http-server]==1.3.0",
            "uvicorn",
        ),
        "agent_framework_1.py",
        note="its interface has no protocolVersion",
    ),
    Framework(
        "a2akit",
        "a2akit",
        "a2akit",
        ("a2akit==0.0.32",),
        "a2akit_0.py",
        note="does not wait unless `blocking` is written out; does not stream",
    ),
    Framework("strands-1", "Strands", "strands-agents", ("strands-agents[a2a]==1.62.0",), "strands_1.py"),
    Framework(
        "agno-3",
        "Agno",
        "agno",
        ("agno==3.1.10", "a2a-sdk[http-server]==0.3.26", "fastapi", "uvicorn", "python-multipart"),
        "agno_3.py",
        card="a2a/agents/answering/.well-known/agent-card.json",
        tasks=False,
        note="its card names the address of streams, which takes nothing else; its answer is a message",
    ),
    Framework(
        "ag2-1", "AG2", "ag2", ("ag2[a2a]==1.2.1", "a2a-sdk[http-server]==1.3.0", "uvicorn"), "ag2_1.py"
    ),
)


@dataclass(frozen=True)
class Remote:
    """The own client of a framework."""

    name: str
    title: str
    #: its own package, whose version is told
    package: str
    #: the packages for pip
    packages: tuple[str, ...]
    #: its program below clients/, which takes the URL of an agent and prints the answer
    program: str
    #: further arguments of the program
    arguments: tuple[str, ...] = ()
    #: flags that `a2a-bridge serve` and `gateway` need for it
    flags: tuple[str, ...] = ()
    #: its environment
    environment: str = ""
    #: why it does not work, or what it needs, for readers
    note: str = ""
    #: whether it cannot work through this project
    lacks: bool = False


def _remote(of: str, program: str, *arguments: str, title: str = "", **others: Any) -> Remote:
    """The client of a framework of FRAMEWORKS, in the environment of its server."""
    [one] = [each for each in FRAMEWORKS if each.name == of]
    name = "-".join((of, *arguments))
    made = Remote(name, title or one.title, one.package, one.packages, program, arguments, environment=of)
    return replace(made, **others)


REMOTES = (
    _remote("strands-1", "strands_agents.py"),
    _remote(
        "agno-3",
        "agno_agent.py",
        note="it takes the first task of a stream for the end, and reads no artifacts of a task",
        lacks=True,
    ),
    _remote("ag2-1", "ag2_agent.py"),
    _remote("ag2-1", "ag2_agent.py", "rest", title="AG2 over HTTP+JSON"),
    _remote(
        "google-adk-2",
        "google_adk.py",
        flags=("--advertise", "JSONRPC,HTTP+JSON"),
        note="it rejects a card with an address that is no URL, such as one of gRPC: `--advertise JSONRPC,HTTP+JSON`",
    ),
    _remote("agent-framework-1", "ms_agent_framework.py"),
    _remote(
        "pydantic-ai-2",
        "fasta2a_client.py",
        note="it sends the methods of 0.3, and reads results of 1.0",
        lacks=True,
    ),
    Remote(
        "crewai-1",
        "CrewAI",
        "crewai",
        ("crewai[a2a]==1.15.30",),
        "crewai_agent.py",
        environment="crewai-1",
    ),
    Remote(
        "beeai-0",
        "BeeAI",
        "beeai-framework",
        ("beeai-framework[a2a]==0.1.85",),
        "beeai_agent.py",
        environment="beeai-0",
    ),
)


@dataclass(frozen=True)
class Adapted:
    """One framework in this process, always in its newest release."""

    #: of the extra, and of the page docs/how-to/serve-NAME.md
    name: str
    title: str
    #: its own package, whose version is told
    package: str
    #: its agent below adapted/, as `serve` takes it
    target: str
    #: its program below answers/, which compares answers with those of plain calls
    answers: str = ""
    #: further packages of the program
    packages: tuple[str, ...] = ()
    #: checks that the framework cannot pass, and that the adapter refuses in words
    refuses: tuple[str, ...] = ()
    #: checks that fail, because the executor of the framework lacks what they ask
    lacks: tuple[str, ...] = ()


ADAPTED = (
    Adapted(
        "langgraph",
        "LangGraph",
        "langgraph",
        "langgraph_graph.py:make_graph",
        "langgraph_graphs.py",
        ("langchain", "langgraph-checkpoint-sqlite"),
    ),
    Adapted(
        "pydantic-ai",
        "Pydantic AI",
        "pydantic-ai-slim",
        "pydantic_ai_agent.py:agent",
        "pydantic_ai_agents.py",
    ),
    Adapted("google-adk", "Google ADK", "google-adk", "google_adk.py:root_agent", "google_adk_agents.py"),
    Adapted(
        "openai-agents",
        "OpenAI Agents SDK",
        "openai-agents",
        "openai_agents.py:served",
        "openai_agents_runs.py",
        refuses=("an approval with other arguments",),
    ),
    Adapted(
        "strands",
        "Strands",
        "strands-agents",
        "strands_agent.py:served",
        "strands_agents.py",
        refuses=("an approval with other arguments",),
    ),
    Adapted(
        "claude-agent",
        "Claude Agent SDK",
        "claude-agent-sdk",
        "claude_agent.py:served",
        "claude_agents.py",
    ),
    Adapted(
        "crewai",
        "CrewAI",
        "crewai",
        "crewai_flow.py:served",
        "crewai_crews.py",
        lacks=(
            "an approval of a tool",
            "answers by call",
            "an approval with other arguments",
            "a file to the agent",
        ),
    ),
)

EXECUTORS = (
    Adapted(
        "agent-framework",
        "Agent Framework",
        "agent-framework-core",
        "agent_framework_executor.py:served",
        packages=("agent-framework-core", "agent-framework-a2a"),
        lacks=(
            "an approval of a tool",
            "a denial of a tool",
            "answers by call",
            "an approval with other arguments",
            "a question and its answer",
            "a question that nobody answers",
            "a cancelled question",
            "a conversation goes on",
            "two tasks of one context at once",
            "a file to the agent",
            "a file of the agent",
            "data to the agent",
            "two callers with one context id",
        ),
    ),
)


@dataclass(frozen=True)
class Function:
    """A framework that a function calls: the one of the page docs/how-to/serve-NAME.md."""

    name: str
    title: str
    #: its own package; the newest release, and the oldest one that is supported
    package: str
    oldest: str
    #: further packages of the program
    packages: tuple[str, ...] = ()
    #: checks that the framework cannot pass
    lacks: tuple[str, ...] = ()


FUNCTIONS = (
    Function("agno", "Agno", "agno", "2.5.0"),
    Function(
        "smolagents",
        "smolagents",
        "smolagents",
        "1.22.0",
        lacks=("streamed text is chunks", "a cancelled turn and the one after it"),
    ),
    Function("llama-index", "LlamaIndex workflows", "llama-index-workflows", "2.0.0"),
    Function("semantic-kernel", "Semantic Kernel", "semantic-kernel", "1.35.0"),
    Function("ag2", "AG2", "ag2", "1.0.0"),
)


@dataclass(frozen=True)
class Front:
    """One front, with the official client of that name, always in its newest release."""

    name: str
    #: its tests below tests/fronts
    tests: tuple[str, ...]
    #: the rows of the table in docs/how-to/serve-NAME-clients.md, and what the names of tests of a row alone have
    rows: dict[str, tuple[str, ...]]


FRONTS = (
    Front(
        "mcp",
        ("test_mcp.py", "test_mcp_command.py"),
        {
            "stdio, 2025-11-25": ("stdio", "legacy"),
            "stdio, 2026-07-28": ("stdio", "2026-07-28"),
            "HTTP, 2025-11-25": ("test_mcp.py", "http", "legacy"),
            "HTTP, 2026-07-28": ("test_mcp.py", "http", "2026-07-28"),
        },
    ),
    Front("openai", ("test_openai.py", "test_openai_command.py"), {"chat completions and responses": ()}),
)
