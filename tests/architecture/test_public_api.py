"""The names users import: changing them is a decision, not an accident."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import a2a_bridge
from a2a_bridge import ext
from tests.patience import PATIENCE

PUBLIC = {
    "a2a_bridge": [
        "A2AError",
        "Agent",
        "Client",
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
