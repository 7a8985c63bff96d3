"""The clients of `make fronts` and what they do: the rows and columns of docs/reference/fronts.md.

A client is a program in `programs/`, which prints what it was told for each feature. It runs in an environment of
its own, with the newest releases.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """A column. wanted: what the answer has, as a regular expression."""

    name: str
    title: str
    wanted: str


@dataclass(frozen=True)
class Client:
    """A row. program: below `programs/`. packages: of pip, or of npm for a program in JavaScript; the first one
    tells its version. refused: why a feature does not work, by its name.
    """

    title: str
    program: str
    packages: tuple[str, ...]
    refused: dict[str, str]

    @property
    def is_node(self) -> bool:
        return self.program.endswith(".mjs")


@dataclass(frozen=True)
class Group:
    """A table. name: of its part of the page."""

    name: str
    features: tuple[Feature, ...]
    clients: tuple[Client, ...]


def _client(title: str, program: str, *packages: str, **refused: str) -> Client:
    return Client(title, program, packages, refused)


def _scenarios(*names: str) -> Sequence[Feature]:
    return [Feature(name, f"`{name}`", r"Passed: (\d+)/\1, 0 failed") for name in names]


#: agents behind the fronts: binding and version
AGENTS = (("GRPC", "1.0"), ("JSONRPC", "0.3"))

_ONE_CALL = "each run of the command is a session of its own"

MCP = Group(
    "MCP clients",
    (
        Feature("tools", "lists tools", "ask_desk"),
        Feature("call", "calls one", "hello!"),
        Feature("data", "reads data", r"degrees\W+21"),
        Feature("arguments", "null and unknown arguments", "hello!"),
        Feature("conversation", "goes on", "turn [2-9]"),
        Feature("question", "answers a question", "you said red"),
        Feature("failure", "sees a failure", "failed"),
    ),
    (
        _client("`mcp` (Python)", "mcp_sdk.py", "mcp"),
        _client("`@modelcontextprotocol/sdk` (TypeScript)", "mcp_sdk.mjs", "@modelcontextprotocol/sdk"),
        _client(
            "`@modelcontextprotocol/inspector --cli`",
            "inspector.mjs",
            "@modelcontextprotocol/inspector",
            conversation=_ONE_CALL,
        ),
        _client("`fastmcp`", "fastmcp_client.py", "fastmcp"),
        _client("`langchain-mcp-adapters`", "langchain_mcp.py", "langchain-mcp-adapters"),
        _client(
            "`llama-index-tools-mcp`",
            "llama_index_mcp.py",
            "llama-index-tools-mcp",
            "llama-index-core",
            conversation="it opens a session of 2025-11-25 for each call",
        ),
        _client("`pydantic-ai` toolset", "pydantic_ai_mcp.py", "pydantic-ai-slim[mcp,openai]"),
        _client("`openai-agents` server", "openai_agents_mcp.py", "openai-agents"),
        _client("`@ai-sdk/mcp`", "ai_sdk_mcp.mjs", "@ai-sdk/mcp", "ai"),
    ),
)

OPENAI = Group(
    "OpenAI clients",
    (
        Feature("chat", "asks", "hello!"),
        Feature("stream", "streams", "hello!"),
        Feature("conversation", "goes on", "turn 2"),
        Feature("structured", "structured output", r"degrees\W+21"),
        Feature("failure", "sees a failure", "failed"),
        Feature("tools", "with tools of its own: refused", "tools: is not supported"),
    ),
    (
        _client("`openai` (Python), chat completions", "openai_sdk.py", "openai"),
        _client("`openai` (Python), responses", "openai_sdk_responses.py", "openai"),
        _client("`openai` (JavaScript)", "openai_sdk.mjs", "openai"),
        _client("`@ai-sdk/openai`, chat", "ai_sdk_chat.mjs", "@ai-sdk/openai", "ai"),
        _client("`@ai-sdk/openai`, responses", "ai_sdk_responses.mjs", "@ai-sdk/openai", "ai"),
        _client("`litellm`", "litellm_client.py", "litellm"),
        _client("`langchain-openai`", "langchain_openai_client.py", "langchain-openai"),
        _client("`llama-index-llms-openai-like`", "llama_index_client.py", "llama-index-llms-openai-like"),
        _client(
            "`instructor`",
            "instructor_client.py",
            "instructor",
            chat="it asks for structured output only",
            stream="it asks for structured output only",
            conversation="it asks for structured output only",
            failure="it asks for structured output only",
        ),
        _client("`pydantic-ai` model", "pydantic_ai_client.py", "pydantic-ai-slim[mcp,openai]"),
        _client("`openai-agents` model", "openai_agents_client.py", "openai-agents"),
    ),
)

CONFORMANCE = Group(
    "conformance",
    tuple(
        _scenarios(
            "server-initialize",
            "ping",
            "tools-list",
            "resources-list",
            "prompts-list",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        )
    ),
    (_client("`@modelcontextprotocol/conformance`", "conformance.mjs", "@modelcontextprotocol/conformance"),),
)

GROUPS = (MCP, OPENAI, CONFORMANCE)
