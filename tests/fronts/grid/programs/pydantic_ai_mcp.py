import asyncio

from pydantic_ai.mcp import MCPToolset
from tell import TOOL, URL, mcp


async def main() -> None:
    async with MCPToolset(f"{URL}/mcp") as toolset:

        async def names():
            return [one.name for one in await toolset.list_tools()]

        async def call(arguments):
            return await toolset.direct_call_tool(TOOL, arguments)

        await mcp(names, call)


asyncio.run(main())
