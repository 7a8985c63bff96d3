"""An agent that shows its input, ways to run applications, and what the page of an agent shows. No tests."""

import asyncio
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE

WELL_KNOWN = "/.well-known/agent-card.json"
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
EXTENSION = "https://ext.example/one"


class Showing:
    """Answers with its input: words streams them, ask asks back, tenant and ext show the call's context."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        self.runs.append(run)
        match run.text:
            case "words":
                yield run.artifact("one ", artifact_id="1", last=False)
                yield run.artifact("two", artifact_id="1", append=True)
                yield run.status("completed")
            case "ask":
                yield run.status("input-required", "which?")
            case "tenant":
                yield run.reply(f"tenant={run.context.tenant}")
            case "ext":
                yield run.reply(",".join(run.context.extensions))
            case "fail":
                raise A2AError(Reason.CONTENT_TYPE_NOT_SUPPORTED, "not that")
            case "hang":
                yield run.status("working")
                await run.wait_cancelled()
                yield run.status("canceled")
            case text if run.task is not None and run.task.status.state == hub.TASK_STATE_INPUT_REQUIRED:
                yield run.artifact(f"you said {text}")
                yield run.status("completed")
            case text:
                yield run.reply(f"{text}!")


def agent(**members: Any) -> Agent:
    extended = hub.AgentCard(
        name="extended",
        description="d",
        version="1",
        capabilities=hub.AgentCapabilities(streaming=True, extended_agent_card=True),
        skills=[hub.AgentSkill(id="x", name="x", description="x", tags=["x"])],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    extension = hub.AgentExtension(uri=EXTENSION, description="one")
    defaults: dict[str, Any] = {"name": "shows", "extended_card": extended, "extensions": [extension]}
    return Agent(Showing(), **defaults | members)


@asynccontextmanager
async def uvicorn_running(app: Any, **options: Any) -> AsyncIterator[str]:
    """The application under uvicorn, on a socket; gives its base URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, **options))
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(PATIENCE):
        while not server.started:  # noqa: ASYNC110  uvicorn offers no event
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE):
            await task


def commands(page: str) -> list[str]:
    """The examples on the page of an agent, without their colours."""
    blocks = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    return [html.unescape(re.sub(r"</?[biq]>", "", one)) for one in blocks]
