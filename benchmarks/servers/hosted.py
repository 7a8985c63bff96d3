"""The measured executor of the official SDK on a2a-bridge, as `Agent(executor)` serves it."""

from __future__ import annotations

import asyncio

from a2a_bridge.app.runtime import serve_agent
from a2a_bridge.cards import interface
from a2a_bridge.hosting import Agent
from benchmarks.servers.listening import ready
from benchmarks.servers.ours import BINDINGS
from benchmarks.servers.sdk import Agent as Executor
from benchmarks.servers.sdk import card


async def main() -> None:
    agent = Agent(Executor(), card=card())
    async with serve_agent(agent, [interface(binding) for binding in BINDINGS]) as server:
        assert server.http is not None
        assert server.grpc is not None
        ready(http=server.http.port, grpc=server.grpc.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
