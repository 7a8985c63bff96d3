import asyncio

from agents.mcp import MCPServerStreamableHttp
from tell import TOOL, URL, mcp


async def main() -> None:
    async with MCPServerStreamableHttp(
        params={"url": f"{URL}/mcp"}, client_session_timeout_seconds=60
    ) as server:

        async def names():
            return [one.name for one in await server.list_tools()]

        async def call(arguments):
            result = await server.call_tool(TOOL, arguments)
            return "".join(one.text for one in result.content)

        await mcp(names, call)


asyncio.run(main())
