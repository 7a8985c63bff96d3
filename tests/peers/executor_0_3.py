"""The scripted executor of a2a-sdk 0.3 on our engine, as a program: every binding and version.

    .build/peers/0.3/bin/python tests/peers/executor_0_3.py PATHS STORE

What the environment lacks for our server is taken from PATHS, after it. STORE: a URL. It prints one line,
`ready http=http://HOST:PORT grpc=HOST:PORT`, and runs until its standard input ends.
"""

import asyncio
import logging
import os
import sys

sys.path += sys.argv[1].split(os.pathsep)

from scripted_v0 import ScriptedExecutor, card  # the environment's SDK, before any of ours

from a2a_bridge import Agent, serve
from a2a_bridge.app.process import ready_line
from a2a_bridge.app.runtime import ServeOptions


async def main(store: str) -> None:
    """Serves until standard input ends."""
    cards = [card("http://ignored.example", more_skills=more) for more in (False, True)]
    for one in cards:
        one.name = "Scripted (ours)"
    agent = Agent(ScriptedExecutor, card=cards[0], extended_card=cards[1])
    async with serve(agent, options=ServeOptions(store=store)) as server:
        print(ready_line(server), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[2]))
