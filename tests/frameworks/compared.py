"""Servers and clients of frameworks with those of the official SDK: directly, and through this project.

`make frameworks` records the outcomes in compared.json; results.py makes the tables of pages from them.
"""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState

from a2a_bridge.hosting.identifiers import new_id
from tests.cli.commands import ANY_PORT, serving
from tests.frameworks.environments import environment, output_of, version_of
from tests.frameworks.programs import ANSWER, HERE, Framework, Remote
from tests.frameworks.running import running
from tests.patience import PATIENCE

RECORDED = HERE / "compared.json"
#: the agents that clients of frameworks call
SDK_AGENT, OWN_AGENT = HERE / "agents" / "a2a_sdk.py", HERE / "agents" / "a2a_bridge_agent.py"
#: Seconds. Some pairs wait for ever; it is no test of speed.
LONGEST = PATIENCE / 2
#: why a call has failed; empty if it has the answer
Outcome = dict[str, str]

_AT_REST = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)


async def server(framework: Framework) -> dict[str, Any]:
    """Outcomes of the official client before the server of a framework."""
    python = environment(framework.name, framework.packages)
    found: dict[str, Any] = {"packages": await _versions(python, framework.package)}
    async with running(python, HERE / "agents" / framework.program, "url") as origin:
        found["directly"] = await _official(f"{origin}/{framework.card}")
        async with serving("gateway", f"{origin}/{framework.card}", *ANY_PORT, *framework.flags) as gateway:
            found["gateway"] = await _official(gateway.http)
    return found


async def client(remote: Remote) -> dict[str, Any]:
    """Outcomes of the client of a framework before agents of the official SDK, and of this project."""
    python = environment(remote.environment, remote.packages)
    found: dict[str, Any] = {"packages": await _versions(python, remote.package)}

    async def called(url: str) -> Outcome:
        return {"send": await _fault(_printed(python, remote, url))}

    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(running(Path(sys.executable), SDK_AGENT, "0.3"))
        agent = await stack.enter_async_context(running(Path(sys.executable), SDK_AGENT))
        gateway = await stack.enter_async_context(serving("gateway", agent, *ANY_PORT, *remote.flags))
        own = await stack.enter_async_context(serving("serve", str(OWN_AGENT), *ANY_PORT, *remote.flags))
        found["directly"] = await called(agent)
        found["directly, with 0.3"] = await called(old)
        found["gateway"] = await called(gateway.http)
        found["serve"] = await called(own.http)
    return found


async def _versions(python: Path, package: str) -> dict[str, str]:
    """The version of a framework, and of the official SDK inside; empty if there is none."""
    try:
        sdk = await version_of(python, "a2a-sdk")
    except RuntimeError:
        sdk = ""
    return {package: await version_of(python, package), "a2a-sdk": sdk}


async def _printed(python: Path, remote: Remote, url: str) -> None:
    program = HERE / "clients" / remote.program
    printed = await output_of(python, str(program), url, *remote.arguments, patience=LONGEST)
    assert ANSWER in printed, f"it prints {printed!r}"


async def _fault(call: Awaitable[None]) -> str:
    """The last line of the error of a call, without addresses; empty if there is none."""
    try:
        async with asyncio.timeout(LONGEST):
            await call
    except TimeoutError:
        return "no answer"
    except Exception as error:  # noqa: BLE001  it is the cell of a table
        line = (str(error).strip() or repr(error)).splitlines()[-1]
        return re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST:PORT", line)[:200]
    return ""


async def _official(card_url: str) -> Outcome:
    """The outcomes of the official client: of a message, and of a streamed message if the card says that the agent
    streams.
    """
    parts = urlsplit(card_url)
    found = {"send": ""}

    async def called(streaming: bool) -> None:
        async with httpx.AsyncClient(timeout=LONGEST) as http:
            path = f"{parts.path.lstrip('/')}?{parts.query}".rstrip("?")
            resolver = A2ACardResolver(http, f"{parts.scheme}://{parts.netloc}")
            card = await resolver.get_agent_card(path or None)
            if card.capabilities.streaming:
                found.setdefault("stream", "")
            made = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http)).create(card)
            async with made:
                await _answered(made)

    found["send"] = await _fault(called(False))
    if "stream" in found:
        found["stream"] = await _fault(called(True))
    return found


async def _answered(made: Client) -> None:
    """Raises AssertionError if an agent does not give the answer."""
    message = Message(message_id=new_id(), role=Role.ROLE_USER, parts=[Part(text="a question")])
    events = [event async for event in made.send_message(SendMessageRequest(message=message))]
    told = "".join(map(str, events))
    if ANSWER not in told and events[-1].HasField("task"):
        task = events[-1].task
        while task.status.state not in _AT_REST:  # an agent that does not wait, whatever it is asked
            task = await made.get_task(GetTaskRequest(id=task.id))
        told = str(task)
    assert ANSWER in told, "the answer is missing"


def record(kind: str, name: str, found: dict[str, Any]) -> None:
    """Replaces the outcomes of a server or a client."""
    known = recorded()
    known["a2a-sdk"] = version("a2a-sdk")
    known[kind] = dict(sorted({**known[kind], name: found}.items()))
    RECORDED.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


def recorded() -> dict[str, Any]:
    """What was recorded: servers and clients by name."""
    if not RECORDED.exists():
        return {"a2a-sdk": "", "servers": {}, "clients": {}}
    found: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return found
