"""The measured agent's echo as a tool of FastMCP, which is in an environment of its own. Argument: port."""

import sys

from fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]

server = FastMCP("measured")


@server.tool  # type: ignore[untyped-decorator,unused-ignore]
async def measured(message: str) -> str:
    """Repeats the message."""
    return message


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
