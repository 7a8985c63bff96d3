"""The names users import: changing them is a decision, not an accident."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import a2a_bridge
from a2a_bridge import ext
from tests.architecture.repository import BIN, PRODUCT, ROOT, modules, run
from tests.docs.pages import DOCS, blocks
from tests.patience import PATIENCE

PUBLIC = {
    "a2a_bridge": [
        "A2AError",
        "Agent",
        "Client",
        "Program",
        "Reason",
        "Run",
        "__version__",
        "add_to_server",
        "agent",
        "asgi",
        "connect",
        "interface",
        "run",
        "run_gateway",
        "serve",
    ],
    "a2a_bridge.agents": [
        "AgentEntry",
        "Agents",
        "Opening",
        "PATH",
        "asgi_agents",
        "hosted",
        "interfaces_of",
        "options_of",
        "remote",
        "serve_agents",
    ],
    "a2a_bridge.auth": [
        "ALGORITHMS",
        "ApiKeys",
        "Authentication",
        "BearerTokens",
        "ClientCertificates",
        "KeyFile",
        "KeyRecord",
        "KeySetSource",
        "LiveRules",
        "Method",
        "NewKey",
        "ProxyHeader",
        "Rule",
        "UncheckedCredentialsError",
        "authorise",
        "describe_extended_card",
    ],
    "a2a_bridge.cards": [
        "Advertisement",
        "Candidate",
        "GrpcUrls",
        "Mounted",
        "Resolver",
        "interface",
        "resolve",
        "select",
    ],
    "a2a_bridge.hosting": [
        "Agent",
        "AgentExecutor",
        "CancellingExecutor",
        "DirectExecutor",
        "Engine",
        "EngineOptions",
        "Event",
        "ResumingExecutor",
        "Run",
        "agent",
    ],
    "a2a_bridge.middleware": [
        "Limits",
        "Metrics",
        "Usage",
        "access_log",
        "deadline",
        "extensions",
        "limits",
        "usage",
        "validate",
    ],
}


def test_public_names_are_pinned() -> None:
    found = {name: sorted(importlib.import_module(name).__all__) for name in PUBLIC}
    assert found == PUBLIC


def test_every_public_name_can_be_imported() -> None:
    for name in PUBLIC:
        module = importlib.import_module(name)
        assert all(getattr(module, one) is not None for one in module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(a2a_bridge, "nothing_of_that_name")


def test_importing_the_package_loads_no_transport() -> None:
    code = "import sys, a2a_bridge; print([m for m in ('grpc', 'aiohttp', 'google.protobuf') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "[]"


def test_serving_loads_no_http_client() -> None:
    """The client is imported with the first notification, or the first call to another agent."""
    code = """
import asyncio, sys
from a2a_bridge import agent, interface, serve

@agent(name="echo", push_notifications=True)
async def echo(text: str) -> str:
    return text

async def main() -> None:
    async with serve(echo, [interface(binding) for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]):
        print([name for name in ("aiohttp", "http.client", "httptools") if name in sys.modules])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "['httptools']"


def test_positional_options_keep_their_order() -> None:
    """Fields of base classes stand before those of a class, unless they are keyword-only."""

    def first(options: type, count: int) -> list[str]:
        return list(inspect.signature(options).parameters)[:count]

    assert first(ext.ServeOptions, 3) == ["http", "grpc", "host"]
    assert first(ext.UpstreamOptions, 1) == ["credentials"]
    assert first(ext.DialOptions, 2) == ["timeout", "connect_timeout"]
    assert first(ext.HostOptions, 2) == ["max_body", "max_values"]


# Type checkers see the right types of the protobuf classes and of executors; mypy stands for all of them.


SNIPPET = """
from a2a_bridge.pb import google_protobuf, google_rpc, lf_a2a_v1

task = lf_a2a_v1.Task(id="t", status=lf_a2a_v1.TaskStatus(state=lf_a2a_v1.TASK_STATE_WORKING))
reveal_type(task)  # lf_a2a_v1.Task
reveal_type(task.id)  # str
reveal_type(task.status.state)  # lf_a2a_v1.TaskState
reveal_type(task.status.timestamp)  # google_protobuf.Timestamp
reveal_type(task.metadata)  # google_protobuf.Struct
reveal_type(task.artifacts[0].parts[0].raw)  # bytes
reveal_type(lf_a2a_v1.Task.FromString(b""))  # lf_a2a_v1.Task
reveal_type(lf_a2a_v1.Role.Name(1))  # str
reveal_type(google_rpc.BadRequest.FieldViolation().field)  # str
reveal_type(google_protobuf.Value().struct_value)  # google_protobuf.Struct
task.identifier  # error: attr-defined
lf_a2a_v1.Task(id=7)  # error: arg-type
"""


def test_mypy_sees_the_types_of_messages(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    done = run(BIN / "mypy", "--config-file", ROOT / "pyproject.toml", file)
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, _, expected = line.partition("  # ")
        said = [text for text in done.stdout.splitlines() if f"snippet.py:{number}:" in text]
        if expected.startswith("error: "):
            assert any(text.endswith(f"[{expected.removeprefix('error: ')}]") for text in said), (code, said)
        elif expected:
            revealed = [match[1] for text in said if (match := re.search(r'Revealed type is "(.*?)"', text))]
            assert len(revealed) == 1, (code, said, done.stderr)
            short = revealed[0].removeprefix("builtins.").removeprefix("a2a_bridge.pb.")
            assert short == expected, code
        else:
            assert not said


EXECUTORS = """
from collections.abc import AsyncIterator
from a2a_bridge import Agent, Run
from a2a_bridge.ext import AgentEvent, AgentExecutor

class Subclass(AgentExecutor):
    async def execute(self, run: Run) -> AsyncIterator[AgentEvent]:
        yield run.start()

    async def cancel(self, run: Run) -> AsyncIterator[AgentEvent]:
        yield run.status("canceled")

class Empty: ...

Agent(Subclass())
Agent(Empty())
"""


def test_mypy_accepts_executors_without_optional_methods(tmp_path: Path) -> None:
    file = tmp_path / "executors.py"
    (block,) = (
        one for one in blocks(DOCS / "how-to/keep-tasks.md", "python") if "async def resume" in one.body
    )
    file.write_text(block.body + EXECUTORS)
    done = run(BIN / "mypy", "--config-file", ROOT / "pyproject.toml", file)
    (error,) = (line for line in done.stdout.splitlines() if ": error: " in line)
    assert 'has incompatible type "Empty"' in error


# User agents are read in one place: the recognition of peers. Conditions on them elsewhere become profiles.

#: code that reads or names the header of a request
NAMES = re.compile(r"user[-_ ]?agent", re.IGNORECASE)
#: headers that this project's own clients send, the count of callers, which keeps the text for people, fronts,
#: which pass the header on to that count, and requests as commands, which leave the header out
ALLOWED = {
    "adapters/a2a_bridge_adapters/fronts/callers.py",
    "tools/a2a_bridge_tools/client/equivalents.py",
    "a2a_bridge/middleware/usage.py",
    "a2a_bridge/cli/profiles.py",
    "transports/a2a_bridge_transports/_http/origin.py",
    "transports/a2a_bridge_transports/grpc/channel.py",
}


def test_only_the_profiles_and_their_recognition_know_user_agents() -> None:
    product = [path for path in modules() if path.relative_to(ROOT).parts[0] in PRODUCT]
    found = {
        str(path.relative_to(ROOT))
        for path in product
        if path.parent.name != "peers" and NAMES.search(path.read_text("utf-8"))
    }
    assert found == ALLOWED
