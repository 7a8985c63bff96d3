"""An agent that repeats its message; it reads more than the text from the Run.

    a2a-bridge serve examples/echo_agent.py
    a2a-bridge compare -a :8080 "hello"

In code, without the command:

    python examples/echo_agent.py
"""

from __future__ import annotations

import asyncio

from a2a_bridge import Run, agent, interface, serve
from a2a_bridge.ext import hub


@agent(name="Echo", description="Says what it hears")
async def echo(run: Run) -> hub.Message:
    return run.reply(*run.parts, metadata={"parts": len(run.parts)})


async def main() -> None:
    """Serves the declared interfaces only; the card lists exactly these."""
    interfaces = [interface("JSONRPC", "http://127.0.0.1:0/rpc"), interface("GRPC", "127.0.0.1:0")]
    async with serve(echo, interfaces) as server:
        for one in server.card.supported_interfaces:
            print(one.protocol_binding, one.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
