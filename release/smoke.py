"""An agent on every binding, and a call over each of them: what the base installation is for.

Prints a line for each binding: its name, and the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from a2a_bridge import Agent, connect, interface, serve

BINDINGS = [
    interface("JSONRPC", "http://127.0.0.1:0/rpc"),
    interface("HTTP+JSON", "http://127.0.0.1:0/v1"),
    interface("GRPC", "127.0.0.1:0"),
]


class Echo:
    """Answers with the text of the message."""

    async def execute(self, run: Any) -> AsyncIterator[Any]:
        """The answer."""
        yield run.reply(run.text)


async def main() -> None:
    """Serves, and calls."""
    agent = Agent(Echo(), name="echo", description="Answers with the text of the message.")
    async with serve(agent, BINDINGS) as server:
        for one in server.card.supported_interfaces:
            async with connect(server.card, binding=one.protocol_binding) as peer:
                response = await peer.send("hello")
                print(one.protocol_binding, response.text)


asyncio.run(main())
