"""An agent of AG2 whose model is elsewhere. Arguments: the URL of the agent; its transport."""

import asyncio
import sys

import ag2
from ag2.a2a import A2AConfig


async def main() -> None:
    transport = sys.argv[2] if len(sys.argv) > 2 else None
    remote = ag2.Agent("remote", config=A2AConfig(card_url=sys.argv[1], prefer=transport))
    print((await remote.ask("a question")).body)


asyncio.run(main())
